//! Secrets that look like code: each form that is kept as code has its edge, and what stands beyond it is masked.

use rstest::rstest;

use super::*;

/// A revision as Git writes it, put together here.
fn revision() -> String {
    ["4634fdf3a6ecd6", "aaea5f4cdcd98b", "2733c2694993"].concat()
}

#[rstest]
#[case::capitals("DB_PASSWORD=!hunter.horse", "DB_PASSWORD=REDACTED")]
#[case::capitals_with_a_blank("PASSWORD = !hunter.horse;", "PASSWORD = REDACTED;")]
#[case::capitals_and_a_call("API_SECRET=[hunter(horse)]", "API_SECRET=REDACTED")]
#[case::small("password=!hunter.horse", "password=REDACTED")]
#[case::colon("password: !hunter.horse", "password: REDACTED")]
#[case::option("mytool --password !hunter.horse x", "mytool --password REDACTED x")]
#[case::option_with_a_sign("mytool --password=[hunter(x x", "mytool --password=REDACTED x")]
#[case::option_with_a_blank("mytool --password = !hunter.horse x", "mytool --password = REDACTED x")]
#[case::user("curl -u bob:!hunter.horse https://example.com", "curl -u bob:REDACTED https://example.com")]
#[case::url("https://bob:[hunter.horse@example.com/", "https://bob:REDACTED@example.com/")]
#[case::call_without_an_end("password = [hunter(x", "password = REDACTED")]
#[case::list_without_an_end("password = [hunter.horse", "password = REDACTED")]
#[case::member_without_a_name("password = !hunter.", "password = REDACTED")]
#[case::digits("password = !hunter2.x9;", "password = REDACTED;")]
fn a_sign_before_a_value_is_no_code(#[case] text: &str, #[case] want: &str) {
    assert_eq!(redact(text), want);
}

#[rstest]
#[case::negation("this._noAuthorization = !req.headers.authorization;")]
#[case::negated_call("  this.noToken = !options.has(name);")]
#[case::list("fds_to_pass = [listener.fileno(), alive_r]")]
#[case::members("default_pass = [first.member, second]")]
fn a_negation_or_a_list_that_is_assigned_is_code(#[case] text: &str) {
    assert_eq!(redact(text), text);
}

#[rstest]
#[case::of_a_cloud("aws_credentials: hunterhorse", "aws_credentials: REDACTED")]
#[case::of_a_cloud_in_code("aws_credentials: hunterHorse,", "aws_credentials: REDACTED")]
#[case::without_a_comma("credentials: hunterHorse", "credentials: REDACTED")]
#[case::small("credentials: hunterhorse,", "credentials: REDACTED")]
#[case::capital_of_the_name("Credentials: hunterHorse,", "Credentials: REDACTED")]
#[case::capitals("CREDENTIALS: hunterHorse,", "CREDENTIALS: REDACTED")]
#[case::sign("credentials=hunterHorse,", "credentials=REDACTED,")]
fn credentials_are_code_in_one_form_only(#[case] text: &str, #[case] want: &str) {
    assert_eq!(redact(text), want);
}

#[rstest]
#[case::directory("dl/")]
#[case::owner("acme/app/")]
#[case::word_of_another_kind("preblob/")]
fn a_digest_without_a_word_for_it_hides_nothing(#[case] before: &str) {
    let token = ["aB3dE6gH9j", "K2mN5pQ8sT1v", "W4yZ"].concat();
    for text in [format!("see {before}{token}/{}/x", revision()), format!("see {before}{}/{token}", revision())] {
        let out = redact(&text);
        assert!(!out.contains(&token[4..]), "{out}");
    }
}

#[rstest]
#[case("https://example.com/Group/SubProject/-/raw/")]
#[case("https://example.com/Group/SubProject/tree/")]
#[case("example.com/Group/SubProject/commit/")]
#[case("revision: ")]
#[case("\"gitCommit\": \"")]
#[case("digest=")]
#[case("at commit ")]
fn a_digest_behind_a_word_for_it_is_kept(#[case] before: &str) {
    let text = format!("{before}{}/FileAPI/url/resources/Tests", revision());
    assert_eq!(redact(&text), text);
}

#[rstest]
#[case::token("token = ")]
#[case::quoted("\"api_key\": \"")]
#[case::capitals("API_TOKEN=")]
#[case::person("client_secret: ")]
#[case::behind_a_path("blob/tree secret=")]
#[case::beside_a_revision("commit token: ")]
fn hexadecimals_behind_the_name_of_a_secret_are_masked(#[case] before: &str) {
    let letters = "abcdefab".repeat(5);
    let digits = "12345678".repeat(8);
    for value in [revision(), letters, digits] {
        let text = format!("{before}{value}");
        assert_eq!(redact(&text), format!("{before}REDACTED"), "{value}");
    }
}

