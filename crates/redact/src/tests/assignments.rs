//! Values given to names: which signs give, and where a value ends.

use rstest::rstest;

use super::*;

#[rstest]
#[case::of_go("password:=hunter2x9", "password:=REDACTED")]
#[case::of_ruby("\"password\" => \"hunter2x9\"", "\"password\" => \"REDACTED\"")]
#[case::of_a_grammar("token ::= hunter2x9", "token ::= hunter2x9")]
#[case::of_a_grammar_in_quotes("token ::= \"hunter2x9\"", "token ::= \"hunter2x9\"")]
#[case::a_path_of_names("Secret::hunter2x9", "Secret::hunter2x9")]
#[case::a_colon_of_the_value("PASSWORD=:hunter2x9", "PASSWORD=REDACTED")]
#[case::a_colon_of_a_reference("PASSWORD=:$HUNTER", "PASSWORD=:$HUNTER")]
#[case::a_colon_alone("PASSWORD=: x", "PASSWORD=: x")]
#[case::a_placeholder_of_sql("UPDATE t SET PASSWORD=:1, TOKEN=:t2", "UPDATE t SET PASSWORD=:1, TOKEN=:t2")]
#[case::a_placeholder_in_a_line("  password=:pass1,\n", "  password=:pass1,\n")]
#[case::a_route("GET /reset?token=:reset_id9", "GET /reset?token=:reset_id9")]
#[case::a_format("f\"{TOKEN=:20}\"", "f\"{TOKEN=:20}\"")]
#[case::a_call_of_elixir("secret = :crypto.random_bytes(64)", "secret = :crypto.random_bytes(64)")]
#[case::a_call_behind_a_colon("secret_key: :crypto.random_bytes(64)", "secret_key: :crypto.random_bytes(64)")]
#[case::a_number_that_is_filled_in("\"?key=%d\"", "\"?key=%d\"")]
#[case::a_symbol_behind_an_arrow("{:password=>:hunter2x9}", "{:password=>:hunter2x9}")]
#[case::a_symbol_of_ruby("login(password=:password)", "login(password=:password)")]
#[case::a_blank_of_a_url("token%20hunter2x9", "token%20hunter2x9")]
#[case::compared("password == hunter2x9", "password == hunter2x9")]
#[case::compared_with_a_text("password == \"hunter2x9\"", "password == \"REDACTED\"")]
#[case::a_resource(
    "arn:aws:secretsmanager:eu-west-1:123456789012:secret:hunter2x9",
    "arn:aws:secretsmanager:eu-west-1:123456789012:secret:hunter2x9"
)]
#[case::a_setting_with_a_resource("arn:aws:iam::1:role/secret=hunter2x9", "arn:aws:iam::1:role/secret=REDACTED")]
#[case::encoded("to?u=%3Faccess_token%3Dfriday%26b%3D1", "to?u=%3Faccess_token%3DREDACTED%26b%3D1")]
#[case::encoded_first("to?u=a%3Ftoken%3Dfriday%26b%3D1", "to?u=a%3Ftoken%3DREDACTED%26b%3D1")]
#[case::encoded_next("to?u=a%26sig%3dfriday%26b%3D1", "to?u=a%26sig%3dREDACTED%26b%3D1")]
#[case::encoded_in_json("{\"u\":\"https://a/?b=1\\u0026key=friday\"}", "{\"u\":\"https://a/?b=1\\u0026key=REDACTED\"}")]
#[case::encoded_in_html("https://a/?b=1&#38;key=friday", "https://a/?b=1&#38;key=REDACTED")]
#[case::no_escape("\\u00g6_token=friday9", "\\u00g6_token=REDACTED")]
#[case::a_field_of_a_form(
    "user%5Bname%5D=a&user%5Bpassword%5D=hunter2x9&b=1",
    "user%5Bname%5D=a&user%5Bpassword%5D=REDACTED&b=1"
)]
#[case::a_field_of_a_form_encoded_twice(
    "%3Fuser%5bpassword%5d%3Dhunter2x9%26b",
    "%3Fuser%5bpassword%5d%3DREDACTED%26b"
)]
#[case::an_encoded_template("?a=%3Ftoken%3D%7Btoken%7D", "?a=%3Ftoken%3D%7Btoken%7D")]
#[case::an_encoded_variable("?a=%3Ftoken%3D%24%7bTOKEN%7d", "?a=%3Ftoken%3D%24%7bTOKEN%7d")]
#[case::encoded_angles("?a=%3Ftoken%3D%3Ctoken%3E%26b", "?a=%3Ftoken%3D%3Ctoken%3E%26b")]
#[case::encoded_stars("?a=%3Ftoken%3D%2A%2A%2A", "?a=%3Ftoken%3D%2A%2A%2A")]
#[case::an_encoded_brace("?a=%3Ftoken%3D%7B%7Bfri%2Fday", "?a=%3Ftoken%3DREDACTED")]
#[case::an_encoded_value("?a=%3Ftoken%3D%7Bfri%2Fday", "?a=%3Ftoken%3DREDACTED")]
#[case::of_another_line("token:\nnext1x9 line\n", "token:\nnext1x9 line\n")]
#[case::of_another_line_in_json("{\"token\":\n\"hunter2x9\"}", "{\"token\":\n\"REDACTED\"}")]
fn a_sign_gives_a_value_to_a_name(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(redact(given), expected);
}

