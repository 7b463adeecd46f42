//! Passwords in URLs: where each begins and ends.

use rstest::rstest;

use super::address::{self, Userinfo};
use super::value::{MaskEnd, UnquotedValue};

/// Bytes kept from `://` on, and bytes masked behind them.
fn found(text: &str) -> Option<(usize, Option<usize>)> {
    address::password(text.as_bytes()).map(|Userinfo { keep, until }| match until {
        MaskEnd::Count(count) => (keep, Some(count)),
        MaskEnd::UnquotedValue(UnquotedValue::Word) => (keep, None),
        other => panic!("{other:?}"),
    })
}

#[rstest]
#[case::password("bob:hunter2x9@example.com/", "hunter2x9")]
#[case::of_digits("bob:123456@example.com/", "123456")]
#[case::without_a_user(":hunter2x9@example.com", "hunter2x9")]
#[case::with_a_slash("bob:hun/ter2x9@example.com/a", "hun/ter2x9")]
#[case::with_an_at("bob:hun@ter2x9@example.com/a", "hun@ter2x9")]
#[case::with_a_colon("bob:hun:ter2x9@example.com", "hun:ter2x9")]
#[case::with_a_scheme("bob:hun://ter2x9@example.com", "hun://ter2x9")]
#[case::that_ends_like_a_mask("bob:h/xREDACTED@example.com", "h/xREDACTED")]
#[case::with_a_question("bob:hun?ter2x9@example.com/", "hun?ter2x9")]
#[case::before_a_query("bob:hunter2x9@example.com?to=a@example.org", "hunter2x9")]
#[case::before_a_fragment("bob:hunter2x9@example.com#a@example.org", "hunter2x9")]
#[case::before_a_path("bob:hunter2x9@example.com/a@b", "hunter2x9")]
#[case::at_this_machine("bob:hun/ter2x9@localhost/", "hun/ter2x9")]
#[case::at_an_address("bob:hun/ter2x9@[::1]/", "hun/ter2x9")]
#[case::at_a_short_name("bob:hunter2x9@db/", "hunter2x9")]
#[case::at_a_port("bob:hun/ter2x9@db:5432/", "hun/ter2x9")]
#[case::a_digit_behind_a_dollar("bob:$1abc@example.com/", "$1abc")]
#[case::a_dollar_and_signs("bob:$a!b@example.com/", "$a!b")]
#[case::some_stars("bob:**a@example.com/", "**a")]
fn the_password_of_a_url_ends_at_the_last_at_before_a_host(#[case] rest: &str, #[case] password: &str) {
    let keep = 3 + rest.find(':').unwrap() + 1;
    assert_eq!(found(&format!("://{rest}")), Some((keep, Some(password.len()))));
}

#[rstest]
#[case::no_user("example.com/")]
#[case::user("bob@example.com/")]
#[case::port("example.com:8080/a")]
#[case::port_and_an_at("example.com:8080/a@example.org")]
#[case::no_host("bob:hunter2/x@y")]
#[case::no_port("bob:hunter2/x@db:y")]
#[case::a_digit_of_a_path("bob:hunter2/x@db/1")]
#[case::a_port_alone("bob:hunter2/x@:80")]
#[case::masked_in_another("bob://c:REDACTED@example.com")]
#[case::empty("bob:@example.com")]
#[case::cut("bob:hunter2")]
#[case::masked("bob:REDACTED@example.com")]
#[case::variable("bob:$PASSWORD@example.com")]
#[case::variable_in_braces("bob:${DB.PASSWORD}@example.com")]
#[case::template("bob:{{ password }}@example.com")]
#[case::brace("bob:{password}@example.com")]
#[case::stars("bob:***@example.com")]
#[case::format("bob:%s@example.com")]
#[case::crosses("bob:xxx@example.com")]
#[case::large_crosses_and_dots("bob:XX..@example.com")]
#[case::angles("bob:<password>@example.com")]
fn what_is_no_password_in_a_url_is_left(#[case] rest: &str) {
    assert_eq!(found(&format!("://{rest}")), None);
}

#[rstest]
#[case::long("a1b2c3d4e5f6g7h8i9j0", true)]
#[case::too_short("a1b2c3d4e5f6g7h8i9j", false)]
#[case::a_name("abcdefghijklmnopqrstuvwxyz", false)]
#[case::an_address("a1b2c3d4e5f6g7h8i9j0.example.com", false)]
#[case::signs_of_names("a1b2c3d4-e5f6g7h_8i9j0", true)]
fn a_token_in_place_of_the_user_goes(#[case] user: &str, #[case] token: bool) {
    assert_eq!(found(&format!("://{user}@example.com/")), token.then_some((3, Some(user.len()))));
    let both = format!("{user}:hunter2x9");
    let expected = if token { (3, both.len()) } else { (3 + user.len() + 1, 9) };
    assert_eq!(found(&format!("://{both}@example.com/")), Some((expected.0, Some(expected.1))));
}

#[test]
fn a_password_longer_than_is_looked_goes_to_the_end_of_the_word() {
    let long = |len: usize| format!("{:a<len$}", "://bob:");
    assert_eq!(found(&long(1024)), Some((7, None)));
    assert_eq!(found(&long(2000)), Some((7, None)));
    assert_eq!(found(&long(1023)), None, "it ends, and no host follows");
    assert_eq!(found(&(long(1023) + " and more")), None);
    assert_eq!(address::authority_len(long(2000).as_bytes()), 1024);
}

#[rstest]
#[case::an_opaque_user(&["https://", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF", "/aB3/c"], "https://REDACTED/aB3/c")]
#[case::a_path(&["https://a/", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF/", "aB3/c d"], "https://a/REDACTED d")]
#[case::no_scheme(&["'password'://hunter2x9"], "'password':REDACTED")]
#[case::a_scheme_that_is_a_name(&["password://hunter2x9"], "password://hunter2x9")]
fn a_url_begins_behind_its_scheme_and_its_path_behind_its_host(#[case] parts: &[&str], #[case] expected: &str) {
    assert_eq!(super::redact(&parts.concat()), expected);
}
