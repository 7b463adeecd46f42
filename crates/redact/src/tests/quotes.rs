//! Where a value in quotes ends: in code, shells, SQL, YAML, and JSON that stands in JSON.

use rstest::rstest;

use super::value::{Opening, UnquotedValue, closes, open, quote, quoted_len};
use super::*;

#[rstest]
#[case::plain(r#"ab"c"#, '"', 0, 2)]
#[case::not_closed("ab", '"', 0, 2)]
#[case::line("ab\ncd\"", '"', 0, 2)]
#[case::escaped(r#"a\"b"c"#, '"', 0, 4)]
#[case::a_backslash_at_the_end(r#"a\\"b"#, '"', 0, 3)]
#[case::another_escape(r#"a\nb"c"#, '"', 0, 4)]
#[case::doubled("a''b'c", '\'', 0, 4)]
#[case::empty("''b", '\'', 0, 0)]
#[case::of_a_shell(r"a'\''b'c", '\'', 0, 6)]
#[case::a_double_quote_in_single_ones(r#"hun"ter2x9'"#, '\'', 0, 10)]
#[case::the_end_of_a_string_round_it(r#"hun",x'"#, '\'', 0, 3)]
#[case::at_the_end_of_the_text("hun\"", '\'', 0, 3)]
#[case::an_escaped_one_in_single_ones(r#"ab\"cd'"#, '\'', 0, 6)]
#[case::an_escaped_end_of_a_string(r#"ab\",x'"#, '\'', 0, 2)]
#[case::backtick("a\"b`c", '`', 0, 3)]
#[case::nested(r#"ab\"c"#, '"', 1, 2)]
#[case::the_string_round_it_ends(r#"ab"c"#, '"', 1, 2)]
#[case::escaped_in_nested(r#"ab\\\"c\"d"#, '"', 1, 7)]
#[case::a_backslash_at_the_end_of_nested(r#"ab\\"c"#, '"', 1, 4)]
#[case::nested_twice(r#"ab\\\"c"#, '"', 3, 2)]
#[case::two_backslashes_of_three(r#"ab\\"c"#, '"', 3, 2)]
#[case::fewer_backslashes(r#"ab\"c"#, '"', 3, 2)]
#[case::an_escaped_single_one_in_nested(r#"ab\\'cd"e"#, '\'', 1, 7)]
#[case::another_escape_in_nested(r#"ab\\cd\"e"#, '"', 1, 6)]
#[case::single_in_nested(r#"ab\"c'"#, '\'', 1, 2)]
fn a_value_in_quotes_ends_at_its_quote(
    #[case] text: &str,
    #[case] quote: char,
    #[case] depth: usize,
    #[case] len: usize,
) {
    assert_eq!(quoted_len(text.as_bytes(), u8::try_from(quote).unwrap(), depth), len);
}

#[rstest]
#[case::in_code("password='hun\"ter2x9'", "password='REDACTED'")]
#[case::in_json("{\"a\": \"password='hunter2x9\", \"b\": 1}", "{\"a\": \"password='REDACTED\", \"b\": 1}")]
fn a_double_quote_ends_a_value_in_single_ones_where_a_string_does(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(redact(given), expected);
}

#[rstest]
#[case::none("ab", 0, None, false)]
#[case::blanks("  ab", 2, None, false)]
#[case::double(" \"ab", 2, Some((b'"', 0)), false)]
#[case::backtick("`ab", 1, Some((b'`', 0)), false)]
#[case::prefix("rb'ab", 3, Some((b'\'', 0)), false)]
#[case::no_prefix("xy'ab", 0, None, false)]
#[case::too_long_a_prefix("frb'ab", 0, None, false)]
#[case::escaped("\\\"ab", 2, Some((b'"', 1)), false)]
#[case::prefix_and_escape("f\\\"ab", 3, Some((b'"', 1)), false)]
#[case::tripled("\"\"\"ab", 3, Some((b'"', 0)), true)]
#[case::prefix_and_tripled("f'''ab", 4, Some((b'\'', 0)), true)]
#[case::empty("\"\"", 1, Some((b'"', 0)), false)]
#[case::next_line("\n\"ab", 0, None, false)]
fn a_value_opens_with_its_quote(
    #[case] text: &str,
    #[case] skip: usize,
    #[case] quote: Option<(u8, usize)>,
    #[case] tripled: bool,
) {
    assert_eq!(open(text.as_bytes(), false), Opening { skip, quote, tripled });
}

