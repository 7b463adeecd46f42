//! Tokens that are known by their shape, each at the edges of its own.

use rstest::rstest;

use super::value::MaskEnd;
use super::*;

/// What is found where a text of these parts begins: bytes kept, and bytes masked behind them where their number is known.
fn found(parts: &[&str]) -> Option<(usize, Option<usize>)> {
    shape::find(parts.concat().as_bytes()).map(|(keep, until)| match until {
        MaskEnd::Count(count) => (keep, Some(count)),
        MaskEnd::Run(_) => (keep, None),
        other => panic!("{other:?}"),
    })
}

/// So many characters that are no name.
fn mixed(len: usize) -> String {
    "a1".repeat(len).chars().take(len).collect()
}

#[rstest]
#[case::shortest(&mixed(16), true)]
#[case::too_short(&mixed(15), false)]
#[case::a_name("some_function_of_code", false)]
#[case::a_name_in_capitals("SOME_CONSTANT_OF_CODE", false)]
#[case::letters_of_both_kinds("abcdefghijklmnoP", true)]
fn a_head_makes_a_token_of_what_is_long_and_no_name(#[case] rest: &str, #[case] token: bool) {
    assert_eq!(found(&["gh", "p_", rest, " x"]), token.then_some((0, Some(4 + rest.len()))));
    assert_eq!(found(&["gh", "p_", rest]), token.then_some((0, None)), "its end is not in sight");
    assert_eq!(found(&["gh", "q_", rest]), None);
}

#[rstest]
#[case("AKIA", 16, true)]
#[case("ASIA", 16, true)]
#[case("ABIA", 16, true)]
#[case("ACCA", 20, true)]
#[case("AKIA", 15, false)]
#[case("AKIA", 21, false)]
#[case("AKIB", 16, false)]
fn a_key_id_has_16_to_20_characters(#[case] head: &str, #[case] len: usize, #[case] token: bool) {
    let id = mixed(len).to_ascii_uppercase();
    assert_eq!(found(&[head, &id]), token.then_some((0, Some(4 + len))));
    assert_eq!(found(&[head, &id.replacen('A', "a", 1)]), None, "no small letters");
    let letters = "B".repeat(len);
    assert_eq!(found(&[head, &letters]).is_some(), token);
}

#[rstest]
#[case::two_parts("abcdefg.bcdefghij", true)]
#[case::too_short("abcdefg.bcdefghi", false)]
#[case::a_short_second_part("abcdefghijklmnop.abc", false)]
#[case::a_second_part("abcdefghijklmnop.abcd", true)]
fn a_web_token_has_parts(#[case] rest: &str, #[case] token: bool) {
    assert_eq!(found(&["ey", "J", rest, " x"]), token.then_some((0, None)));
}

#[test]
fn a_web_token_of_one_part_is_long() {
    assert_eq!(found(&["ey", "J", &"a".repeat(61)]), Some((0, None)));
    assert_eq!(found(&["ey", "J", &"a".repeat(60)]), None);
}

#[rstest]
#[case::shortest(&mixed(20), true)]
#[case::too_short(&mixed(19), false)]
#[case::a_name("abcdefghijklmnopqrstuvwxyz", false)]
#[case::three_capitals("ABCdefghijklmnopqrst", false)]
#[case::four_capitals("ABCDefghijklmnopqrst", true)]
#[case::two_parts("a1cdefg-hijklmnopqrs", true)]
#[case::three_parts("a1-cdefgh-jklmnopqrst", false)]
#[case::three_parts_with_a_sign_of_names("a1_cdefgh-jklmnopqrst", false)]
#[case::three_long_parts("a1-cdefghij-klmnopqrstuv", true)]
fn a_secret_key_has_a_digit_and_few_parts(#[case] rest: &str, #[case] token: bool) {
    assert_eq!(found(&["s", "k-", rest, " x"]), token.then_some((0, None)));
}

