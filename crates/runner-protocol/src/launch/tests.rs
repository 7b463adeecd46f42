//! A launch is read as it was sent, and a launch that was cut or changed is not read.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn launch<'a>(live: &'a [String], environment: &'a [(String, String)]) -> Launch<'a> {
    Launch {
        runner: "/home/sprite/.sprite-operator/bin/h",
        uid: "u-1",
        nonce: "n0nce",
        timeout: Duration::from_millis(1500),
        cap: 65536,
        lookahead: 4096,
        kill_leftovers: true,
        stop_at_cap: false,
        live,
        environment,
        directory: "/workspace",
        task: Task::Script("a secret command"),
        stdin: b"private",
    }
}

#[test]
fn nothing_of_a_users_stands_in_an_argument() {
    let environment = [("TOKEN".to_owned(), "sensitive".to_owned())];
    let (argv, _) = launch(&["other".to_owned()], &environment).encode().unwrap();
    let joined = argv.join(" ");
    for word in ["secret", "sensitive", "private", "TOKEN", "workspace"] {
        assert!(!joined.contains(word), "{word}");
    }
    assert!(joined.len() < 512, "handshakes fail near 4 KB");
}

#[rstest]
#[case::letters_digits_and_hyphens("0-aZ", true)]
#[case::nothing("", false)]
#[case::a_path("a/b", false)]
#[case::an_underscore("a_b", false)]
#[case::two_words("a b", false)]
#[case::too_long(&"x".repeat(65), false)]
fn a_mark_is_of_letters_digits_and_hyphens(#[case] mark: &str, #[case] plain: bool) {
    let expected = if plain { None } else { Some(LaunchError::Mark) };
    let base = launch(&[], &[]);
    assert_eq!(Launch { uid: mark, ..base.clone() }.encode().err(), expected);
    assert_eq!(Launch { nonce: mark, ..base.clone() }.encode().err(), expected);
    assert_eq!(Launch { live: &[mark.to_owned()], ..base }.encode().err(), expected);
}

#[test]
fn a_nul_is_refused_wherever_it_would_end_a_field() {
    let variable = |name: &str, value: &str| [(name.to_owned(), value.to_owned())];
    let (name, value) = (variable("A\0", "b"), variable("A", "b\0"));
    let plain = launch(&[], &[]);
    for launch in [
        Launch { task: Task::Script("a\0b"), ..plain.clone() },
        Launch { directory: "/workspace\0", ..plain.clone() },
        Launch { environment: &name, ..plain.clone() },
        Launch { environment: &value, ..plain.clone() },
    ] {
        assert_eq!(launch.encode().err(), Some(LaunchError::Nul));
    }
    let stdin = Launch { stdin: b"\0", ..plain };
    assert!(stdin.encode().is_ok(), "stdin comes last and is not cut at anything");
}

proptest! {
    #[test]
    fn a_launch_is_read_as_it_was_sent(
        live in proptest::collection::vec("[a-z0-9-]{1,36}", 0..4),
        environment in proptest::collection::vec(("[A-Z_]{1,9}", "[^\0]{0,30}"), 0..5),
        directory in "/[^\0]{0,20}",
        script in "[^\0]{0,200}",
        stdin in proptest::collection::vec(any::<u8>(), 0..50),
        kill_leftovers: bool,
        stop_at_cap: bool,
    ) {
        let sent = Launch {
            directory: &directory, task: Task::Script(&script), stdin: &stdin, kill_leftovers, stop_at_cap,
            ..launch(&live, &environment)
        };
        let (argv, input) = sent.encode().unwrap();
        let arguments = Arguments::parse(&argv[2..]).unwrap();
        prop_assert_eq!((arguments.uid.as_str(), arguments.nonce.as_str()), ("u-1", "n0nce"));
        prop_assert_eq!((arguments.timeout, arguments.cap, arguments.lookahead), (Duration::from_millis(1500), 65536, 4096));
        prop_assert_eq!((arguments.kill_leftovers, arguments.stop_at_cap), (kill_leftovers, stop_at_cap));
        let (own, rest) = input.split_at(arguments.input_bytes());
        prop_assert_eq!(rest, stdin);
        let read = Input::parse(&arguments, own).unwrap();
        let bytes = |text: &str| text.as_bytes().to_vec();
        prop_assert_eq!(&read.live, &live);
        prop_assert_eq!(&read.environment, &environment.iter().map(|(n, v)| (bytes(n), bytes(v))).collect::<Vec<_>>());
        prop_assert_eq!((read.directory, read.script), (bytes(&directory), bytes(&script)));
        for cut in 0..own.len() {
            prop_assert_eq!(Input::parse(&arguments, &own[..cut]), None);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused_without_a_panic(
        words in proptest::collection::vec("[a-z0-9-]{0,8}", 8..12), bytes in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        if let Some(arguments) = Arguments::parse(&words) {
            let _ = Input::parse(&arguments, &bytes);
        }
    }
}

#[rstest]
#[case::too_few(&["u-1", "n", "1", "1", "1", "-", "0", "0", "0"])]
#[case::a_length_beyond_reason(&["u-1", "n", "1", "1", "1", "-", "0", "0", "0", "99999999"])]
#[case::negative(&["u-1", "n", "-1", "1", "1", "-", "0", "0", "0", "1"])]
#[case::a_path_as_uid(&["../x", "n", "1", "1", "1", "-", "0", "0", "0", "1"])]
#[case::no_flags(&["u-1", "n", "1", "1", "1", "k", "0", "0", "0", "1"])]
fn other_arguments_are_refused(#[case] words: &[&str]) {
    assert_eq!(Arguments::parse(words), None);
}
