//! Names before a place: where they begin, and what stands round them.

use super::key::{Kind, kind, preceding_key};
use super::*;

#[rstest]
#[case::php(" [password] ", true)]
#[case::a_reference_of_markdown("[password]", false)]
#[case::quoted("\"password\"", true)]
#[case::option("--password", true)]
#[case::nothing("", false)]
#[case::blanks("  ", false)]
fn a_name_is_told_from_what_is_none(#[case] text: &str, #[case] found: bool) {
    assert_eq!(preceding_key(text.as_bytes(), true).is_some(), found);
}

#[test]
fn a_name_has_at_most_80_bytes() {
    let name = |len: usize| ["x".repeat(len - 9), "_password".into()].concat();
    assert!(preceding_key(name(80).as_bytes(), true).is_some());
    assert!(preceding_key(name(81).as_bytes(), true).is_none());
}

#[rstest]
#[case("{\"password\"", 0)]
#[case("{\\\"password\\\"", 1)]
#[case("{\\\"apiToken\\\"", 1)]
#[case("{\\\\\\\"password\\\\\\\"", 3)]
fn how_deep_a_name_is_nested_is_counted(#[case] text: &str, #[case] slashes: usize) {
    assert_eq!(preceding_key(text.as_bytes(), true).unwrap().slashes, slashes);
}

/// Whether the name is the first of its line, and of a real one.
#[rstest]
#[case("password", true, (true, true))]
#[case("password", false, (false, false))]
#[case("x\npassword", false, (true, true))]
#[case("x\n  - password", false, (true, true))]
#[case("x password", true, (false, false))]
#[case("x\ny password", true, (false, false))]
#[case("\"x\\npassword", true, (true, false))]
fn where_a_line_begins_is_told(#[case] text: &str, #[case] begins: bool, #[case] expected: (bool, bool)) {
    let key = preceding_key(text.as_bytes(), begins).unwrap();
    assert_eq!((key.first, key.line), expected);
}

#[rstest]
#[case("Server=db;Password", true)]
#[case("Server=db;password", true)]
#[case("Server=db; Password", true)]
#[case("a=b; password", false)]
#[case("a;Password", false)]
#[case("Server=db Password", false)]
fn settings_of_connections_are_told_from_commands(#[case] text: &str, #[case] setting: bool) {
    assert_eq!(preceding_key(text.as_bytes(), true).unwrap().setting, setting);
}

#[rstest]
#[case("_auth", Some(Kind::Machine))]
#[case("basic_auth", None)]
#[case("auth", None)]
#[case("clientsecret", Some(Kind::Human))]
#[case("secret", Some(Kind::Human))]
#[case("token", Some(Kind::Machine))]
#[case("accesskey", Some(Kind::Machine))]
#[case("secretkey", Some(Kind::Machine))]
#[case("secretaccesskey", Some(Kind::Machine))]
#[case("api_key", Some(Kind::Machine))]
#[case("xauthtoken", Some(Kind::Machine))]
#[case("dbpass", Some(Kind::Human))]
#[case("db_pass", Some(Kind::Human))]
#[case("pass", None)]
#[case("sort_key", None)]
#[case("value", None)]
fn a_name_counts_by_its_last_words(#[case] name: &str, #[case] expected: Option<Kind>) {
    assert_eq!(kind(name, false), expected);
}

#[rstest]
#[case::plain("access_token", "access_token", "access_token")]
#[case::a_line_of_json("ntoken", "x\\ntoken", "token")]
#[case::no_escape("ntoken", "x ntoken", "ntoken")]
#[case::another_letter("btoken", "x\\btoken", "btoken")]
#[case::percent("3Ftoken", "a%3Ftoken", "token")]
#[case::percent_of_a_name("access_token", "%access_token", "cess_token")]
#[case::no_percent("zztoken", "a%zztoken", "zztoken")]
#[case::half_a_percent("3gtoken", "a%3gtoken", "3gtoken")]
#[case::unicode("u0026token", "a\\u0026token", "token")]
#[case::no_unicode("u002gtoken", "a\\u002gtoken", "u002gtoken")]
#[case::unicode_without_its_backslash("u0026token", "a/u0026token", "u0026token")]
#[case::short("3", "a%3", "3")]
fn a_name_begins_behind_an_escape(#[case] name: &str, #[case] text: &str, #[case] expected: &str) {
    assert_eq!(key::unescaped(name.as_bytes(), text.as_bytes()), expected.as_bytes());
}

#[rstest]
#[case("pw", true)]
#[case("xPass", true)]
#[case("Secret", true)]
#[case("sig", true)]
#[case("credential", true)]
#[case("COOKIE", true)]
#[case("token", true)]
#[case("apiKey", true)]
#[case("auth", true)]
#[case("jwt", true)]
#[case("pa", false)]
#[case("sec", false)]
#[case("crew", false)]
#[case("cooking", false)]
#[case("tone", false)]
#[case("kept", false)]
#[case("aunt", false)]
#[case("jw", false)]
#[case("p", false)]
#[case("", false)]
fn most_names_hold_no_part_of_that_of_a_secret(#[case] name: &str, #[case] expected: bool) {
    assert_eq!(key::may_name(name.as_bytes()), expected);
}
