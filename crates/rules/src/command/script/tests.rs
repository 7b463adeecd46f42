//! What a text in another language does, written short.

use rstest::rstest;

use super::*;

/// Targets by their word, `sh` and the text of what runs as a command, `run` and its words; ` | ` between.
fn does(program: &str, text: &str) -> String {
    let shown = |act| match act {
        Act::Target(word, _) => word,
        Act::Shell(text) => format!("sh {text}"),
        Act::Words(words) => format!("run {}", words.join(",")),
    };
    acts(text, program, &Budget::new()).into_iter().map(shown).collect::<Vec<_>>().join(" | ")
}

#[rstest]
#[case::python("python3", "# get('http://flycast')\nget('http://a.flycast')", "http://a.flycast")]
#[case::slashes_of_python("python3", "// get('http://flycast')", "http://flycast")]
#[case::node("node", "// get('http://flycast')", "")]
#[case::behind_it("node", "get('http://flycast') // get('http://a.flycast')", "http://flycast")]
#[case::number_sign_of_node("node", "#get('http://flycast')", "http://flycast")]
#[case::php("php", "# get('http://flycast')\n// get('http://flycast')", "")]
#[case::lua("lua5.4", "-- get('http://flycast')", "")]
#[case::number_sign_of_lua("lua", "#get('http://flycast')", "http://flycast")]
fn a_comment_is_a_mention(#[case] program: &str, #[case] text: &str, #[case] expected: &str) {
    assert_eq!(does(program, text), expected);
}

#[rstest]
#[case::double("get(\"http://flycast\")", "http://flycast")]
#[case::backticks("get(`http://flycast`)", "http://flycast")]
#[case::side_by_side("get('http://fly' 'cast')", "http://flycast")]
#[case::plus("get('http://fly' + \"cast\")", "http://flycast")]
#[case::dot("get('http://fly'.'cast')", "http://flycast")]
#[case::apart("get('http://fly', 'cast')", "")]
#[case::tripled("get('''it's''', 'http://flycast')", "http://flycast")]
#[case::open("get('http://flycast", "http://flycast")]
#[case::kind_of_python("gethostbyname(f'metadata')", "metadata")]
#[case::kind_in_two_letters("gethostbyname(rb'metadata')", "metadata")]
#[case::word_that_is_no_kind("gethostbyname(not 'metadata')", "")]
#[case::hexadecimal(r"get('http://fl\x79cast')", "http://flycast")]
#[case::unicode(r"get('http://fl\u0079cast')", "http://flycast")]
#[case::other_escapes(r"get('http:\/\/flycast')", "http://flycast")]
#[case::escaped_quote(r"get('\'', 'http://flycast')", "http://flycast")]
#[case::more_than_the_url("get('http://flycast is')", "")]
#[case::behind_a_string_of_another_kind("get('x'`http://flycast`)", "")]
fn a_string_counts_whole(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(does("python3", text), expected);
}

#[rstest]
#[case::one("os.system('curl a')", "sh curl a")]
#[case::escapes(r"system('a\tb\nc\x41\u0042')", "sh a\tb\ncAB")]
#[case::escapes_in_braces(r"system('\x{0041}b\u{00042}c')", "sh AbBc")]
#[case::a_brace_behind_an_escape(r"system('\x41}b')", "sh A}b")]
#[case::list("subprocess.run(['curl', 'a'])", "run curl,a")]
#[case::words("execFile('curl', ['a', 'b'])", "run curl,a,b")]
#[case::nothing("system()", "")]
#[case::zx("$('curl a')", "sh curl a")]
#[case::another_call("show('curl a')", "")]
#[case::open("system('curl a'", "sh curl a")]
#[case::a_target_of_its_own("system('http://flycast')", "sh http://flycast")]
#[case::inside_another_call("system(str('curl a'))", "")]
#[case::tuple("system(('curl a'))", "sh curl a")]
fn what_runs_a_command_is_followed(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(does("python3", text), expected);
}

#[test]
fn a_call_has_at_most_64_strings() {
    let words = |many: usize| does("python3", &format!("run([{}])", "'a',".repeat(many))).matches('a').count();
    assert_eq!([63, 64, 65].map(words), [63, 64, 64]);
}

