//! Tests of redaction: the corpora, the cases, and what must hold for any text.

use proptest::prelude::*;
use rstest::rstest;
use serde::Deserialize;

use super::*;

use self::texts::text;

mod arguments;
mod assignments;
mod blocks;
mod bounds;
mod headers;
mod keys;
mod lookalikes;
mod machine;
mod ordinary;
mod quotes;
mod registered;
mod shapes;
mod shortcut;
mod texts;
mod twice;
mod urls;

/// A text, whole or in parts: the parts keep scanners of repositories from tripping.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Parts {
    Whole(String),
    Parted(Vec<String>),
}

impl Parts {
    fn join(&self) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Parted(parts) => parts.concat(),
        }
    }
}

#[derive(Debug, Deserialize)]
struct Line {
    id: String,
    #[serde(rename = "in")]
    text: Parts,
    #[serde(default)]
    shape: String,
    /// Which parts are the secret: from, to.
    #[serde(default)]
    hide: (usize, usize),
    #[serde(default)]
    keep: Vec<String>,
    #[serde(default)]
    want: String,
}

fn corpus(text: &str) -> Vec<Line> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

fn secrets() -> Vec<Line> {
    corpus(include_str!("../../../tests/data/rules/secrets-corpus.jsonl"))
}

fn harmless() -> Vec<Line> {
    corpus(include_str!("../../../tests/data/rules/harmless-corpus.jsonl"))
}

fn redact(text: &str) -> String {
    Redactor::default().redact(text).text.into_owned()
}

#[test]
fn no_secret_of_the_corpus_is_missed_and_the_text_round_it_stays() {
    let secrets = secrets();
    let mut shapes: Vec<&str> = secrets.iter().map(|line| line.shape.as_str()).collect();
    shapes.sort_unstable();
    shapes.dedup();
    assert!(secrets.len() >= 120 && shapes.len() >= 40, "{} secrets in {} shapes", secrets.len(), shapes.len());
    let mut misses = Vec::new();
    for line in &secrets {
        let Parts::Parted(parts) = &line.text else { panic!("{}: in parts", line.id) };
        let secret = parts[line.hide.0..line.hide.1].concat();
        let out = redact(&parts.concat());
        // Neither the secret nor a piece of it that says anything.
        let leaks =
            secret.as_bytes().windows(secret.len().min(8)).any(|w| out.as_bytes().windows(w.len()).any(|o| o == w));
        let lost: Vec<&String> = line.keep.iter().filter(|keep| !out.contains(keep.as_str())).collect();
        if leaks || !lost.is_empty() || !out.contains(MASK) {
            misses.push(format!("{} {}: {} -> {out} (lost {lost:?})", line.id, line.shape, parts.concat()));
        }
    }
    println!("{} secrets in {} shapes: {} misses", secrets.len(), shapes.len(), misses.len());
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}

#[test]
fn nothing_harmless_of_the_corpus_is_masked() {
    let harmless = harmless();
    assert!(harmless.len() >= 200, "{}", harmless.len());
    let texts = harmless.iter().map(|line| (&line.id, line.text.join()));
    let hits: Vec<String> =
        texts.filter(|(_, t)| redact(t) != *t).map(|(id, t)| format!("{id}: {t} -> {}", redact(&t))).collect();
    println!("{} harmless texts: {} false hits", harmless.len(), hits.len());
    assert!(hits.is_empty(), "{}", hits.join("\n"));
}

#[test]
fn the_whole_corpus_is_redacted_alike_in_one_text() {
    // Every line must come out as it does alone: what is before it does not matter.
    let whole: String = harmless().iter().map(|line| line.text.join() + "\n").collect();
    assert_eq!(redact(&whole), whole);
}

