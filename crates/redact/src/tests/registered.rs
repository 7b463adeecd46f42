//! Registered values: the forms in which they are found, and their borders.

use super::*;

#[test]
fn a_registered_value_is_masked_in_every_form_that_tools_write() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let secret = ["tok-FAKE", "/77 31<&>\"x"].concat();
    let redactor = Redactor::new(&[&secret]).unwrap();
    let json = serde_json::to_string(&secret).unwrap();
    let mut texts = vec![secret.clone(), format!("xx{secret}yy"), json.clone(), serde_json::to_string(&json).unwrap()];
    texts.push(json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"));
    texts.push("tok-FAKE%2F77%2031%3C%26%3E%22x".to_owned());
    texts.push("tok-FAKE%2f77+31%3C%26%3E%22x".to_owned().replace("%2f", "%2F"));
    texts.extend(["", "a", "ab"].map(|before| STANDARD.encode(format!("{before}{secret}\n"))));
    for text in texts {
        let out = redactor.redact(&text);
        assert_eq!(out.hits.iter().next(), Some((Rule::Registered, 1)), "{text} -> {}", out.text);
    }
    assert_eq!(redactor.redact("TOK-fake/77 31<&>\"x").hits.total(), 0, "letter case is not ignored");
}

#[test]
fn a_registered_value_is_masked_in_base64_of_several_lines() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    for length in [60, 120, 190, 500] {
        let secret: String = (0..length).map(|i: u32| char::from(b'!' + u8::try_from(i * 7 % 90).unwrap())).collect();
        let redactor = Redactor::new(&[&secret]).unwrap().registered_only();
        let encoded = STANDARD.encode(format!("{secret}\n"));
        for width in [64, 76] {
            let lines: Vec<&str> =
                (0..encoded.len()).step_by(width).map(|at| &encoded[at..encoded.len().min(at + width)]).collect();
            let out = redactor.redact(&lines.join("\n")).text.replace(MASK, "");
            // The characters of the newline stay, and breaks between pieces.
            assert!(out.trim().len() <= 4 && !out.contains(&encoded[..4]), "{length} {width}: {out}");
        }
    }
}

#[test]
fn a_registered_value_is_masked_in_the_escapes_of_javascript_and_python() {
    let secret = ["h\u{e9}llo/w\u{1f600}", "!(x)*'y z"].concat();
    let redactor = Redactor::new(&[&secret]).unwrap().registered_only();
    for text in [
        "h%C3%A9llo%2Fw%F0%9F%98%80!(x)*'y%20z",
        "h%C3%A9llo/w%F0%9F%98%80!(x)*'y%20z",
        "h%C3%A9llo/w%F0%9F%98%80%21%28x%29%2A%27y%20z",
        "h\\u00e9llo/w\\ud83d\\ude00!(x)*'y z",
    ] {
        assert_eq!(redactor.redact(text).text, MASK, "{text}");
    }
}

#[test]
fn registered_values_that_overlap_are_masked_together() {
    let redactor = Redactor::new(&["token-12", "12-very-long-value"]).unwrap().registered_only();
    assert_eq!(redactor.redact("a token-12-very-long-value b").text, "a REDACTED b");
    assert_eq!(redactor.redact("a token-12-very b").text, "a REDACTED-very b");
}

#[test]
fn registered_values_are_literal_whole_by_line_and_not_too_short() {
    let redactor =
        Redactor::new(&["a.b*c[FAKE]+$", "{\n  \"a\": \"FAKE9\"\n}", "x", "", "trailing-newline\n"]).unwrap();
    for (text, want) in [
        ("see a.b*c[FAKE]+$ there", "see REDACTED there"),
        ("aXbbc", "aXbbc"),
        ("{\n  \"a\": \"FAKE9\"\n}", "REDACTED"),
        ("{\r\n  \"a\": \"FAKE9\"\r\n}", "REDACTED"),
        ("got \"a\": \"FAKE9\" back", "got REDACTED back"),
        ("x { e } x", "x { e } x"),
        ("a trailing-newline here", "a REDACTED here"),
    ] {
        assert_eq!(redactor.redact(text).text, want);
    }
    let long: String = (0..5000).map(|i: u32| char::from(b'a' + u8::try_from(i * i % 23).unwrap())).collect();
    let out = Redactor::new(&[&long]).unwrap().redact(&format!("<{long}>")).text.into_owned();
    assert_eq!(out.replace(MASK, ""), "<>", "a long value is masked by pieces");
    assert!(!format!("{:?}", Redactor::new(&["hunter2-FAKE"]).unwrap()).contains("hunter2"));
}

#[test]
fn a_registered_value_at_the_edge_of_the_window_is_masked_whole() {
    let redactor = Redactor::new(&["hunter2-FAKE", "hunter2-FAKE-and-more"]).unwrap();
    for before in WINDOW_LOOKAHEAD - 40..WINDOW_LOOKAHEAD + 4 {
        let text = format!("{}hunter2-FAKE-and-more{}", ".".repeat(before), ".".repeat(WINDOW_LOOKAHEAD));
        let Redacted { text: out, hits } = redactor.redact(&text);
        assert_eq!(out, text.replace("hunter2-FAKE-and-more", MASK), "{before}");
        assert_eq!(hits.total(), 1);
    }
}

#[test]
fn a_redactor_shows_no_value() {
    let value = ["hunter2", "-x9"].concat();
    let shown = format!("{:?}", Redactor::new(&[&value]).unwrap());
    assert!(shown.contains("Registered(…)") && !shown.contains(&value), "{shown}");
}

#[rstest]
#[case(r#"{"pin":20304050,"n":1}"#, r#"{"pin":"REDACTED","n":1}"#)]
#[case("{\"pin\": 20304050\n}", "{\"pin\": \"REDACTED\"\n}")]
#[case(r#"{"log":"{\"pin\":20304050}"}"#, r#"{"log":"{\"pin\":\"REDACTED\"}"}"#)]
#[case(r#"{"pin":"20304050"}"#, r#"{"pin":"REDACTED"}"#)]
#[case("pin: 20304050\n", "pin: REDACTED\n")]
fn a_registered_number_leaves_json_what_it_is(#[case] text: &str, #[case] expected: &str) {
    let redactor = Redactor::new(&["20304050"]).unwrap();
    assert_eq!(redactor.registered_only().redact(text).text, expected);
    let out = redactor.redact(text).text;
    assert_eq!(redactor.redact(&out).hits.total(), 0);
    if text.starts_with('{') {
        assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok(), "{out}");
    }
}

#[test]
fn registered_only_leaves_what_is_recognised_by_its_shape() {
    let redactor = Redactor::new(&["first-of-ours"]).unwrap().registered_only();
    let out = redactor.redact("first-of-ours password=hunter2x9");
    assert_eq!((&*out.text, out.hits.total()), ("REDACTED password=hunter2x9", 1));
    let (bytes, hits) = redactor.redact_bytes(b"\xff first-of-ours password=hunter2x9", false);
    assert_eq!((&*bytes, hits.total()), (&b"\xff REDACTED password=hunter2x9"[..], 1));
}

#[test]
fn rules_have_the_names_of_the_documentation() {
    let rules = [Rule::Registered, Rule::Authorization, Rule::UrlPassword, Rule::OpaqueRun];
    assert_eq!(rules.map(Rule::as_str), ["Registered", "Authorization", "UrlPassword", "OpaqueRun"]);
}
