use super::*;
use rstest::rstest;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn shown(runs: Runs<'_>) -> String {
    match runs {
        Runs::Texts(texts) => format!("text {}", texts.join(" ")),
        Runs::File(file) => format!("file {file}"),
        Runs::Module => "module".to_owned(),
        Runs::Input => "input".to_owned(),
    }
}

#[rstest]
#[case("", "input")]
#[case("-c T", "text T")]
#[case("-ec T arg", "text T")]
#[case("-ce T", "text T")]
#[case("-c -e T", "text T")]
#[case("-c -- T", "text T")]
#[case("-c - T", "text T")]
#[case("-c", "input")]
#[case("-o pipefail -c T", "text T")]
#[case("-eo pipefail -c T", "text T")]
#[case("+O extglob -c T", "text T")]
#[case("+c F", "file F")]
#[case("-e F", "file F")]
#[case("-- F", "file F")]
#[case("--rcfile R -c T", "text T")]
#[case("--init-file R F", "file F")]
#[case("--login F", "file F")]
#[case("-s x", "input")]
#[case("+ x", "file +")]
fn a_shell_runs_a_text_a_file_or_its_input(#[case] arguments: &str, #[case] runs: &str) {
    assert_eq!(shown(shell(&words(arguments))), runs);
}

#[rstest]
#[case("python3", "", "input")]
#[case("python3", "-c T x", "text T")]
#[case("python3.12", "-Ic T", "text T")]
#[case("python", "-cT x", "text T")]
#[case("python3", "-W ignore -c T", "text T")]
#[case("python3", "-Wignore F", "file F")]
#[case("python3", "-W ignore F", "file F")]
#[case("python3", "-m http.server -c T", "module")]
#[case("python3", "- x", "input")]
#[case("python3", "-u F -c T", "file F")]
#[case("python3", "-- F", "file F")]
#[case("python3", "-X dev", "input")]
#[case("perl", "-eT", "text T")]
#[case("perl", "-MSocket -e T", "text T")]
#[case("perl", "-M Socket -I", "file Socket")]
#[case("perl", "-I lib -lne T", "text T")]
#[case("perl", "-ne T -e U F", "text T U")]
#[case("perl", "-i.bak -pe T F", "text T")]
#[case("perl", "-l -e T", "text T")]
#[case("ruby", "-r socket -e T", "text T")]
#[case("ruby", "-rsocket F", "file F")]
#[case("php", "-d x=1 -r T", "text T")]
#[case("lua", "-l socket -e T", "text T")]
#[case("node", "-e T", "text T")]
#[case("node", "-pe T", "text T")]
#[case("node", "--eval=T x", "text T")]
#[case("node", "--print T", "text T")]
#[case("node", "--no-warnings F", "file F")]
#[case("deno", "eval T", "text T")]
#[case("php", "--run T", "text T")]
#[case("python3", "eval -c T", "file eval")]
fn an_interpreter_runs_texts_a_file_a_module_or_its_input(
    #[case] program: &str,
    #[case] arguments: &str,
    #[case] runs: &str,
) {
    assert_eq!(shown(script(program, &words(arguments))), runs);
}

#[rstest]
#[case("sudo", "-u mail X", 2)]
#[case("sudo", "-umail X", 1)]
#[case("sudo", "-nu mail X", 2)]
#[case("sudo", "--user mail X", 2)]
#[case("sudo", "--user=mail X", 1)]
#[case("sudo", "-u mail -- X", 3)]
#[case("sudo", "X -u mail", 0)]
#[case("timeout", "-s kill 5 X", 3)]
#[case("timeout", "-k 1 -s kill 5 X", 5)]
#[case("timeout", "-- 5 X", 2)]
#[case("timeout", "5", 1)]
#[case("/usr/bin/flock", "/tmp/test X", 1)]
#[case("flock", "-n -w 5 /tmp/test X", 4)]
#[case("env", "-i -C /tmp A=b X", 3)]
#[case("chroot", "/srv X", 1)]
#[case("docker", "run -it X", 0)]
#[case("sudo", "-u", 1)]
#[case("sudo", "- X", 0)]
fn a_wrapper_has_options_and_operands_before_the_command(
    #[case] wrapper: &str,
    #[case] arguments: &str,
    #[case] before: usize,
) {
    assert_eq!(before_command(wrapper, &words(arguments)), before);
}

#[rstest]
#[case("-S a b", Some(" a b"))]
#[case("-i -S a", Some(" a"))]
#[case("-ivSa b", Some("a b"))]
#[case("--split-string=a b", Some("a b"))]
#[case("--split-string a", Some(" a"))]
#[case("-u S a", None)]
#[case("-uS a", None)]
#[case("--S a", None)]
fn the_text_of_env_is_read_as_a_command(#[case] arguments: &str, #[case] text: Option<&str>) {
    assert_eq!(split_string(&words(arguments)).as_deref(), text);
}