#[test]
fn every_case_comes_out_as_it_wants() {
    let registered = ["hunter2-FAKE", "a.b*c[FAKE]+$"];
    let redactor = Redactor::new(&registered).unwrap();
    for line in corpus(include_str!("../../../tests/data/rules/secrets.jsonl")) {
        let text = line.text.join();
        let out = redactor.redact(&text);
        // Letter case is not ignored for registered values (4.27), and frames of two streams are two texts (4.29).
        let keeps = line.want.starts_with("KEEP");
        assert_eq!(out.hits.total() == 0, keeps, "{}: {text} -> {}", line.id, out.text);
    }
}

#[rstest]
#[case(&["https://deploy:", "p%40ssFAKE%2F9", "@git.example.test/r.git"], "https://deploy:REDACTED@git.example.test/r.git")]
#[case(&["postgres://app:", "Fa:ke@Pw/1", "@db.example.test:5432/x"], "postgres://app:REDACTED@db.example.test:5432/x")]
#[case(&["?access_token=", "FAKE-abc.123~x", "&page=2"], "?access_token=REDACTED&page=2")]
#[case(&["authorization:basic ", "ZmFrZTpwYXNzLUZBS0UtMQ=="], "authorization:basic REDACTED")]
#[case(&["-----BEGIN RSA PRIVATE ", "KEY-----\nMIIFAKEFAKE\n(output ends here)"], concat!("-----BEGIN RSA PRIVATE ", "KEY-----REDACTED"))]
#[case(&["{\"private_key\":\"-----BEGIN PRIVATE ", "KEY-----\\nMIIFAKE\\n-----END PRIVATE ", "KEY-----\\n\"}"], concat!("{\"private_key\":\"-----BEGIN PRIVATE ", "KEY-----REDACTED-----END PRIVATE ", "KEY-----\\n\"}"))]
#[case(&["{\"password\":", " 12345678}"], "{\"password\": \"REDACTED\"}")]
#[case(&["password: 'ab''c ", "x9'\nport: 1"], "password: 'REDACTED'\nport: 1")]
#[case(&["PASSWORD='ab'\\''c ", "x9' run"], "PASSWORD='REDACTED' run")]
#[case(&["postgres://žluťoučký:", "hunter2", "@db.example.com/x"], "postgres://žluťoučký:REDACTED@db.example.com/x")]
fn the_text_round_a_secret_stays(#[case] parts: &[&str], #[case] want: &str) {
    assert_eq!(redact(&parts.concat()), want);
}

/// Pieces that the scanner looks for, so that random texts are more than noise.
fn registered() -> Redactor {
    Redactor::new(&["hunter2-x9", "example.com/", "REDAC-x9", "a\nlonger line\nof text"]).unwrap()
}

#[rstest]
#[case("https://API_KEY:hunter2x9@example.com/", "https://API_KEY:REDACTED@example.com/")]
#[case("1p://u%API_KEY:hunter2x9@smtp[\"sm", "1p://u%API_KEY:REDACTED@smtp[\"sm")]
#[case("db://password:a,b@example.com/", "db://password:REDACTED@example.com/")]
#[case(
    "a://app:$PASSWORD@db.example.com/https://bob:s/?hunter2x9@git.example.com",
    "a://app:$PASSWORD@db.example.com/https://bob:REDACTED@git.example.com"
)]
#[case("api-key: process.env4aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF+~xU", "api-key: REDACTED")]
#[case("Cookie: eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30=hunter2x9; a=b", "Cookie: REDACTED")]
#[case("Cookie: session_id=hunter2x9", "Cookie: session_id=REDACTED")]
#[case(&["curl -ugh", "p_8jzPde0IgxLd6GncfBAep:hunter2x9 x"].concat(), "curl -uREDACTED:REDACTED x")]
#[case(&["curl -ugh", "p_8jzPde0IgxLd6GncfBAep: x"].concat(), "curl -uREDACTED: x")]
#[case("curl -uann:hunter2x9 x", "curl -uann:REDACTED x")]
#[case(
    "-H \\\"Authorization: ApiKey ://\\\u{fffd}\u{fffd}\"",
    "-H \\\"Authorization: ApiKey REDACTED\\\u{fffd}\u{fffd}\""
)]
fn what_was_masked_once_stays(#[case] text: &str, #[case] out: &str) {
    assert_eq!(Redactor::default().redact(text).text, out);
    assert_eq!(Redactor::default().redact(out).hits.total(), 0);
}

