//! Redaction is idempotent: a reading that would change what it gave is followed by another one. What fuzzing found, before there was
//! a second reading: texts that should read the same the second time, and do. Opaque parts stand apart from the text round them.

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

/// The same, and the first reading does it.
fn at_once(text: &str) -> String {
    assert_eq!(readings(text), (true, true), "{text}");
    once(text)
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
    assert_eq!(at_once(&parts.concat()), expected);
}

#[test]
fn a_user_ends_where_its_value_does() {
    at_once(&["curl -u é", &"é+`sib/site-packages/ü".repeat(20), ":hunter2x9 x"].concat());
}

#[test]
fn a_sentence_stays_one_when_a_part_of_it_is_masked() {
    at_once(&["{\"private_key\":\"é----BEGIN PRIVATE ", "KEY-----\\nMfLbsPhFdvHEWCPsmF4X PRIVATE KEY\"}"].concat());
}

#[test]
fn a_sentence_stays_one_wherever_the_look_at_it_ends() {
    for shift in 0..4 {
        let about = ["token: \"x", &"x".repeat(shift), " is the word that ", &"é".repeat(300), "\""].concat();
        assert_eq!(at_once(&about), about);
    }
}

#[rstest]
#[case("Authorization: Bearer env.TOKEN1234")]
#[case("Authorization: Bearer process.env.API_V2_KEY")]
#[case("a://0AA00aA0a0aa0AAAa0aaAa/aa/++A+AA:a@")]
#[case("https://example.com:8080/@scope.name/x")]
#[case("AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGhIj")]
fn what_only_looks_like_them_is_kept(#[case] text: &str) {
    assert_eq!(at_once(text), text);
}

/// Whether a second reading of all would mask something, and whether the parts that are read again say so.
fn readings(text: &str) -> (bool, bool) {
    let first = Redactor::default().read(text, true);
    let second = Redactor::default().read(&first.text, true);
    (second.hits.total() == 0, first.settled)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_again_says_what_a_second_reading_would(texts in proptest::collection::vec(text(), 1..6), padding in 0usize..6000) {
        let text = texts.join(&" pad".repeat(padding / 4));
        let (all, parts) = readings(&text);
        prop_assert_eq!(all, parts, "from {:?}", text);
    }
}
#[test]
fn one_reading_is_enough_for_the_corpora() {
    let texts: Vec<String> = secrets().iter().chain(&harmless()).map(|line| line.text.join() + "\n").collect();
    for text in texts.iter().chain([&texts.concat()]) {
        assert_eq!(readings(text), (true, true), "{text}");
    }
}

/// Texts whose first mask makes the rest look like credentials.
fn unsettled() -> [String; 3] {
    [
        ["Authorization:\u{6a930}8ey", "Jtxlrijzdcx0IkXvlrvo--passwordcc764ce1dd e982b8abcfe21d7"].concat(),
        ["%Authorization=j++xGNxMUQnPccx6++", "A4osHhCdw+p2f-----BEGIN ozyqvbewy\u{cca3}f1OP"].concat(),
        [
            "Authorization:aaf11aa544e1b9a1",
            "4436ed|-str1eafdba79ecbe8d28af/-----BEGIN /+wfac87e0ecfa5c28d0131c74c59a9f",
        ]
        .concat(),
    ]
}

#[test]
fn a_text_that_its_masks_change_is_read_again() {
    for odd in unsettled() {
        assert_eq!(readings(&odd), (false, false), "{odd}");
        assert_eq!(once(&odd).matches(MASK).count(), 2, "{odd}");
    }
    // Wherever the marks of the first reading stand, and whatever else is masked round it.
    let (settled, line) = ("password=hunter2x9\n", "a line of ordinary text that says nothing, not for long\n");
    for odd in unsettled() {
        for lines in (0..200).step_by(23) {
            let pad = line.repeat(lines);
            let text = [settled, &pad, &odd, "\n", &pad, settled].concat();
            assert_eq!(readings(&text), (false, false), "{lines} {odd}");
            let out = once(&text);
            assert_eq!((out.matches(MASK).count(), out.matches(line).count()), (4, 2 * lines), "{lines} {odd}");
            assert_eq!(readings(&[settled, &pad, settled, &pad, settled].concat()), (true, true));
        }
    }
}

#[test]
fn what_is_cut_is_a_head_of_the_whole_in_every_reading() {
    let line = "a line of ordinary text that says nothing, not for long\n";
    for odd in unsettled() {
        let text = [&line.repeat(100), &*odd, "\n", &line.repeat(300)].concat();
        let whole = redact(&text);
        for len in (0..text.len()).step_by(997) {
            let len = text.floor_char_boundary(len);
            let (head, _) = Redactor::default().redact_bytes(&text.as_bytes()[..len], true);
            assert!(whole.as_bytes().starts_with(&head), "{len} {odd}");
            assert!(head.len() + LOOKAHEAD + odd.len() >= len, "{len} {odd}");
        }
    }
}

#[test]
fn quotes_round_a_mask_make_no_registered_value() {
    for (value, text) in [
        ("\",\"next\":", r#"{"password":12345678,"next":1}"#),
        ("x1y2z3\\", r#"{"a":"{\"password\":12345678,\"x1y2z3":1}"}"#),
    ] {
        for redactor in [Redactor::new(&[value]).unwrap(), Redactor::new(&[value, "12345678"]).unwrap()] {
            let once = redactor.redact(text);
            assert_eq!(redactor.redact(&once.text).hits.total(), 0, "{}", once.text);
            let own = redactor.registered_only();
            let once = own.redact(text);
            assert_eq!(own.redact(&once.text).hits.total(), 0, "{}", once.text);
        }
    }
}