#[rstest]
#[case::an_argument("run(API_KEY=abc1,x=2)", "run(API_KEY=REDACTED,x=2)")]
#[case::a_line("API_KEY=abc1,x=2)", "API_KEY=REDACTED")]
#[case::a_small_line("api_key=abcde1,x=2)", "api_key=REDACTED,x=2)")]
#[case::a_parameter("https://example.com/?token=abc1)&x=2", "https://example.com/?token=REDACTED&x=2")]
#[case::a_setting("Server=db;Password=a b9;Pool=1", "Server=db;Password=REDACTED;Pool=1")]
#[case::a_setting_of_words("Server=db;Password=my secret pw;Pool=1", "Server=db;Password=REDACTED;Pool=1")]
#[case::a_length("password:  1024 bytes\n", "password:  1024 bytes\n")]
#[case::a_colon("password: hunter2x9: x\n", "password: REDACTED\n")]
#[case::a_bracket("PASSWORD=[hunter2x9", "PASSWORD=REDACTED")]
#[case::a_map("secret: {secretName: x9}", "secret: {secretName: x9}")]
#[case::that_names_itself("password: Secret77xy\n", "password: REDACTED\n")]
#[case::that_names_itself_in_quotes("password: \"Secret77xy\"\n", "password: \"REDACTED\"\n")]
#[case::a_name("password: secretName\n", "password: secretName\n")]
#[case::another_name("f(password=secret2)", "f(password=secret2)")]
#[case::a_long_name("f(password=secret2abcdefghijklmnopq)", "f(password=secret2abcdefghijklmnopq)")]
#[case::too_long_for_a_name("f(password=secret2abcdefghijklmnopqr)", "f(password=REDACTED)")]
#[case::longer("f(password=secret2abcdefghijklmnopqrs)", "f(password=REDACTED)")]
#[case::a_number_of_json("{\"password\": 12345, \"x\": 2}", "{\"password\": \"REDACTED\", \"x\": 2}")]
#[case::a_number_of_json_in_json("{\\\"password\\\": 12345}", "{\\\"password\\\": \\\"REDACTED\\\"}")]
#[case::a_list_of_json("{\"secret\": [hunter2x9]}", "{\"secret\": [hunter2x9]}")]
#[case::a_map_of_json("{\"secret\": {hunter2x9: 1}}", "{\"secret\": {hunter2x9: 1}}")]
#[case::three_quotes("f(password=\"\"\"hun9\nter2x9\"\"\")", "f(password=\"\"\"REDACTED\"\"\")")]
#[case::three_quotes_of_a_line("password='''hun9\nter2x9''' x", "password='''REDACTED''' x")]
#[case::a_plan("password = \"hunter2x9\" -> \"hunter3x9\"", "password = \"REDACTED\" -> \"REDACTED\"")]
#[case::an_end_of_a_string("[\"?sig=\"], 1, \"x9\"", "[\"?sig=\"], 1, \"x9\"")]
#[case::an_end_behind_a_blank(
    "[{\"a\": \"The password: \"}, {\"a\": \"b\"}]",
    "[{\"a\": \"The password: \"}, {\"a\": \"b\"}]"
)]
#[case::an_end_of_a_nested_string(
    "{\"a\": [{\"b\": \"\\\"password\\\": \"}], \"c\": \"d9\"}",
    "{\"a\": [{\"b\": \"\\\"password\\\": \"}], \"c\": \"d9\"}"
)]
#[case::an_end_of_a_query("[{\"a\": \"?token= \"}, 1]", "[{\"a\": \"?token= \"}, 1]")]
#[case::an_end_in_code("print(\"Password: \" + word9 + \"\\n\")", "print(\"Password: \" + word9 + \"\\n\")")]
#[case::an_end_in_code_of_single_quotes("print('Password: ' + word9 + '\\n')", "print('Password: ' + word9 + '\\n')")]
#[case::a_value_that_begins_with_a_blank("password: \" hunter2x9\"", "password: \"REDACTED\"")]
#[case::a_value_behind_a_text("a(\"b\", password: \" hunter2x9\")", "a(\"b\", password: \"REDACTED\")")]
#[case::a_value_of_other_quotes("'{\\'password\\': \"hunter2x9\"}'", "'{\\'password\\': \"REDACTED\"}'")]
#[case::a_comment("password: hunter2x9 # mine", "password: REDACTED # mine")]
#[case::a_line_of_windows("password: hunter2x9\r\nx", "password: REDACTED\r\nx")]
#[case::an_escaped_line("password: hunter2x9\\nmore", "password: REDACTED\\nmore")]
#[case::a_token_in_a_line("token: hunter2x9 and more\nx", "token: REDACTED and more\nx")]
#[case::behind_a_name_in_quotes("'password': hunter2x9 and more\nx", "'password': REDACTED and more\nx")]
#[case::the_rest_of_a_line("password: hunter2x9 and more\nx", "password: REDACTED\nx")]
fn a_value_ends_as_what_it_stands_in_does(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(redact(given), expected);
}

