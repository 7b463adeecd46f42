//! Hosts in a word: where they stand, and what braces and ranges stand for.

use rstest::rstest;

use super::*;

/// What is found, in its plain form.
fn found(target: Option<Target>) -> String {
    target.map_or_else(|| "-".to_owned(), |target| target.name)
}

const ADDRESS: &str = "169.254.169.254";

#[rstest]
#[case::plain("169.254.169.254", ADDRESS)]
#[case::blanks(" 169.254.169.254\n", ADDRESS)]
#[case::two_parts("169.16689662", ADDRESS)]
#[case::three_parts("169.254.43518", ADDRESS)]
#[case::three_parts_too_large("169.254.65536", "-")]
#[case::two_parts_too_large("169.16777216", "-")]
#[case::one_part_too_large("4294967296", "-")]
#[case::octal("0251.0376.0251.0376", ADDRESS)]
#[case::more_zeros("000251.254.169.254", ADDRESS)]
#[case::octal_or_decimal("0169.254.169.254", ADDRESS)]
#[case::zeros_alone("169.254.00.027", "169.254.0.23")]
#[case::hexadecimal("0xA9.0Xfe.0xa9.0xfe", ADDRESS)]
#[case::hexadecimal_nothing("169.254.0x.23", "169.254.0.23")]
#[case::signs("169.254.+169.254", "-")]
#[case::signs_in_hexadecimal("0x+a9fea9fe", "-")]
#[case::empty_part("169..169.254", "-")]
#[case::five_parts("169.254.169.254.0", "-")]
#[case::brackets("[fd00:ec2::254]", "fd00:ec2::254")]
#[case::open_bracket("[fd00:ec2::254", "fd00:ec2::254")]
#[case::zone("fe80::a9fe:a9fe%eth0", "fe80::a9fe:a9fe")]
#[case::percent("%31%36%39.254.169.254", ADDRESS)]
#[case::percent_at_the_end("169.254.169.25%34", ADDRESS)]
#[case::half_an_escape("169.254.169.254%3", "-")]
#[case::escapes_of_no_text("%ff.flycast%fe", "-")]
#[case::other_digits("\u{2460}69.254.169.254", ADDRESS)]
#[case::other_dots("169\u{3002}254\u{3002}169\u{3002}254", ADDRESS)]
#[case::large_letters("X.INTERNAL.", "x.internal")]
#[case::large_letters_beyond_ascii("\u{c9}.FLYCAST", "xn--9ca.flycast")]
#[case::no_host_beyond_ascii("\u{c9} .FLYCAST", "\u{e9} .flycast")]
#[case::nothing("", "-")]
fn a_host_is_known_in_every_spelling(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(found(host(text)), expected);
}

#[test]
fn a_host_is_looked_at_up_to_512_bytes() {
    let name = |long: usize| format!("{}.flycast", "a".repeat(long - 8));
    assert_eq!(found(host(&name(512))), name(512));
    assert_eq!(found(host(&name(513))), "-");
    // And a number up to 40 digits.
    assert_eq!(found(host(&format!("0x{}a9.254.169.254", "0".repeat(38)))), ADDRESS);
    assert_eq!(found(host(&format!("0x{}a9.254.169.254", "0".repeat(39)))), "-");
}

#[rstest]
#[case::plain("http://flycast/x", "flycast")]
#[case::any_scheme("Redis+x.y-1://flycast:80", "flycast")]
#[case::scheme_with_a_digit_first("1http://flycast", "-")]
#[case::scheme_with_a_space("a b://flycast", "-")]
#[case::no_scheme("//flycast", "-")]
#[case::slashes_missing("http:169.254.169.254", ADDRESS)]
#[case::one_slash("HTTPS:/flycast", "flycast")]
#[case::backward(r"ws:\\flycast\x", "flycast")]
#[case::more_slashes("http:////flycast", "flycast")]
#[case::one_slash_of_another_scheme("redis:/flycast", "-")]
#[case::digits_of_another_scheme("redis:169.254.169.254", "-")]
#[case::a_name_behind_a_colon("http:flycast", "-")]
#[case::controls("ht\ntp://fly\tcast", "flycast")]
#[case::user("http://a:b@flycast/", "flycast")]
#[case::two_users("http://a@flycast@example.com/", "flycast")]
#[case::user_like_a_target("http://flycast@example.com/", "-")]
#[case::at_in_the_path("http://example.com/@flycast", "-")]
#[case::query("http://flycast?x", "flycast")]
#[case::fragment("http://flycast#x", "flycast")]
#[case::six("http://[fd00:ec2::254]:80/", "fd00:ec2::254")]
#[case::six_without_brackets("http://fd00:ec2::254/", "fd00:ec2::254")]
#[case::braces("http://{example.com,flycast}/", "flycast")]
fn a_url_has_its_host_where_parsers_look(#[case] word: &str, #[case] expected: &str) {
    assert_eq!(found(url(word, &Budget::new())), expected);
}

