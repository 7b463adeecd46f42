//! Values behind options, words and commas: what is masked and what looks like it.

use rstest::rstest;

use super::*;

#[rstest]
#[case::by_whom("written by \"hunter2x9\"", "written by \"hunter2x9\"")]
#[case::sql("identified by \"hunter2x9\"", "identified by \"REDACTED\"")]
#[case::sql_in_capitals("IDENTIFIED BY 'hunter2x9'", "IDENTIFIED BY 'REDACTED'")]
#[case::one_letter("set x hunter2x9", "set x hunter2x9")]
#[case::a_word_of_sql_without_quotes("identified by hunter2x9", "identified by hunter2x9")]
#[case::a_plain_word_of_a_machine("ENV API_TOKEN friday", "ENV API_TOKEN REDACTED")]
#[case::a_phrase("set API_TOKEN \"correct horse battery\"", "set API_TOKEN \"REDACTED\"")]
#[case::a_plain_word_in_small_letters("setx api_token friday", "setx api_token REDACTED")]
fn what_follows_a_word_is_masked_where_it_is_given(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(redact(given), expected);
}

#[rstest]
#[case::longest(64, true)]
#[case::too_long(65, false)]
fn an_option_has_at_most_64_bytes(#[case] len: usize, #[case] masked: bool) {
    let option = format!("{:->len$}", "-password");
    let text = format!("{option} hunter2x9");
    assert_eq!(redact(&text), if masked { format!("{option} {MASK}") } else { text });
}

#[rstest]
#[case::words_of_a_list("- password\n- hunter2x9\n", "- password\n- hunter2x9\n")]
#[case::arguments("- --password\n- hunter2x9\n", "- --password\n- REDACTED\n")]
#[case::prose("- --password\n- hunter2x9 is it\n", "- --password\n- hunter2x9 is it\n")]
fn an_option_in_a_list_has_its_value_in_the_next_item(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(redact(given), expected);
}

#[rstest]
#[case::of_a_database("mongosh --host hunter2x9", "mongosh --host hunter2x9")]
#[case::its_password("mongosh -p hunter2x9", "mongosh -p REDACTED")]
#[case::of_a_registry("docker login -p hunter2x9", "docker login -p REDACTED")]
#[case::no_login("docker run -p hunter2x9", "docker run -p hunter2x9")]
#[case::another_login("some login -p hunter2x9", "some login -p hunter2x9")]
#[case::a_port("ssh -p hunter2x9", "ssh -p hunter2x9")]
#[case::of_a_cache("redis-cli -h hunter2x9", "redis-cli -h hunter2x9")]
#[case::its_auth("redis-cli -a hunter2x9", "redis-cli -a REDACTED")]
#[case::all("ls -a hunter2x9", "ls -a hunter2x9")]
fn a_letter_says_something_in_the_line_of_its_program(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(redact(given), expected);
}

#[rstest]
#[case::set("setenv(\"API_KEY\", \"hunter2x9\")", "setenv(\"API_KEY\", \"REDACTED\")")]
#[case::six_bytes("setenv(\"PASSWORD\", \"hunte2\")", "setenv(\"PASSWORD\", \"REDACTED\")")]
#[case::short("setenv(\"PASSWORD\", \"hunt2\")", "setenv(\"PASSWORD\", \"hunt2\")")]
#[case::no_digit("setenv(\"PASSWORD\", \"hunters\")", "setenv(\"PASSWORD\", \"hunters\")")]
#[case::a_reference("setenv(\"PASSWORD\", \"$HUNTER2X9\")", "setenv(\"PASSWORD\", \"$HUNTER2X9\")")]
#[case::a_variable("check(API_KEY, \"hunter2x9\")", "check(API_KEY, \"hunter2x9\")")]
#[case::a_column("\"api_key\", \"hunter2x9\"", "\"api_key\", \"hunter2x9\"")]
#[case::an_option_behind_words("see \"--token\", \"hunter2x9\"", "see \"--token\", \"hunter2x9\"")]
#[case::an_option_of_a_list("  \"--token\",\n  \"hunter2x9\"", "  \"--token\",\n  \"REDACTED\"")]
fn what_is_set_by_name_follows_a_comma(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(redact(given), expected);
}

#[rstest]
#[case::source("root:hunter2x9@tcp(db)", "root:REDACTED@tcp(db)")]
#[case::words("see:hunter2 me9@tcp(db)", "see:hunter2 me9@tcp(db)")]
#[case::quotes("see:hunter2'me9@tcp(db)", "see:hunter2'me9@tcp(db)")]
fn the_password_of_a_data_source_is_one_word(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(redact(given), expected);
}

#[test]
fn a_word_that_begins_like_a_glued_user_is_read_as_a_whole() {
    let text = ["curl u", "AKIA", "IOSFODNN7ZZZZZZZ"].concat();
    assert_eq!(redact(&text), text);
}

#[rstest]
#[case::password(
    "{\"name\": \"PASSWORD\", \"value\": \"friday is nice\"}",
    "{\"name\": \"PASSWORD\", \"value\": \"REDACTED\"}"
)]
#[case::sentence(
    "{\"name\": \"API_TOKEN\", \"value\": \"friday is nice\"}",
    "{\"name\": \"API_TOKEN\", \"value\": \"friday is nice\"}"
)]
#[case::next_line(
    "{\"name\": \"API_KEY\", \"value\":\n\"hunter2x9\"}",
    "{\"name\": \"API_KEY\", \"value\":\n\"REDACTED\"}"
)]
#[case::number("{\"name\": \"API_KEY\", \"value\": 12345678}", "{\"name\": \"API_KEY\", \"value\": \"REDACTED\"}")]
#[case::nested_number(
    "{\\\"name\\\": \\\"API_KEY\\\", \\\"value\\\": 12345678}",
    "{\\\"name\\\": \\\"API_KEY\\\", \\\"value\\\": \\\"REDACTED\\\"}"
)]
#[case::attribute("<add key=\"Password\" value=\"friday is nice\"/>", "<add key=\"Password\" value=\"REDACTED\"/>")]
#[case::attribute_with_a_sentence(
    "<add key=\"ApiToken\" value=\"friday is nice\"/>",
    "<add key=\"ApiToken\" value=\"friday is nice\"/>"
)]
fn a_value_beside_its_name_is_judged_by_it(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(redact(given), expected);
}