#[test]
fn a_mask_in_three_quotes_is_none_of_ours_to_mask() {
    for text in ["--api-key=\"\"\"REDACTED\"\"\"f", "key = '''REDACTED'''; x", "token=\"\"\"REDACTED"] {
        assert_eq!(Redactor::default().redact(text).hits.total(), 0, "{text}");
    }
    let text = "api_key = \"\"\"s3cr3t-v4lue\"\"\" x";
    assert_eq!(Redactor::default().redact(text).text, "api_key = \"\"\"REDACTED\"\"\" x");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_second_redaction_changes_nothing(text in text()) {
        for redactor in [Redactor::default(), registered()] {
            let once = redactor.redact(&text).text.into_owned();
            let twice = redactor.redact(&once);
            prop_assert_eq!(&*twice.text, &once, "from {:?}", text);
            prop_assert_eq!(twice.hits.total(), 0);
        }
    }

    #[test]
    fn the_redaction_of_a_head_is_a_head_of_the_redaction_of_the_whole(texts in proptest::collection::vec(text(), 1..5), padding in 0usize..9000, cut in any::<prop::sample::Index>()) {
        let text = texts.join(&" pad".repeat(padding / 4));
        let cut = text.floor_char_boundary(cut.index(text.len() + 1));
        for redactor in [Redactor::default(), registered()] {
            let whole = redactor.redact(&text);
            let (head, _) = redactor.redact_bytes(&text.as_bytes()[..cut], true);
            prop_assert!(whole.text.as_bytes().starts_with(&head), "{} of {:?}", cut, text);
            // What one reading leaves, the next ones finish.
            let first = redactor.read(&text, true).text;
            prop_assert_eq!(&whole.text, &redactor.redact(&first).text);
        }
    }

    #[test]
    fn any_text_without_a_hit_is_kept_as_it_is(text in text()) {
        let out = Redactor::default().redact(&text);
        if out.hits.total() == 0 {
            prop_assert_eq!(&*out.text, &text);
        }
        prop_assert_eq!(out.text.matches(MASK).count(), out.hits.total().max(out.text.matches(MASK).count()));
    }

    #[test]
    fn json_still_parses(user in text(), secret in text(), number in any::<i64>(), key in proptest::sample::select(vec!["password", "token", "apiKey", "note", "Authorization", "private_key", "count"]), cut in any::<prop::sample::Index>()) {
        let line = serde_json::json!({"user": user, key: secret, "n": {key: number}, "list": [secret, user]}).to_string();
        let out = redact(&line);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok(), "{} -> {}", line, out);
        let nested = serde_json::json!({"log": line}).to_string();
        let out = redact(&nested);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok(), "{} -> {}", nested, out);
        // A log line that was cut anywhere, behind a backslash too: what is beside it stays.
        let head = &line[..line.floor_char_boundary(cut.index(line.len() + 1))];
        let cut = serde_json::json!({"log": head, "next": 1}).to_string();
        let out = redact(&cut);
        let read = serde_json::from_str::<serde_json::Value>(&out);
        prop_assert!(read.is_ok_and(|read| read["next"] == 1), "{} -> {}", cut, out);
    }
}