#[test]
fn a_value_of_json_may_stand_in_the_next_line() {
    assert_eq!(open(b"\r\n \"ab", true), Opening { skip: 4, quote: Some((b'"', 0)), tripled: false });
    let far = [&" ".repeat(256), "\"ab"].concat();
    assert_eq!(open(far.as_bytes(), true).quote, Some((b'"', 0)));
    let farther = [" ", &far].concat();
    assert_eq!(open(farther.as_bytes(), true), Opening { skip: 256, quote: None, tripled: false });
}

#[rstest]
#[case("", true)]
#[case("}", true)]
#[case("],", true)]
#[case("} ", true)]
#[case("}x", false)]
#[case(", ", true)]
#[case(",\"", true)]
#[case(",x", false)]
#[case(": 1", true)]
#[case(":x", false)]
#[case(",true", true)]
#[case(" , ", false)]
#[case("x", false)]
fn a_quote_closes_a_string_where_json_goes_on(#[case] after: &str, #[case] expected: bool) {
    assert_eq!(closes(after.as_bytes()), expected);
}

#[rstest]
#[case(UnquotedValue::Word, "a,b c", 3)]
#[case(UnquotedValue::Word, "a\"b", 1)]
#[case(UnquotedValue::Word, "a`b", 1)]
#[case(UnquotedValue::Word, "a\tb", 1)]
#[case(UnquotedValue::Word, "a\rb", 1)]
#[case(UnquotedValue::Word, "a\\,b c", 4)]
#[case(UnquotedValue::Word, "a\\\"b", 1)]
#[case(UnquotedValue::Word, "a\\nb", 1)]
#[case(UnquotedValue::Word, "a\\\\nb c", 5)]
#[case(UnquotedValue::Word, "a\\", 2)]
#[case(UnquotedValue::Item, "a,b", 1)]
#[case(UnquotedValue::Item, "a;b", 1)]
#[case(UnquotedValue::Item, "a)b", 1)]
#[case(UnquotedValue::Item, "a}b", 1)]
#[case(UnquotedValue::Item, "a]b", 1)]
#[case(UnquotedValue::Item, "a<b", 1)]
#[case(UnquotedValue::Item, "a>b", 1)]
#[case(UnquotedValue::Item, "a|b", 1)]
#[case(UnquotedValue::Item, "a&b", 1)]
#[case(UnquotedValue::Item, "a#b%26", 6)]
#[case(UnquotedValue::Query, "a,b&c", 3)]
#[case(UnquotedValue::Query, "a#b", 1)]
#[case(UnquotedValue::Query, "a<b", 1)]
#[case(UnquotedValue::Query, "a>b", 1)]
#[case(UnquotedValue::Query, "a%26b", 1)]
#[case(UnquotedValue::Query, "a%2Fb", 5)]
#[case(UnquotedValue::Line, "a\"b c", 3)]
#[case(UnquotedValue::Line, "a;b c", 3)]
#[case(UnquotedValue::Line, "a; c", 1)]
#[case(UnquotedValue::Line, "a;", 1)]
#[case(UnquotedValue::Line, "a&&b", 1)]
#[case(UnquotedValue::Line, "a||b", 1)]
#[case(UnquotedValue::Line, "a|b&c", 5)]
#[case(UnquotedValue::Line, "a& b", 1)]
#[case(UnquotedValue::Setting, "a b;c", 3)]
#[case(UnquotedValue::Setting, "a\tb\nc", 3)]
#[case(UnquotedValue::Setting, "a\"b", 1)]
fn a_value_without_quotes_ends_at_what_parts_it(#[case] bare: UnquotedValue, #[case] text: &str, #[case] len: usize) {
    assert_eq!(bare.len(text.as_bytes()), len);
}

#[rstest]
#[case(&[0, 2, 4, 8], "\"")]
#[case(&[1, 5, 9], "\\\"")]
#[case(&[3, 11, 19], "\\\\\\\"")]
#[case(&[7, 15], "")]
fn a_mask_in_place_of_a_number_has_the_quotes_of_its_depth(#[case] slashes: &[usize], #[case] expected: &str) {
    assert!(slashes.iter().all(|slashes| quote(*slashes) == expected), "{slashes:?}");
}