#[rstest]
#[case::alone("password: correct horse battery\n", "password: REDACTED\n")]
#[case::behind_a_name_in_quotes("\"password\": correct horse battery\n", "\"password\": correct horse battery\n")]
#[case::an_expression("  \"password\": given or None\n", "  \"password\": given or None\n")]
#[case::in_capitals("PASSWORD: the9 horse battery\n", "PASSWORD: REDACTED\n")]
#[case::behind_a_word_that_repeats("PASSWORD: aaa horse battery\n", "PASSWORD: REDACTED\n")]
#[case::before_a_comment("password: correct horse battery  # mine\n", "password: REDACTED  # mine\n")]
#[case::behind_a_word("my password: correct horse battery\n", "my password: correct horse battery\n")]
#[case::with_other_signs("password: correct (horse) battery\n", "password: correct (horse) battery\n")]
#[case::a_length("password: correct 12 bytes\n", "password: correct 12 bytes\n")]
#[case::of_a_machine("token: correct horse battery\n", "token: correct horse battery\n")]
#[case::a_sentence("password: is not right\n", "password: is not right\n")]
fn a_phrase_is_masked_in_a_line_of_its_own(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(redact(given), expected);
}

#[rstest]
#[case::literal("password: |\n  hunter2x9\n\n  more9\nnext: 1\n", "password: |\n  REDACTED\nnext: 1\n")]
#[case::folded("password: >-\n  hunter2x9\nnext: 1\n", "password: >-\n  REDACTED\nnext: 1\n")]
#[case::deeper("a:\n  password: |2\n    hunter2x9\n  next: 1\n", "a:\n  password: |2\n    REDACTED\n  next: 1\n")]
#[case::not_indented("password: |\nhunter2x9\n", "password: |\nhunter2x9\n")]
#[case::masked("password: |\n  REDACTED\n  x9\n", "password: |\n  REDACTED\n  x9\n")]
#[case::behind_a_word("my password: |\n  hunter2x9\n", "my password: |\n  hunter2x9\n")]
#[case::no_line("password: | x9\n  hunter2x9\n", "password: | x9\n  hunter2x9\n")]
fn a_block_is_masked_as_far_as_it_is_indented(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(redact(given), expected);
}