#[rstest]
#[case::line_before("create user app\n  identified by \"Hunter\";", "create user app\n  identified by \"REDACTED\";")]
#[case::granted(
    "GRANT ALL ON *.* TO 'a'@'%'\nidentified by \"Hunter\"",
    "GRANT ALL ON *.* TO 'a'@'%'\nidentified by \"REDACTED\""
)]
#[case::lines("alter user\n app\n identified by \"hunter\";", "alter user\n app\n identified by \"REDACTED\";")]
#[case::parted("ALTER ROLE app identified\n  by \"Hunter\"", "ALTER ROLE app identified\n  by \"REDACTED\"")]
#[case::set("set password for bob\n identified by \"Hunter\"", "set password for bob\n identified by \"REDACTED\"")]
#[case::link(
    "create database link l connect to u\nidentified by \"Hunter\"",
    "create database link l connect to u\nidentified by \"REDACTED\""
)]
#[case::behind_another(
    "select 1; create user a\nidentified by \"Hunter\"",
    "select 1; create user a\nidentified by \"REDACTED\""
)]
#[case::in_json(
    "{\"q\":\"create user a\\n identified by \\\"Hunter\\\"\"}",
    "{\"q\":\"create user a\\n identified by \\\"REDACTED\\\"\"}"
)]
#[case::second_of_a_list(
    "create user a\nidentified by \"Hunter\", b\nidentified by \"horse\"",
    "create user a\nidentified by \"REDACTED\", b\nidentified by \"REDACTED\""
)]
fn the_statement_says_that_it_is_a_password(#[case] text: &str, #[case] want: &str) {
    assert_eq!(redact(text), want);
}

#[rstest]
#[case::prose("have the same value for all columns identified by \"aOrderBy\".")]
#[case::another_statement("create user a;\ncolumns identified by \"aOrderBy\"")]
#[case::no_account("create a table whose rows are\nidentified by \"aOrderBy\"")]
fn what_else_is_identified_is_kept(#[case] text: &str) {
    assert_eq!(redact(text), text);
}

#[rstest]
#[case::joined(
    "Authorization: `Basic ${btoa(\"user:\" + \"pwHunter\")}`",
    "Authorization: `Basic ${btoa(\"user:\" + \"REDACTED\")}`"
)]
#[case::whole("x(`Basic ${btoa('user:hunter')}`)", "x(`Basic ${btoa('REDACTED')}`)")]
#[case::both("x(`Basic ${btoa('bob' + ':' + 'horse')}`)", "x(`Basic ${btoa('REDACTED')}`)")]
#[case::buffer(
    "headers: { Authorization: `Basic ${Buffer.from('bob:hunter').toString('base64')}` }",
    "headers: { Authorization: `Basic ${Buffer.from('REDACTED').toString('base64')}` }"
)]
#[case::bearer("h = `Bearer ${\"hunterhorse\"}` + x", "h = `Bearer ${\"REDACTED\"}` + x")]
#[case::otherwise("h = `Bearer ${key || 'hunterhorse'}`", "h = `Bearer ${key || 'REDACTED'}`")]
#[case::named(
    "  token: `Basic ${Buffer.from('bob:hunter').toString('base64')}`",
    "  token: `Basic ${Buffer.from('REDACTED').toString('base64')}`"
)]
#[case::template_in_it("x(`Basic ${btoa(`bob:hunter`)}`)", "x(`Basic ${btoa(`REDACTED`)}`)")]
#[case::in_json(
    "{\"js\":\"`Basic ${btoa(\\\"bob:\\\" + \\\"hunter\\\")}`\",\"n\":1}",
    "{\"js\":\"`Basic ${btoa(\\\"REDACTED\\\")}`\",\"n\":1}"
)]
#[case::braces("x(`Bearer ${f({a: 1}, 'hunterhorse')}`)", "x(`Bearer ${f({a: 1}, 'REDACTED')}`)")]
#[case::without_an_end("x(`Bearer ${f('hunterhorse", "x(`Bearer ${f('REDACTED")]
fn texts_in_a_template_are_masked(#[case] text: &str, #[case] want: &str) {
    assert_eq!(redact(text), want);
}

