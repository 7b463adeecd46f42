//! Forms and pieces of registered values, and the steps of their pass, each to the byte.

use rstest::rstest;

use super::*;

fn registered(values: &[&str]) -> Registered {
    Registered::new(values).unwrap().unwrap()
}

fn step(values: &[&str], behind: &str, ahead: &str) -> Step {
    let place = Place { behind: behind.as_bytes(), begins: true, ahead: ahead.as_bytes() };
    registered(values).pass().step(place)
}

#[rstest]
#[case::a_piece(PIECE, &[(0, PIECE)])]
#[case::one_more(PIECE + 1, &[(0, PIECE), (1, PIECE + 1)])]
#[case::two(2 * PIECE, &[(0, PIECE), (PIECE, 2 * PIECE)])]
#[case::and_a_rest(2 * PIECE + 5, &[(0, PIECE), (PIECE, 2 * PIECE), (PIECE + 5, 2 * PIECE + 5)])]
fn a_long_value_is_cut_into_pieces_of_one_length(#[case] len: usize, #[case] expected: &[(usize, usize)]) {
    let value: String = (0..len).map(|at| char::from_digit(u32::try_from(at % 31).unwrap(), 36).unwrap()).collect();
    let pieces: Vec<&str> = expected.iter().map(|(from, to)| &value[*from..*to]).collect();
    assert_eq!(cut(&value), pieces);
}

#[test]
fn the_longest_form_fits_three_times_in_the_window() {
    for value in ["\u{1}".repeat(PIECE), "\u{2028}".repeat(PIECE), "\"".repeat(PIECE), "é".repeat(5 * PIECE)] {
        let longest = registered(&[&value]).longest;
        assert!(3 * longest + MASK.len() <= super::super::WINDOW_LOOKAHEAD, "{longest}");
    }
}

#[test]
fn base64_leaves_out_what_depends_on_its_neighbours() {
    let forms = forms("hunter2-x9");
    for (before, from, to) in [("", 0, 13), ("a", 2, 14), ("ab", 3, 16)] {
        let encoded = STANDARD_NO_PAD.encode(format!("{before}hunter2-x9"));
        assert!(forms.contains(&encoded[from..to].to_owned()), "{encoded} {forms:#?}");
    }
}

#[test]
fn a_url_has_capitals_or_small_letters_and_keeps_some_signs() {
    let forms = forms("a/b c(d)?");
    for form in ["a%2Fb%20c%28d%29%3F", "a%2fb%20c%28d%29%3f", "a%2Fb+c%28d%29%3F", "a%2Fb%20c(d)%3F", "a/b%20c(d)?"] {
        assert!(forms.contains(&form.to_owned()), "{form} {forms:#?}");
    }
}

#[rstest]
// 48 bytes are 64 characters: they fit in a line.
#[case::one_line(48, "")]
#[case::a_line_of_64_and_a_rest(51, "64+4")]
#[case::of_76_too(60, "76+4 64+16")]
#[case::bits_of_what_follows(61, "76+5 64+17")]
#[case::three_lines_at_once(240, "76+76+76 76+16 64+64+64 64+64")]
fn base64_in_lines_is_a_value_of_its_own(#[case] len: usize, #[case] expected: &str) {
    let lens = |form: &String| form.split('\n').map(|line| line.len().to_string()).collect::<Vec<_>>().join("+");
    assert_eq!(wrapped(&"x".repeat(len)).iter().map(lens).collect::<Vec<_>>().join(" "), expected);
}

#[rstest]
#[case::at_the_begin("token-12-very-long-value b", 0, 24)]
#[case::preceding_key("a token-12-very-long-value b", 2, 24)]
#[case::adjacent("token-12token-12 b", 0, 8)]
#[case::up_to_a_mask("token-12-very-REDACTED", 0, 8)]
fn what_overlaps_is_masked_with_one_mask(#[case] text: &str, #[case] keep: usize, #[case] len: usize) {
    let registered = registered(&["token-12", "12-very-long-value", "y-REDACTED"]);
    let mut pass = registered.pass();
    let place = Place { behind: b"", begins: true, ahead: text.as_bytes() };
    assert_eq!(pass.step(place), Step::Mask(keep, Rule::Registered, ""));
    assert_eq!(pass.dropping, len);
}