#[rstest]
#[case::element("<password>hunter2x9</password>", "<password>REDACTED</password>")]
#[case::of_many_lines("<db><password>\nhunter2x9\n</password></db>", "<db><password>REDACTED</password></db>")]
#[case::empty("<password> </password>", "<password> </password>")]
#[case::masked("<password>REDACTED</password>", "<password>REDACTED</password>")]
#[case::variable("<password>${DB}</password>", "<password>${DB}</password>")]
#[case::not_closed("<password>hunter2x9<user>", "<password>hunter2x9<user>")]
#[case::closed_by_another("<password>hunter2x9</user>", "<password>hunter2x9</user>")]
#[case::of_two_strings("[\"<password>\",\"</password>\"]", "[\"<password>\",\"</password>\"]")]
#[case::of_another_name("<user>hunter2x9</user>", "<user>hunter2x9</user>")]
fn an_element_is_masked_up_to_its_end(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(redact(given), expected);
}

#[rstest]
#[case::hex("%2Fa", 3)]
#[case::no_hex("%2ga", 1)]
#[case::cut("%2", 1)]
#[case::line("\\na", 2)]
#[case::tab("\\ta", 2)]
#[case::other("\\qa", 1)]
#[case::unicode("\\u00e4a", 6)]
#[case::no_unicode("\\u00g4a", 1)]
#[case::byte("\\x1ba", 4)]
#[case::no_byte("\\x1ga", 1)]
#[case::slashes("\\\\a", 2)]
#[case::line_of_json_in_json("\\\\na", 3)]
#[case::line_of_json_in_json_in_json("\\\\\\\\na", 5)]
#[case::colour("\u{1b}[1;31mred", 7)]
#[case::no_colour("\u{1b}red", 1)]
#[case::plain("a", 1)]
fn an_escape_has_a_length(#[case] text: &str, #[case] len: usize) {
    assert_eq!(scan::escape_len(text.as_bytes()), len);
}

#[test]
fn a_picture_and_a_ruler_are_kept_and_a_block_behind_dashes_is_masked() {
    let picture = ["/9j/4AAQ", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF"].concat();
    assert_eq!(redact(&picture), picture);
    let ruler = "-".repeat(200);
    assert_eq!(redact(&ruler), ruler);
    let block = |dashes: &str| [dashes, "BEGIN PRIVATE ", "KEY-----\nMIIBabc\n-----END PRIVATE ", "KEY-----"].concat();
    for dashes in ["-----", "------", "------------"] {
        let expected = block(dashes).replace("\nMIIBabc\n", "REDACTED");
        assert_eq!(redact(&block(dashes)), expected);
    }
}

#[rstest]
#[case::escaped(
    "-----BEGIN PUBLIC KEY-----\\nMIIB\\npassword=hunter2x9",
    "-----BEGIN PUBLIC KEY-----\\nMIIB\\npassword=REDACTED"
)]
#[case::lines(
    "-----BEGIN PUBLIC KEY-----\nMIIB\npassword=hunter2x9",
    "-----BEGIN PUBLIC KEY-----\nMIIB\npassword=REDACTED"
)]
fn a_public_block_ends_where_its_lines_do(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(redact(given), expected);
}

#[test]
fn the_lines_of_a_public_block_are_kept_in_json_too() {
    let line = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF".repeat(3);
    for breaks in ["\n", "\\n", "\r\n"] {
        let text = ["-----BEGIN CERTIFICATE-----", breaks, &line[..78], breaks, &line[..20], breaks].concat();
        assert_eq!(redact(&text), text);
    }
}