#[test]
fn only_media_in_a_data_url_are_kept() {
    let run = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ7kL9";
    for head in ["data:image/x-icon;base64,", "data:font/ttf;base64,", "data:application/wasm;base64,"] {
        let text = format!("<img src=\"{head}{run}+/{run}==\"> x");
        assert_eq!(redact(&text), text);
        let text = format!("{head}{run} password=hunter2x9");
        assert_eq!(redact(&text), format!("{head}{run} password=REDACTED"));
    }
    for head in ["hint:image/x-icon;base64,", "data:text/plain;base64,", "data:image/x-icon;other,"] {
        assert_eq!(redact(&format!("{head}{run} x")), format!("{head}REDACTED x"));
    }
}

#[rstest]
#[case::numbers(r#"{"password":[8,64]}"#)]
#[case::nested_numbers(r#"{"pwd":[[1,2],[3,4]]}"#)]
#[case::header(r#"{"authorization":[[12345678]]}"#)]
#[case::sibling(r#"{"name":"API_KEY","value":[12345678]}"#)]
#[case::option_at_the_end(r#"[["x --token "],1,"x1y2"]"#)]
#[case::sql_at_the_end(r#"[["identified by "],1.5,"x1y2"]"#)]
#[case::machine_at_the_end(r#"[["machine h login u password "],1.5,"x1y2"]"#)]
#[case::passed_at_the_end(r#"[["openssl -passin pass:"],1.5,"x1y2"]"#)]
#[case::parameter_at_the_end(r#"[["?sig="],1.5,"x1y2"]"#)]
fn what_is_no_value_in_json_is_kept(#[case] text: &str) {
    assert_eq!(redact(text), text);
}

#[rstest]
#[case::backslash_in_the_name(r#"{"password\\": 1234567}"#, r#"{"password\\": "REDACTED"}"#)]
#[case::line_break_of_windows("- --password\r\n- hunter2x9\r\n", "- --password\r\n- REDACTED\r\n")]
#[case::last_at("db: user:p@ssw0rd1@tcp(db:3306)/x", "db: user:REDACTED@tcp(db:3306)/x")]
#[case::letters("db: user:p\u{e4}55w0rd@tcp(db:3306)/x", "db: user:REDACTED@tcp(db:3306)/x")]
#[case::stack(
    "- ParameterKey: DBPassword\n  ParameterValue: hunter2x",
    "- ParameterKey: DBPassword\n  ParameterValue: REDACTED"
)]
#[case::echoed(&["\"auth\": \"dXNlcjpo", "VW50ZXIyMgo=\""].concat(), "\"auth\": \"REDACTED\"")]
#[case::bracket_in_a_value("PASSWORD=\"}abc1234\" x", "PASSWORD=\"REDACTED\" x")]
#[case::name_behind_a_backslash("C:\\token=hunter2x9abc", "C:\\token=REDACTED")]
#[case::backslash_in_a_value("--password \"\\$ecret9\"", "--password \"REDACTED\"")]
fn odd_forms_of_secrets_are_masked(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(redact(text), expected);
}

#[rstest]
#[case("Removed flags:\n- --api-key\n- verbose output\n")]
#[case("- --token\n- Fixed crash on start\n")]
#[case("sshpass -f pw rsync -progress a b")]
#[case("{\"icon\": \"data:application/vnd.ms-fontobject;base64,aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ7kL9\"}")]
fn what_only_looks_like_an_argument_or_a_token_is_kept(#[case] text: &str) {
    assert_eq!(redact(text), text);
}

#[test]
fn a_secret_behind_a_picture_is_found() {
    assert_eq!(redact("see /9j/4AAQSkZJRg== password=hunter2x9"), "see /9j/4AAQSkZJRg== password=REDACTED");
}

#[test]
fn a_line_begins_behind_a_line_break_only() {
    assert_eq!(redact("note\npassword: correct horse battery"), "note\npassword: REDACTED");
    let far = ["x", &" ".repeat(130), "password: correct horse battery"].concat();
    assert_eq!(redact(&far), far);
}

