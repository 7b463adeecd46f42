//! How far text is ordinary: to the byte, since what the shortcut passes and what it leaves differ in time alone.

use rstest::rstest;

use super::scan::Program;
use super::window::Place;
use super::*;

fn plain_len(behind: &str, ahead: &str, program: Option<Program>) -> usize {
    plain::len(Place { behind: behind.as_bytes(), begins: true, ahead: ahead.as_bytes() }, program)
}

/// Text with a `~` where it is left off: nothing before it is looked at by the scanner.
#[rstest]
#[case::words("hello world~")]
#[case::lines("a\nb\tc.d;e~")]
#[case::letters("abcdefghijklmno~")]
#[case::a_token("x ~abcdefghijklmnop")]
#[case::a_token_of_signs("x ~abcdefgh.ijklmnop")]
#[case::a_token_that_ends_in_a_sign("x ~abcdefghijklmno.")]
#[case::two_words("abcdefgh ijklmnopqrs~")]
#[case::a_word_and_signs("abcdefgh (ijklmnopqrs)~")]
#[case::a_mask("a ~REDACTED")]
#[case::as_long_as_a_mask("a ~READING9")]
#[case::shorter_than_a_mask("a READING~")]
#[case::longer_without_its_letter("a reading9~")]
#[case::a_picture("a ~data")]
#[case::a_word_of_four("a dato~")]
#[case::schemes_fly("a ~FlyV1")]
#[case::schemes_basic("a ~Basic")]
#[case::schemes_bearer("a ~BEARER")]
#[case::longer_than_a_scheme("a basics bearers~")]
#[case::a_program("a ~curl b")]
#[case::an_option("a --flag~ b")]
#[case::a_letter_option("a -y~ b")]
#[case::a_hyphen("a-b x - b~")]
#[case::an_option_behind_an_escape("a\\n-flag~ b")]
#[case::a_word_behind_an_escape("a\\nflag b~")]
#[case::a_hyphen_in_a_word("a n-flag b~")]
#[case::by("a by~ b")]
#[case::by_in_capitals("a BY~ b")]
#[case::my("a my b~")]
#[case::password("a password~ b")]
#[case::passwords("a passwords b~")]
#[case::variable("ENV NAME~ b")]
#[case::defined("#define NAME~ b")]
#[case::behind_other_words("seven12 ENV NAME~ b")]
#[case::like_one("seven12 LOV NAME b~")]
#[case::perhaps_one("LOV NAME~ b")]
#[case::of_seven_letters("xdefine NAME b~")]
#[case::of_six_letters("define NAME~ b")]
#[case::no_such_end("LOX NAME b~")]
#[case::of_fish("x2345678 -gx~ NAME b")]
#[case::bullet("~- b")]
#[case::bullet_in_a_line("a\n~- b")]
#[case::indented("a\n  ~- b")]
#[case::bullet_in_a_string("a\\n~- b")]
#[case::dash("a - b~")]
#[case::block("a\n~-----BEGIN")]
#[case::four_dashes("a\n~----")]
#[case::three_dashes("a\n---~")]
#[case::picture("a ~/9j/")]
#[case::path("a /9k/b~")]
#[case::url("a https~://b")]
#[case::no_url("a b:/c~")]
#[case::source("a b~:c9@tcp(d)")]
#[case::setting("a b:c=d,e>f~")]
#[case::secret("a token~: b")]
#[case::secret_with_blanks("a token ~= b")]
#[case::secret_in_quotes("a \"token\"~: b")]
#[case::secret_in_json("a \\\"token\\\"~: b")]
#[case::secret_in_brackets("a [token]~: b")]
#[case::secret_with_a_question("a token?~: b")]
#[case::secret_that_is_added_to("a token+~= b")]
#[case::secret_with_a_quote("a 'token'~: b")]
#[case::secret_and_comma("a token~, b")]
#[case::secret_of_an_element("<token~>b")]
#[case::value("a Value~: b")]
#[case::value_in_capitals("a VALUE~= b")]
#[case::valued("a valued: b~")]
#[case::typed("a: str ~= b")]
#[case::not_typed("a: stt = b~")]
#[case::sign_first("~= b")]
#[case::signs_first(" \" ~= b")]
#[case::percent("a ~%20b")]
#[case::escape("a \\u00e4 \\\\n \u{1b}[1mb~")]
fn ordinary_text_ends_where_something_may_begin(#[case] text: &str) {
    let len = text.find('~').unwrap();
    let text = text.replacen('~', "", 1);
    assert_eq!(plain_len("", &text, None), len, "{text}");
}

#[rstest]
#[case::an_open_name("pass", "word b", 4)]
#[case::an_open_name_before_a_sign("tok", "en: b", 2)]
#[case::an_open_name_and_more("pass", "word; b c", 9)]
#[case::a_closed_one("pass ", "word b: c", 9)]
#[case::a_defining_word("ENV ", "NAME b", 4)]
#[case::another_word("ONE ", "NAME b", 6)]
fn what_is_behind_counts(#[case] before: &str, #[case] ahead: &str, #[case] len: usize) {
    assert_eq!(plain_len(before, ahead, None), len);
}

#[rstest]
#[case(Program::Glued, "a pass", 2)]
#[case(Program::Glued, "a user", 6)]
#[case(Program::Either, "a pass", 2)]
#[case(Program::User, "a user", 2)]
#[case(Program::User, "a pass", 6)]
#[case(Program::Password, "a pass user login", 17)]
#[case(Program::Auth, "a pass user", 11)]
#[case(Program::Registry, "a pass login", 7)]
#[case(Program::User, "a b\nc", 3)]
fn in_the_line_of_a_program_letters_may_mean_something(
    #[case] program: Program,
    #[case] ahead: &str,
    #[case] len: usize,
) {
    assert_eq!(plain_len("", ahead, Some(program)), len);
}

#[test]
fn the_end_of_the_window_is_left() {
    for byte in [".", " ", "é"] {
        let text = byte.repeat(WINDOW_LOOKAHEAD);
        let passed = plain_len("", &text[..WINDOW_LOOKAHEAD], None);
        assert_eq!(passed, WINDOW_LOOKAHEAD - 64, "{byte}");
        assert_eq!(plain_len("", &text[..WINDOW_LOOKAHEAD - 2], None), WINDOW_LOOKAHEAD - 2, "{byte}");
    }
}