#[test]
fn a_chain_of_two_long_values_is_masked_with_one_mask() {
    let [first, second] = ["token-abcdefghijklmnopqrstu-12", "12-abcdefghijklmnopqrstuvwxyz3"];
    let registered = registered(&[first, second]);
    let mut pass = registered.pass();
    let text = [first, &second[2..], " b"].concat();
    let place = Place { behind: b"", begins: true, ahead: text.as_bytes() };
    assert_eq!(pass.step(place), Step::Mask(0, Rule::Registered, ""));
    assert_eq!(pass.dropping, first.len() + second.len() - 2);
}

#[rstest]
#[case::nothing("words", Step::Keep(5))]
#[case::a_mask("REDACTED and", Step::Old)]
#[case::before_a_mask("a REDACTED token-12", Step::Keep(2))]
#[case::a_value_before_a_mask("a token-12 REDACTED", Step::Mask(2, Rule::Registered, ""))]
#[case::a_value_that_goes_into_a_mask("xx9-REDACTED", Step::Keep(4))]
#[case::a_value_that_ends_at_a_mask("token-12REDACTED", Step::Mask(0, Rule::Registered, ""))]
fn a_mask_parts_the_text(#[case] text: &str, #[case] expected: Step) {
    assert_eq!(step(&["token-12", "xx9-R", "xx9-RE"], "", text), expected);
}

/// Where the window ends, so many bytes are left for the next step: two of the longest form, and a mask.
#[test]
fn what_the_window_may_cut_is_left() {
    let window = super::super::WINDOW_LOOKAHEAD;
    let values = ["token-12"];
    let longest = registered(&values).longest;
    let certain = window - 2 * longest - MASK.len();
    let text =
        |before: usize, rest: &str| format!("{:.<window$}", [&".".repeat(before), rest].concat())[..window].to_owned();
    assert_eq!(step(&values, "", &text(0, "")), Step::Keep(certain));
    assert_eq!(step(&values, "", &text(0, "")[1..]), Step::Keep(window - 1), "the text ends");
    assert_eq!(step(&values, "", &text(certain - 1, "token-12")), Step::Mask(certain - 1, Rule::Registered, ""));
    assert_eq!(step(&values, "", &text(certain, "token-12")), Step::Keep(certain));
    assert_eq!(step(&values, "", &text(certain - 1, MASK)), Step::Keep(certain - 1));
    assert_eq!(step(&values, "", &text(certain, MASK)), Step::Keep(certain));
    assert_eq!(step(&values, "", &text(certain + 2, MASK)), Step::Keep(certain));
}

#[rstest]
#[case::number("{\"pin\": ", "20304050}", "\"")]
#[case::nested("{\\\"pin\\\": ", "20304050}", "\\\"")]
#[case::nested_behind_a_longer_name("{\\\"pins\\\": ", "20304050}", "\\\"")]
#[case::at_the_end("{\"pin\": ", "20304050", "\"")]
#[case::of_a_longer_one("{\"pin\": ", "203040501}", "")]
#[case::of_a_string("{\"pin\": \"", "20304050\"}", "")]
#[case::without_a_name("[1, ", "20304050]", "")]
#[case::of_yaml("pin: ", "20304050\n", "")]
fn a_number_of_json_needs_quotes(#[case] behind: &str, #[case] ahead: &str, #[case] quote: &'static str) {
    assert_eq!(step(&["20304050"], behind, ahead), Step::Mask(0, Rule::Registered, quote));
    let whole = [behind, ahead].concat();
    assert_eq!(step(&["20304050"], "", &whole), Step::Mask(behind.len(), Rule::Registered, quote), "all is ahead");
}
