//! Key blocks, read piece by piece.

use super::*;
use crate::pem::{self, Block};

const PRIVATE: &str = concat!("-----BEGIN PRIVATE ", "KEY-----");

#[rstest]
#[case::public("-----BEGIN CERTIFICATE-----\nMII", Some(Block::Public(27)))]
#[case::four_dashes("----BEGIN CERTIFICATE----\nMII", Some(Block::Public(25)))]
#[case::with_blanks("---- BEGIN SSH2 PUBLIC KEY ----\nMII", Some(Block::Public(31)))]
#[case::three_dashes("---BEGIN CERTIFICATE-----\n", None)]
#[case::closed_by_three("-----BEGIN CERTIFICATE---\n", None)]
#[case::both_three("---BEGIN CERTIFICATE---\n", None)]
#[case::no_begin("-----END CERTIFICATE-----\n", None)]
fn a_block_begins_with_a_line_of_its_own(#[case] text: &str, #[case] expected: Option<Block>) {
    assert_eq!(pem::begin(text.as_bytes()), expected);
}

#[rstest]
#[case::lines("\nMII", Some(false))]
#[case::blanks_before_the_break(" \t\r\nMII", Some(false))]
#[case::escaped_breaks("\\nMII", Some(true))]
#[case::escaped_twice("\\\\rMII", Some(true))]
#[case::another_escape("\\xMII", None)]
#[case::one_line("aB3dE5gH7jK9mN1p", Some(true))]
#[case::too_short_a_line("aB3dE5gH7jK9mN1", None)]
#[case::prose("notabody", None)]
#[case::masked("\n REDACTED", None)]
#[case::masked_in_one_line("REDACTEDaB3dE5gH7jK9mN1p", None)]
#[case::quoted("\" is the first line", None)]
fn a_private_block_has_a_body(#[case] body: &str, #[case] in_one_line: Option<bool>) {
    let begun = pem::begin([PRIVATE, body].concat().as_bytes());
    assert_eq!(begun, in_one_line.map(|in_one_line| Block::Private(PRIVATE.len(), in_one_line)));
}

#[rstest]
#[case::end("MI-I\n-----END X-----", false, (5, true))]
#[case::end_with_a_blank("MI-I\n---- END X ----", false, (5, true))]
#[case::none("MI-I\nMI", false, (7, false))]
#[case::quote_in_lines("MI\"I\n-----END", false, (5, true))]
#[case::backslash_in_lines("MI\\\"I-----END", false, (5, true))]
#[case::quote_of_the_string("MI\"I", true, (2, true))]
#[case::single_quote("MI'I", true, (2, true))]
#[case::escaped_quote("MI\\\\\"I", true, (2, true))]
#[case::escaped_break("MI\\nI\"", true, (5, true))]
fn a_body_ends_with_its_line_or_its_string(#[case] text: &str, #[case] escaped: bool, #[case] len: (usize, bool)) {
    assert_eq!(pem::body_len(text.as_bytes(), escaped), len);
}

#[rstest]
#[case::line("ab+/=\nc", Some(6))]
#[case::carriage_return("abc\r\nd", Some(5))]
#[case::escaped("abc\\nd", Some(5))]
#[case::escaped_twice("abc\\\\rd", Some(6))]
#[case::another_escape("abc\\xd", None)]
#[case::indented("abc\n  d", Some(6))]
#[case::blank("ab c\n", None)]
#[case::end("abc", None)]
#[case::masked("abREDACTED\n", None)]
fn a_line_of_a_public_block_is_base64_to_its_break(#[case] text: &str, #[case] len: Option<usize>) {
    assert_eq!(pem::public_line(text.as_bytes()), len);
}

#[test]
fn a_line_of_a_public_block_has_at_most_78_characters() {
    for (len, expected) in [(78, Some(79)), (79, None), (200, None)] {
        assert_eq!(pem::public_line(["a".repeat(len), "\n".to_owned()].concat().as_bytes()), expected, "{len}");
    }
}