#[rstest]
#[case::alone("flycast", "flycast")]
#[case::port("flycast:80", "flycast")]
#[case::no_port("flycast:x", "-")]
#[case::six("fd00:ec2::254", "fd00:ec2::254")]
fn an_endpoint_is_a_host_perhaps_with_a_port(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(found(endpoint(text)), expected);
}

#[rstest]
#[case::host("flycast", "flycast")]
#[case::path("flycast/x", "flycast")]
#[case::server("@169.254.169.254", ADDRESS)]
#[case::copy("user@169.254.169.254:/x", ADDRESS)]
#[case::among_colons("TCP:169.254.169.254:80", ADDRESS)]
#[case::tunnel("8080:a.internal:80", "a.internal")]
#[case::settings("dst=a.internal,port=80", "a.internal")]
#[case::word_among_colons("tcp:flycast:80", "-")]
#[case::six_among_colons("TCP:[fd00:ec2::254]:80", "fd00:ec2::254")]
#[case::six_of_a_user("user@[fd00:ec2::254]:/x", "fd00:ec2::254")]
#[case::behind_the_path("example.com/169.254.169.254:80", "-")]
#[case::url("http://example.com/a:169.254.169.254", "-")]
#[case::braces("a{1,.internal}", "a.internal")]
fn a_word_holds_a_host_alone_or_among_colons(#[case] word: &str, #[case] expected: &str) {
    assert_eq!(found(argument(word, &Budget::new())), expected);
}

#[rstest]
#[case::none("a", "a")]
#[case::list("a{b,c}d", "acd abd")]
#[case::one("a{b}c", "abc")]
#[case::two_lists("{a,b}{c,d}", "bd bc ad ac")]
#[case::range("a{8..10}", "a10 a9 a8")]
#[case::range_of_one("{8..8}", "8")]
#[case::range_backwards("{9..8}", "9 8")]
#[case::range_with_a_step("{7..9..2}", "9 8 7")]
#[case::range_of_curl_with_a_step("[7-9:2]", "9 8 7")]
#[case::open("a{b", "a{b")]
#[case::range_of_curl("a[8-10]b", "a10b a9b a8b")]
#[case::range_of_curl_of_one("[8-8]", "8")]
#[case::range_of_curl_backwards("[9-8]", "[9-8]")]
#[case::no_range("[a-b]", "[a-b]")]
#[case::open_range("a[1-2", "a[1-2")]
fn braces_and_ranges_stand_for_several(#[case] word: &str, #[case] expected: &str) {
    assert_eq!(alternatives(word, &Budget::new()).join(" "), expected);
}

#[rstest]
#[case::braces("{0..255}", 256)]
#[case::braces_too_many("{0..256}", 1)]
#[case::braces_far_on("{200..300}", 101)]
#[case::braces_backwards_too_many("{256..0}", 1)]
#[case::curl("[0-255]", 256)]
#[case::curl_too_many("[0-256]", 1)]
fn a_range_has_at_most_256_numbers(#[case] word: &str, #[case] many: usize) {
    assert_eq!(alternatives(word, &Budget::new()).len(), many);
}

#[test]
fn a_word_stands_for_fewer_than_512_spellings() {
    let list = |many: usize| format!("{{{}}}", vec!["a"; many].join(","));
    assert_eq!([511, 512].map(|many| alternatives(&list(many), &Budget::new()).len()), [511, 1]);
    assert_eq!(alternatives("{0..15}{0..15}", &Budget::new()).len(), 256);
    // What is open and what is done count together.
    assert!(alternatives("{0..15}{0..15}{0..15}", &Budget::new()).len() < ALTERNATIVES);
}

#[test]
fn the_spellings_of_all_words_of_a_command_have_so_many_bytes() {
    let effort = Budget::new();
    let word = format!("{{0..255}}{}", "x".repeat(253));
    let spellings = alternatives(&word, &effort);
    assert_eq!(spellings.len(), 256);
    let bytes: usize = spellings.iter().map(String::len).sum();
    assert!((1..SPELLINGS / bytes).all(|_| alternatives(&word, &effort).len() == 256));
    assert_eq!(alternatives(&word, &effort), [word]);
}

#[rstest]
#[case::first("169.254.169.254", 12, true)]
#[case::last("", 12, true)]
#[case::none("a.example.com", 12, false)]
fn hosts_behind_the_first_and_the_last_signs_count(#[case] first: &str, #[case] between: usize, #[case] found: bool) {
    let last = if first.is_empty() { "169.254.169.254" } else { "b.example.com" };
    let text = format!("http://user@{first}{}@{last}/", "@x".repeat(between));
    assert_eq!(url(&text, &Budget::new()).is_some(), found);
}

#[test]
fn effort_that_is_spent_once_is_spent() {
    let effort = Budget::new();
    assert!(!effort.is_spent());
    assert!(effort.spend(&["x".repeat(SPELLINGS - 1)]) && !effort.is_spent());
    assert!(!effort.spend(&["xx".to_owned()]) && effort.is_spent());
    assert!(!effort.spend(&["x".to_owned()]));
}
