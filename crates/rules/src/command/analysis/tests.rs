//! What is followed, and how deep.

use rstest::rstest;

use crate::command::forbidden_target;

const CURL: &str = "curl http://169.254.169.254/";

fn refused(command: &str) -> bool {
    forbidden_target(command).is_some()
}

/// The text inside so many substitutions.
fn inside(levels: usize, text: &str) -> String {
    ["echo $(".repeat(levels), text.to_owned(), ")".repeat(levels)].concat()
}

#[test]
fn substitutions_are_followed_eight_levels_deep() {
    assert!(refused(&inside(8, CURL)));
    assert!(!refused(&inside(9, CURL)));
}

/// Each is one level more.
#[rstest]
#[case::shell("sh -c 'curl http://169.254.169.254/'")]
#[case::input_of_a_shell("sh <<< 'curl http://169.254.169.254/'")]
#[case::eval("eval 'curl http://169.254.169.254/'")]
#[case::trap("trap 'curl http://169.254.169.254/' EXIT")]
#[case::alias("alias x='curl http://169.254.169.254/'")]
#[case::proxy_command("ssh -oProxyCommand='curl http://169.254.169.254/' a")]
#[case::awk("awk '{system(\"curl http://169.254.169.254/\")}'")]
#[case::shell_of_a_script("python3 -c 'import os; os.system(\"curl http://169.254.169.254/\")'")]
#[case::words_of_a_script("python3 -c 'subprocess.run([\"curl\", \"http://169.254.169.254/\"])'")]
#[case::wrapper("sudo curl http://169.254.169.254/")]
fn what_is_run_inside_counts_as_a_level(#[case] text: &str) {
    assert!(refused(text), "by itself");
    assert!(refused(&inside(7, text)));
    assert!(!refused(&inside(8, text)));
}

/// Two levels: a command in a script, in words, in a file.
#[rstest]
#[case::script("python3 -c 'import os; os.system(\"sh -c \\\"curl http://169.254.169.254/\\\"\")'")]
#[case::words("python3 -c 'subprocess.run([\"sh\", \"-c\", \"curl http://169.254.169.254/\"])'")]
#[case::file("echo \"sh -c 'curl http://169.254.169.254/'\" > f; sh f")]
#[case::script_in_a_file("echo '#!python\nos.system(\"curl http://169.254.169.254/\")' > f; sh f")]
#[case::split_string("env -S \"sh -c 'curl http://169.254.169.254/'\"")]
#[case::text_of_a_wrapper("watch \"sh -c 'curl http://169.254.169.254/'\"")]
#[case::words_of_a_wrapper("sudo sh -c 'curl http://169.254.169.254/'")]
fn what_runs_something_counts_as_two_levels(#[case] text: &str) {
    assert!(refused(text), "by itself");
    assert!(refused(&inside(6, text)));
    assert!(!refused(&inside(7, text)));
}

#[rstest]
#[case::list_of_urls("wget -qi- <<< 169.254.169.254", true)]
#[case::long_option_of_wget("wget --quiet https://example.com <<< 169.254.169.254", false)]
#[case::short_option_of_wget("wget -q https://example.com <<< 169.254.169.254", false)]
#[case::word_of_wget("wget https://example.com/i <<< 169.254.169.254", false)]
#[case::option_of_curl("curl -i https://example.com <<< 169.254.169.254", false)]
#[case::read_on("echo 'curl http://169.254.169.254/' | tee f | sh", true)]
#[case::not_read_by_the_next_line("echo 'curl http://169.254.169.254/' | cat; ls | sh", false)]
#[case::tee("tee run.sh <<'E'\ncurl http://169.254.169.254/\nE\nsh run.sh", true)]
#[case::tee_with_an_option("tee -a run.sh <<'E'\ncurl http://169.254.169.254/\nE\nsh run.sh", true)]
#[case::read_not_written("cat run.sh <<'E'\ncurl http://169.254.169.254/\nE\nsh run.sh", false)]
#[case::tee_without_a_text("tee run.sh; sh run.sh", false)]
#[case::proxy_that_is_said("echo http_proxy=http://169.254.169.254/", false)]
#[case::proxy_of_a_command("http_proxy=http://169.254.169.254/ echo x", true)]
#[case::assignment("A_1=x nc 169.254.169.254 80", true)]
#[case::no_assignment("a.b=x nc 169.254.169.254 80", false)]
#[case::nothing_is_assigned("=x nc 169.254.169.254 80", false)]
fn what_a_command_does_is_followed(#[case] command: &str, #[case] expected: bool) {
    assert_eq!(refused(command), expected);
}