#[rstest]
#[case::variable("Authorization: `Bearer ${accessKey}`,")]
#[case::call("headers[\"Authorization\"] = `Basic ${btoa(user + \":\" + pass)}`")]
#[case::encoding("x(`Basic ${Buffer.from(user).toString('base64')}`)")]
#[case::names("x(`Basic ${Buffer.from('username:password').toString('base64')}`)")]
#[case::template_of_variables("x(`Basic ${btoa(`${user}:${pass}`)}`)")]
#[case::another_text("x(`Bearer ${key}`, 'hunter horse')")]
#[case::end_of_json("[\"Basic ${x(\", 12345, \"n\"]")]
#[case::end_of_json_behind_an_escaped_quote("{\"u\":\"Basic ${f(\\\\\\\"\",\"l\":[\"\",12]}")]
#[case::masks("x(`Basic ${f(REDACTED + 'hunter horse')}`, `Basic ${f('REDACTED')}`)")]
fn a_template_of_variables_is_kept(#[case] text: &str) {
    assert_eq!(redact(text), text);
}

#[rstest]
#[case::shell("API_PASSWORD=my_private_key_x", "API_PASSWORD=REDACTED")]
#[case::in_quotes("API_SECRET=\"private_key\"", "API_SECRET=\"REDACTED\"")]
#[case::option("mytool --password the-private_key x", "mytool --password REDACTED x")]
#[case::phrase("DB_PASSWORD=\"horse private_key battery\"", "DB_PASSWORD=\"REDACTED\"")]
fn a_name_in_capitals_may_have_a_value_with_private_key(#[case] text: &str, #[case] want: &str) {
    assert_eq!(redact(text), want);
}

#[rstest]
#[case("if")]
#[case("as")]
#[case("options")]
#[case("argument")]
#[case("flag")]
fn a_phrase_may_begin_with_a_word_of_code(#[case] word: &str) {
    for (before, after) in
        [("passphrase: ", ""), ("mnemonic: ", "\n"), ("password: ", ""), ("password = \"", "\""), ("MNEMONIC='", "'")]
    {
        let text = format!("{before}{word} horse battery staple{after}");
        assert_eq!(redact(&text), format!("{before}REDACTED{after}"));
    }
    let text = format!("the --password {word} of it");
    assert_eq!(redact(&text), text);
}

#[rstest]
#[case::list("client_id, client_secret = ", &["abcdefghijklmnop", "qrstuvwxyzabcdef"])]
#[case::list_of_both_cases("client_id, client_secret = ", &["qWertyUiopAsdfgh", "JklzxcVbnmqwErty"])]
#[case::list_with_a_capital_first("client_id, client_secret = ", &["QwErTyUiOpAsDfGh", "JkLzXcVbNmQwErTy"])]
#[case::list_of_a_password("user, password = ", &["mnbvcxzlkjhgfdsa"])]
#[case::list_of_words("a, db_password = ", &["correct_horse_", "battery_staple"])]
#[case::chain("token = ", &["abcdefghijklmnopqrst", ".", "abcdefghijklmnopqrst"])]
#[case::chain_of_both_cases("token = ", &["aBcDeFgHiJkLmNoPqRsT", ".", "aBcDeFgHiJkLmNoPqRsT"])]
#[case::chain_of_a_secret("secret = ", &["zyxwvutsrqponmlkjihg", ".", "abcdefghijklmnopqrst"])]
fn letters_are_no_names_of_code_when_no_words_are(#[case] before: &str, #[case] parts: &[&str]) {
    let value = parts.concat();
    assert_eq!(redact(&format!("{before}{value}")), format!("{before}REDACTED"));
    if value.contains('.') {
        assert_eq!(redact(&format!("{before}{value} = x")), format!("{before}REDACTED = x"));
    }
}

#[rstest]
#[case::words("password: \"battery::staple::horse\"", "password: \"REDACTED\"")]
#[case::words_in_code("secret: 'battery::staple'", "secret: 'REDACTED'")]
#[case::words_in_prose("its password: `battery::staple`", "its password: `REDACTED`")]
#[case::machine("token: \"battery::staple::horse::nine\"", "token: \"REDACTED\"")]
#[case::colour("password = '#a1b2c3d4'", "password = 'REDACTED'")]
#[case::short_colour("secret: \"#a1b2c3\"", "secret: \"REDACTED\"")]
#[case::colour_in_capitals("DB_PASSWORD=\"#ffeedd\"", "DB_PASSWORD=\"REDACTED\"")]
#[case::long_colour("token = '#a1b2c3d4'", "token = 'REDACTED'")]
fn paths_and_colours_may_be_passwords(#[case] text: &str, #[case] want: &str) {
    assert_eq!(redact(text), want);
}