#[rstest]
#[case("hooks.slack.com/services/")]
#[case("discord.com/api/webhooks/")]
#[case("maker.ifttt.com/trigger/")]
fn a_webhook_has_a_long_path_with_a_digit(#[case] head: &str) {
    assert_eq!(found(&[head, &mixed(16)]), Some((head.len(), None)));
    assert_eq!(found(&[head, "T0/B0/abcdefgh-_"]), Some((head.len(), None)));
    assert_eq!(found(&[head, &mixed(15)]), None);
    assert_eq!(found(&[head, &"a".repeat(20)]), None);
    assert_eq!(found(&["x", head, &mixed(16)]), None);
}

#[rstest]
#[case(8, 33, true)]
#[case(7, 33, false)]
#[case(12, 33, true)]
#[case(13, 33, false)]
#[case(8, 32, false)]
#[case(8, 37, true)]
#[case(8, 38, false)]
fn a_token_of_a_bot_is_a_number_and_35_characters(#[case] digits: usize, #[case] len: usize, #[case] token: bool) {
    let (number, rest) = ("1".repeat(digits), mixed(len - 2));
    let count = digits + 1 + len;
    assert_eq!(found(&[&number, ":", "AA", &rest, " x"]), token.then_some((0, Some(count))));
    assert_eq!(found(&["bot", &number, ":", "AA", &rest, "/x"]), token.then_some((0, Some(3 + count))));
    assert_eq!(found(&[&number, ":", "AB", &rest]), None);
}

#[rstest]
#[case::terraform(&["a1b2c3d4e5f6g7", ".atlas", "v1.abc"], true)]
#[case::of_another_length(&["a1b2c3d4e5f6g", ".atlas", "v1.abc"], false)]
#[case::of_another_version(&["a1b2c3d4e5f6g7", ".atlas", "v2.abc"], false)]
#[case::azure(&["a1b", "Q~", "abcdefghijklmnopqrstuvw"], true)]
#[case::azure_too_short(&["a1b", "Q~", "abcdefghijklmnopqrstuv"], false)]
#[case::without_its_letter(&["a1b", "R~", "abcdefghijklmnopqrstuvw"], false)]
#[case::without_a_digit(&["abc", "Q~", "abcdefghijklmnopqrstuvw"], false)]
#[case::a_short_head(&["a1", "Q~", "abcdefghijklmnopqrstuvw"], false)]
#[case::another_sign(&["a1b", "Q.", "abcdefghijklmnopqrstuvw"], false)]
fn some_tokens_are_told_by_a_sign(#[case] parts: &[&str], #[case] token: bool) {
    assert_eq!(found(parts), token.then_some((0, None)));
}

#[rstest]
#[case(23, 6, 27, true)]
#[case(22, 6, 27, false)]
#[case(28, 6, 27, true)]
#[case(29, 6, 27, false)]
#[case(24, 5, 27, false)]
#[case(24, 7, 27, false)]
#[case(24, 6, 26, false)]
#[case(24, 6, 38, true)]
fn three_parts_of_known_lengths_are_a_token(
    #[case] first: usize,
    #[case] second: usize,
    #[case] third: usize,
    #[case] token: bool,
) {
    let [first, second, third] =
        [first, second, third].map(|len| "aB".repeat(len).chars().take(len).collect::<String>());
    assert_eq!(found(&[&first, ".", &second, ".", &third]), token.then_some((0, None)));
    assert_eq!(found(&[&first.to_ascii_lowercase(), ".", &second, ".", &third]), None);
    assert_eq!(found(&[&first.to_ascii_uppercase(), ".", &second, ".", &third]), None);
    assert_eq!(found(&[&first, ".", &second, "-", &third]), None);
}

#[test]
fn what_could_be_one_token_is_seen_as_far_as_is_looked() {
    assert_eq!(shape::reach(b"ab.c:d e"), 6);
    assert_eq!(shape::reach(&[b'a'; 600]), 512);
}
