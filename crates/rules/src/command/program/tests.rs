//! Which words of a program are hosts or URLs.

use rstest::rstest;

use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[rstest]
#[case::by_path("/usr/bin/curl", Use::Curl)]
#[case::versioned("python3.12", Use::Interpreter)]
#[case::version_of_another_program("make4", Use::Other)]
#[case::version_alone("3.12", Use::Other)]
#[case::not_known("scanner", Use::Other)]
#[case::dot(".", Use::Shell)]
fn a_program_is_known_by_its_name(#[case] word: &str, #[case] expected: Use) {
    assert_eq!(of(word), expected);
}

#[rstest]
#[case::value_is_text("-o f u", "u")]
#[case::value_in_the_word("-of u", "u")]
#[case::behind_other_letters("-sSo f u", "u")]
#[case::in_the_word_behind_others("-sSof u", "u")]
#[case::no_value("-sS u", "u")]
#[case::proxy("-x p u", "p u")]
#[case::proxy_in_the_word("-xp u", "p u")]
#[case::proxy_behind_others("-sxp u", "p u")]
#[case::text_before_a_proxy_letter("-dx u", "u")]
#[case::long("--data d u", "u")]
#[case::long_in_the_word("--data=d u", "u")]
#[case::long_target("--url=u", "u")]
#[case::long_target_in_two("--proxy p u", "p u")]
#[case::long_without_value("--silent u", "u")]
#[case::end_of_options("-- u", "u")]
#[case::a_hyphen("- u", "- u")]
#[case::at_the_end("u -d", "u")]
#[case::long_at_the_end("u --data", "u")]
fn the_targets_of_curl_are_what_is_no_text(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(targets(&words(given), false).join(" "), expected);
}

#[rstest]
#[case::value_is_text("-O f u", "u")]
#[case::force_directories("-x u", "u")]
#[case::force_directories_behind_others("-qxO f u", "u")]
#[case::long("--post-data d u", "u")]
#[case::an_option_of_curl("--data u", "u")]
#[case::a_file_of_urls("-i f u", "u")]
#[case::the_url_of_one("-i a://f u", "a://f u")]
#[case::the_url_of_one_in_the_word("-qia://f u", "a://f u")]
#[case::a_file_in_the_word("-if u", "u")]
#[case::a_file_of_urls_long("--input-file f u", "u")]
#[case::the_url_of_one_long("--input-file a://f u", "a://f u")]
fn wget_has_options_of_its_own(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(targets(&words(given), true).join(" "), expected);
}

#[rstest]
#[case::next_word("-h s t", "s")]
#[case::same_word("-hs t", "s")]
#[case::same_word_with_a_sign("-h=s t", "s")]
#[case::long("--host s t", "s")]
#[case::long_in_the_word("--host=s t", "s")]
#[case::other_long_names("--hostname=s --endpoint-url=u --endpoints=v", "s u v")]
#[case::a_name_that_only_begins_so("--hosts s t", "")]
#[case::none("s t", "")]
#[case::the_option_alone("-h", "")]
fn the_server_of_a_client_is_the_value_of_its_host_option(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(servers(&words(given)).join(" "), expected);
}

#[rstest]
#[case::first("s run", "s")]
#[case::behind_options("-v -p 22 -o A=b s run", "-v -p 22 -o A=b s")]
#[case::value_in_the_word("-p22 s run", "-p22 s")]
#[case::value_that_looks_like_an_option("-o -v s run", "-o -v s")]
#[case::none("-v", "-v")]
fn what_follows_the_destination_of_ssh_runs_elsewhere(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(destination(&words(given)).join(" "), expected);
}

#[rstest]
#[case::all("nmap", "-p 80 s t", "-p 80 s t")]
#[case::left_out("nmap", "--exclude s t", "t")]
#[case::left_out_in_the_word("nmap", "--exclude=s t", "t")]
#[case::a_name_that_is_compared(
    "/usr/bin/openssl",
    "s_client -connect s -servername t",
    "s_client -connect s -servername"
)]
#[case::an_address_that_is_compared("openssl", "s_client --verify_ip s t", "s_client --verify_ip t")]
#[case::of_another_program("nc", "-servername t", "-servername t")]
#[case::httpie("http", "--follow POST u a=b", "u")]
#[case::httpie_without_a_method("/usr/bin/https", "u v", "u")]
fn hosts_are_words_that_leave_nothing_out(#[case] program: &str, #[case] given: &str, #[case] expected: &str) {
    assert_eq!(hosts(program, &words(given)).join(" "), expected);
}

#[rstest]
#[case::tls("openssl", "s_client u", true)]
#[case::timed("/usr/bin/openssl", "s_time u", true)]
#[case::status_of_a_certificate("openssl", "ocsp -url u", true)]
#[case::certificates_over_http("openssl", "cmp -server s", true)]
#[case::no_connection("openssl", "x509 -text s_client", false)]
#[case::alone("openssl", "", false)]
#[case::names("getent", "hosts s", true)]
#[case::names_behind_an_option("getent", "-s dns ahostsv6 s", true)]
#[case::another_database("getent", "passwd s", false)]
#[case::a_name_like_a_database("getent", "group www-hosts s", false)]
#[case::any_other("nc", "s", true)]
fn some_programs_connect_only_in_some_of_their_commands(
    #[case] program: &str,
    #[case] given: &str,
    #[case] expected: bool,
) {
    assert_eq!(dials(program, &words(given)), expected);
}

#[rstest]
#[case::lookup("dig", true)]
#[case::copy("/usr/bin/scp", false)]
fn a_short_name_may_be_a_file_for_some(#[case] program: &str, #[case] expected: bool) {
    assert_eq!(takes_short_names(program), expected);
}

#[rstest]
#[case::clone("clone u", "clone u")]
#[case::behind_options("--no-pager -c a=b clone u", "clone u")]
#[case::behind_one_option("--no-pager clone u", "clone u")]
#[case::behind_a_folder("-C d clone u", "clone u")]
#[case::behind_long_options_with_values("--git-dir d --work-tree e fetch u", "fetch u")]
#[case::text("commit -m u", "")]
#[case::text_of_an_option("log --grep clone", "")]
#[case::nothing("", "")]
fn git_connects_in_some_of_its_commands(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(remotes(&words(given)).join(" "), expected);
}

#[rstest]
#[case::next_word("-c http.proxy=p clone u", "p")]
#[case::of_one_host("-c http.https://example.com.proxy=p clone u", "p")]
#[case::another_setting("-c user.name=p clone u", "")]
#[case::another_option("commit -m http.proxy=p", "")]
fn the_proxies_of_git_are_settings_of_one_command(#[case] given: &str, #[case] expected: &str) {
    let words = words(given);
    assert_eq!(proxies(&words).collect::<Vec<_>>().join(" "), expected);
}

#[rstest]
#[case("watch", true)]
#[case("/usr/bin/su", true)]
#[case("sudo", false)]
#[case("suwatch", false)]
fn some_wrappers_take_a_command_in_one_word(#[case] program: &str, #[case] expected: bool) {
    assert_eq!(wraps_text(program), expected);
}
