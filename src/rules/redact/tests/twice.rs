//! What fuzzing found: texts that once read otherwise the second time. Opaque parts stand apart from the text round them.

use super::*;

/// A run that looks random.
const RUN: &str = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3f";

/// Redacts, and again: nothing is masked the second time.
fn once(text: &str) -> String {
    let once = redact(text);
    let again = Redactor::default().redact(&once);
    assert_eq!((&*again.text, again.hits.total()), (&*once, 0), "a second redaction changes something");
    once
}

#[rstest]
#[case::slash_of_an_authority(&["qp://guest:m/services/", RUN, "é8@mq/\"]"], "qp://guest:m/REDACTEDé8@mq/\"]")]
#[case::key_without_line_breaks(
    &["{\"k\":\"-----BEGIN PRIVATE ", "KEY-----", "aaaaaAaA0aA0aA0A", "\",\"n\":1}"],
    "{\"k\":\"-----BEGIN PRIVATE KEY-----REDACTED\",\"n\":1}"
)]
#[case::value_that_a_mask_made_longer(
    &["curl -u x\\\": { Authorization: -ubozb:hunu\"x\\"],
    "curl -u x\\\": { Authorization: -ubozb:REDACTED\"x\\"
)]
#[case::beginning_of_a_reference(
    &["Authorization: Bearer env.", "eyJzzHzLcciTA1bHT08d77b6Ut-k", ".eyé\""],
    "Authorization: Bearer REDACTED\""
)]
#[case::user_whose_end_is_not_seen(
    &["curl -u é", RUN, RUN, RUN, RUN, RUN, RUN, RUN, RUN, "é:hunter2x9 x"],
    "curl -u REDACTED x"
)]
#[case::text_glued_to_padding(&["Basic dTpodW501XIyeA=signing_", "smmck1CsWo3LZuTJUjt6qiza", " x"], "Basic REDACTED x")]
#[case::url_in_place_of_a_user(
    &["curl -u a://$USER:$:TOKEN@git.example.com/a.git"],
    "curl -u a://$USER:REDACTED@git.example.com/a.git"
)]
#[case::string_that_was_cut_behind_a_backslash(
    &[r#"{"msg":"{\"password\":\"hunter2x9\\","next":1}"#],
    r#"{"msg":"{\"password\":\"REDACTED","next":1}"#
)]
#[case::nested_string_that_was_cut(
    &[r#"{"a":"{\"msg\":\"password=\\\"hunter2x9\\\\\",\"b\":1}","next":1}"#],
    r#"{"a":"{\"msg\":\"password=\\\"REDACTED\",\"b\":1}","next":1}"#
)]
#[case::other_quotes_in_a_string(
    &[r#"{"log":"jwt\\\":\\'sygt4XL1cDNjexaolHX8C -- \"hide\": 1","next":1}"#],
    r#"{"log":"jwt\\\":\\'REDACTED\"hide\": 1","next":1}"#
)]
#[case::three_quotes_in_a_string(
    &[r#"{"log":"token ==```hunter2x9","next":"a ```"}"#],
    r#"{"log":"token ==```REDACTED","next":"a ```"}"#
)]
#[case::option_in_place_of_a_cookie(&["mysql Cookie: -pniWey=hunter2x9"], "mysql Cookie: REDACTED")]
#[case::mask_in_a_sentence_about_a_secret(
    &["password = \"about the ghp_tokens", "16C7e42F292c6912E7710c838347Ae178B4a", " here\""],
    "password = \"REDACTED\""
)]
#[case::scheme_named_like_a_secret(
    &["API_KEY://bob:", "hunter2", "@git.example.com"],
    "API_KEY://bob:REDACTED@git.example.com"
)]
#[case::keyword_among_other_text(&["DB_PASSWORD=", "é!é!é!", "PASSWORD=", "é?é?é?"], "DB_PASSWORD=REDACTED")]
fn a_secret_reads_the_same_the_second_time(#[case] parts: &[&str], #[case] expected: &str) {
    assert_eq!(once(&parts.concat()), expected);
}

#[test]
fn a_user_ends_where_its_value_does() {
    once(&["curl -u é", &"é+`sib/site-packages/ü".repeat(20), ":hunter2x9 x"].concat());
}

#[test]
fn a_sentence_stays_one_when_a_part_of_it_is_masked() {
    once(&["{\"private_key\":\"é----BEGIN PRIVATE ", "KEY-----\\nMfLbsPhFdvHEWCPsmF4X PRIVATE KEY\"}"].concat());
}

#[test]
fn a_sentence_stays_one_wherever_the_look_at_it_ends() {
    for shift in 0..4 {
        let about = ["token: \"x", &"x".repeat(shift), " is the word that ", &"é".repeat(300), "\""].concat();
        assert_eq!(once(&about), about);
    }
}

#[rstest]
#[case("Authorization: Bearer env.TOKEN1234")]
#[case("Authorization: Bearer process.env.API_V2_KEY")]
#[case("a://0AA00aA0a0aa0AAAa0aaAa/aa/++A+AA:a@")]
#[case("https://example.com:8080/@scope.name/x")]
#[case("AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGhIj")]
fn what_only_looks_like_them_is_kept(#[case] text: &str) {
    assert_eq!(once(text), text);
}