#[test]
fn a_line_is_long_wherever_it_passes_the_window() {
    for blanks in (WINDOW_LOOKAHEAD - 64..3 * WINDOW_LOOKAHEAD).step_by(17) {
        let text =
            ["x", &" ".repeat(blanks), "password: correct horse battery\n", &"pad ".repeat(WINDOW_LOOKAHEAD)].concat();
        assert_eq!(redact(&text), text, "{blanks}");
    }
}

#[test]
fn a_token_is_long_enough_no_name_and_ends_where_its_alphabet_does() {
    let token = ["gh", "p_16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    assert_eq!(redact(&format!("see {token}.md")), "see REDACTED.md");
    for kept in ["see ghp_short1 x", "see sk-some-long-name-of-many-words-in-code x"] {
        assert_eq!(redact(kept), kept);
    }
}

#[rstest]
#[case("://ab/c", 5)]
#[case("://ab?c", 5)]
#[case("://a:b@c#d", 8)]
#[case("://ab c", 5)]
#[case("://ab\"c", 5)]
#[case("://ab\\nc", 5)]
#[case("://", 3)]
fn an_authority_ends_where_a_path_or_the_url_does(#[case] text: &str, #[case] len: usize) {
    assert_eq!(address::authority_len(text.as_bytes()), len);
}

#[rstest]
#[case("", 0)]
#[case("abc", 3)]
#[case("REDACTE", 7)]
#[case("REDACTED", 0)]
#[case("RRREDACTEDR", 2)]
#[case("a0RED_REDACTED.REDACTED", 6)]
#[case("REDACTEREDACTED", 7)]
fn a_run_goes_up_to_a_mask(#[case] run: &str, #[case] len: usize) {
    assert_eq!(shape::until_mask(run.as_bytes()), len);
}

#[test]
fn what_the_window_ends_in_does_not_end_a_secret() {
    for shift in 0..200 {
        let head = &"aB3".repeat(WINDOW_LOOKAHEAD)[..WINDOW_LOOKAHEAD - 180 + shift];
        for (before, escaped, after) in
            [("password=\"", "\\\"", "\" n"), ("password='", "''", "' n"), ("{\"token\":\"", "\\\\\\\"", "\"}")]
        {
            let text = [before, head, escaped, head, after].concat();
            assert_eq!(redact(&text), [before, MASK, after].concat(), "{shift}");
        }
    }
}

#[test]
fn a_secret_longer_than_the_window_is_masked_to_its_end() {
    let long = "aB3".repeat(WINDOW_LOOKAHEAD);
    for (text, want) in [
        (format!("password=\"{long}\" x"), "password=\"REDACTED\" x"),
        (format!("API_KEY={long} x"), "API_KEY=REDACTED x"),
        (format!("Bearer {long} x"), "Bearer REDACTED x"),
        (["gh", "p_", &long, " x"].concat(), "REDACTED x"),
        (format!("a://u:{long}@h x"), "a://u:REDACTED x"),
        (
            format!("-----BEGIN PRIVATE {}-----\n{long}\n-----END PRIVATE {}-----x", "KEY", "KEY"),
            concat!("-----BEGIN PRIVATE ", "KEY-----REDACTED-----END PRIVATE ", "KEY-----x"),
        ),
        (format!("password: |\n  {}\nuser: x", "line\n  ".repeat(3000)), "password: |\n  REDACTED\nuser: x"),
        (format!("{{\"password\":\"{}\",\"n\":1}}", "\\\\\\\"".repeat(3000)), "{\"password\":\"REDACTED\",\"n\":1}"),
    ] {
        assert_eq!(redact(&text), want);
    }
}

#[test]
fn a_text_that_ends_inside_a_secret_keeps_no_more_of_it_than_its_head() {
    let redactor = Redactor::new(&["registered-FAKE-value"]).unwrap();
    // Documented: the head of a registered value is not the value. What its shape tells is masked though cut.
    assert_eq!(redactor.redact("x registered-FAKE-").text, "x registered-FAKE-");
    assert_eq!(redactor.redact("x password=hunter2").text, "x password=REDACTED");
}