#[test]
fn strings_are_joined_up_to_four_kilobytes() {
    let joined = |long: usize| does("python3", &format!("run('{}' 'b' 'c')", "a".repeat(long))).replace("aa", "");
    assert_eq!([4094, 4096, 4098].map(joined), ["sh bc", "run b,c", "run ,bc"]);
}

#[rstest]
#[case::fetch_of_a_url("get('http://flycast')", "http://flycast")]
#[case::fetch_of_a_name("get('a.internal')", "")]
#[case::fetch_of_a_host_key("http.get({host: 'a.internal'})", "a.internal")]
#[case::fetch_of_another_key("http.get({path: 'http://flycast'})", "")]
#[case::fetch_of_a_short_name("http.get({host: 'metadata'})", "")]
#[case::fetch_of_a_list("get(['http://flycast'])", "")]
#[case::dial_of_a_name("connect('a.internal')", "a.internal")]
#[case::dial_of_a_short_name("getaddrinfo('metadata', 80)", "metadata")]
#[case::dial_of_a_pair_with_a_short_name("connect(('metadata', 80))", "metadata")]
#[case::what_may_be_a_file("connect('metadata')", "")]
#[case::what_may_be_a_folder("path.resolve('internal')", "")]
#[case::comparison("socket; x = y == '169.254.169.254'", "")]
#[case::comparison_of_three("socket; x = y === '169.254.169.254'", "")]
#[case::no_comparison("socket; x = '169.254.169.254'", "169.254.169.254")]
#[case::dial_of_a_pair("connect(('169.254.169.254', 80))", "169.254.169.254")]
#[case::dial_of_a_port("connect('169.254.169.254:80')", "169.254.169.254:80")]
#[case::dial_of_a_key("connect({host: 'metadata'})", "metadata")]
#[case::dial_of_another_key("connect({path: 'a.internal'})", "")]
#[case::dial_of_a_list("connect(['a.internal'])", "")]
#[case::dial_of_a_socket("connect('/.fly/api')", "/.fly/api")]
#[case::class("TCPSocket.new('169.254.169.254', 80)", "169.254.169.254")]
#[case::new_alone("new('169.254.169.254')", "")]
#[case::without_parentheses("get 'http://flycast'", "http://flycast")]
#[case::a_letter_without_parentheses("p 'http://flycast'", "")]
#[case::end_of_the_statement("connect; ('169.254.169.254')", "")]
#[case::end_of_the_line("connect\n('169.254.169.254')", "")]
#[case::a_mention("print('http://flycast')", "")]
#[case::in_a_mention("print(get('http://flycast'))", "http://flycast")]
#[case::around_a_mention("get(str('http://flycast'))", "")]
#[case::behind_a_call("get('x'); 'http://flycast'", "")]
fn a_call_that_connects_has_targets(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(does("python3", text), expected);
}

#[rstest]
#[case::assigned("u = 'http://flycast'", "http://flycast")]
#[case::a_name_assigned("u = 'a.internal'", "a.internal")]
#[case::a_short_name_assigned("u = 'metadata'", "")]
#[case::host_key("f({host: 'a.internal'})", "a.internal")]
#[case::another_key("f({path: 'a.internal'})", "")]
#[case::in_a_list("u = ['http://flycast']", "")]
#[case::given_to_a_call("f('http://flycast')", "http://flycast")]
#[case::a_name_given_to_a_call("f('a.internal')", "")]
#[case::given_to_a_mention("log('http://flycast')", "")]
#[case::alone("'http://flycast'", "")]
#[case::loop_over_a_list("for u in ['http://flycast']:", "http://flycast")]
#[case::loop_of_javascript("for (const u of ['http://flycast'])", "http://flycast")]
#[case::no_loop("u in ['http://flycast']", "")]
#[case::loop_before("for u in v:\n  w in ['http://flycast']", "")]
fn a_text_that_connects_has_targets_in_its_variables(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(does("python3", &format!("import requests\n{text}")), expected);
    assert_eq!(does("python3", text), "", "a text that does not connect has none");
}
