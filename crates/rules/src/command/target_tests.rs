//! Tests of targets in commands: the corpora, the cases, spellings, and what must hold for any text.

use proptest::prelude::*;
use rstest::rstest;
use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize)]
struct Line {
    id: String,
    #[serde(rename = "in")]
    command: String,
    #[serde(default)]
    want: String,
}

fn corpus(text: &str) -> Vec<Line> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn every_command_that_connects_to_a_target_is_refused() {
    let refused = corpus(include_str!("../../../../tests/data/rules/commands-refused.jsonl"));
    assert!(refused.len() >= 150, "{}", refused.len());
    let misses: Vec<String> = refused
        .iter()
        .filter(|l| forbidden_target(&l.command).is_none())
        .map(|l| format!("{}: {}", l.id, l.command))
        .collect();
    println!("{} commands that must be refused: {} pass", refused.len(), misses.len());
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}

#[test]
fn no_ordinary_command_is_refused() {
    let ordinary = corpus(include_str!("../../../../tests/data/rules/commands-ordinary.jsonl"));
    assert!(ordinary.len() >= 300, "{}", ordinary.len());
    let found = ordinary.iter().filter_map(|l| Some((l, forbidden_target(&l.command)?)));
    let refused: Vec<String> = found.map(|(l, f)| format!("{}: {} -> {}", l.id, l.command, f.word)).collect();
    println!("{} ordinary commands: {} are refused", ordinary.len(), refused.len());
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn every_case_is_decided_as_it_wants() {
    for line in corpus(include_str!("../../../../tests/data/rules/commands.jsonl")) {
        let refused = forbidden_target(&line.command).is_some();
        assert_eq!(refused, line.want.starts_with("BLOCK"), "{}: {} wants {}", line.id, line.command, line.want);
    }
}

#[rstest]
#[case("curl http://0xa9fea9fe/", Zone::Metadata, "http://0xa9fea9fe/", "169.254.169.254")]
#[case("curl http://169.254.169.2''54:80/x", Zone::Metadata, "http://169.254.169.254:80/x", "169.254.169.254")]
#[case("dig _api.internal", Zone::ProviderInternal, "_api.internal", "_api.internal")]
#[case("curl --unix-socket /.fly/api http://x/", Zone::ProviderInternal, "/.fly/api", "/.fly/api")]
#[case("curl 'http://[2002:a9fe:a9fe::]/'", Zone::Metadata, "http://[2002:a9fe:a9fe::]/", "169.254.169.254")]
fn a_finding_names_word_and_address(
    #[case] command: &str,
    #[case] zone: Zone,
    #[case] word: &str,
    #[case] address: &str,
) {
    let finding = forbidden_target(command).unwrap();
    assert_eq!((finding.zone, &*finding.word, &*finding.address), (zone, word, address));
    assert!(finding.to_string().contains(address) && finding.to_string().contains("take it out"), "{finding}");
}

#[rstest]
// One bit beside a network of the table is not in it.
#[case("169.254.168.254", false)]
#[case("169.254.171.1", false)]
#[case("169.254.170.0", true)]
#[case("100.100.100.201", false)]
#[case("168.63.129.17", false)]
#[case("fdab::3", false)]
#[case("fdaa:ffff::3", true)]
#[case("fd00:ec3::254", false)]
#[case("2002:a9fe:aafe::", true)]
#[case("2002:a9fd:a9fe::", false)]
#[case("2001:0:1:2:3:4:5601:5601", true)]
#[case("fe80::5efe:169.254.169.254", true)]
#[case("::ffff:8.8.8.8", false)]
#[case("4294967296", false)]
#[case("28520391660", false)]
#[case("2852039166", true)]
#[case("0x1a9fea9fe", false)]
#[case("169.254.169.254.5", false)]
#[case("169.254.65536", false)]
#[case("169.254.169.256", false)]
#[case("425.254.169.254", false)]
#[case("169.510.169.254", false)]
#[case("internal", true)]
#[case("xinternal", false)]
#[case("a.docker.internal", false)]
#[case("adocker.internal", true)]
#[case("10.0.0.1.nip.io", false)]
#[case("x-169-254-169-254.nip.io", true)]
#[case("metadata.google", true)]
#[case("metadata.googles", false)]
fn hosts_are_told_apart_at_the_edges_of_the_table(#[case] text: &str, #[case] refused: bool) {
    assert_eq!(host::host(text).is_some(), refused);
}

#[rstest]
#[case::git_in_a_folder("git -C /tmp clone http://169.254.169.254/x.git")]
#[case::git_with_a_folder_of_its_own("git --git-dir /tmp/x --work-tree /tmp fetch http://169.254.169.254/x.git")]
#[case::a_short_name_behind_a_long_option("etcdctl --endpoints=flycast get x")]
fn options_before_a_target_do_not_hide_it(#[case] command: &str) {
    assert!(forbidden_target(command).is_some(), "{command}");
}

#[test]
fn what_is_documented_as_a_limit_passes() {
    for command in [
        // Answers of programs, files, and code that builds an address are not known from the text.
        "curl http://$(cat host)/",
        "echo aHR0cDovLzE2OS4yNTQuMTY5LjI1NC8= | base64 -d | xargs curl",
        "python3 -c 'import requests; requests.get(\"http://\" + \".\".join([\"169\",\"254\",\"169\",\"254\"]))'",
        "curl http://169.254.169.254.example.com/",
        "bash other.sh",
        "while read h; do curl -s http://$h/; done <<< 169.254.169.254",
        "docker pull 169.254.169.254:5000/x",
        "f() { curl \"$1\"; }; f 169.254.169.254",
    ] {
        assert_eq!(forbidden_target(command), None, "{command}");
    }
}

#[test]
fn texts_that_repeat_what_is_looked_for_are_read_in_bounded_time() {
    // Not timed: with work in the square of the length these would run for minutes.
    for piece in [
        "$(",
        "`",
        "${",
        "'",
        "\"",
        "$'",
        "<<A\n",
        "<<<",
        "$a",
        "a=$a$a;",
        "a=b ",
        "bash -c '",
        "{a,",
        "[1-9]",
        "\\",
        "for a in ",
        "| sh ",
        "cat > x <<E\n./x\nE\n./x\n",
        "eval ",
        "sudo ",
        "xargs ",
        "python3 -c '(",
        "http://",
        "@",
        "%",
        ":",
        "echo a|",
        "curl ",
        "((((",
        "#",
        "é",
    ] {
        let text = piece.repeat((64 << 10) / piece.len());
        let _ = forbidden_target(&text);
        let _ = forbidden_target(&format!("curl {text}"));
        let _ = forbidden_target(&format!("python3 -c \"{text}\""));
    }
}

fn hex(byte: u8) -> String {
    format!("\\x{byte:02x}")
}

fn shell_piece() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "curl ",
            "bash -c ",
            "python3 -c ",
            "node -e ",
            "echo ",
            "sudo ",
            "xargs ",
            "'",
            "\"",
            "`",
            "$(",
            ")",
            "${",
            "}",
            "$a",
            "a=",
            "$'",
            "\\x31",
            "<<E\n",
            "\nE\n",
            "<<<",
            "> ",
            "/dev/tcp/",
            "http://",
            "169.254.169.254",
            "0xa9fea9fe",
            "[::",
            "]",
            "@",
            ":80",
            "#",
            "\\",
            "\n",
            " ",
            ";",
            "|",
            "&&",
            "{",
            ",",
            "(",
            "é",
            "%31",
            "..",
        ])
        .prop_map(str::to_owned),
        "[a-z0-9.]{1,8}",
        any::<char>().prop_map(String::from),
    ]
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(pieces in proptest::collection::vec(shell_piece(), 0..60)) {
        let _ = forbidden_target(&pieces.concat());
    }

    #[test]
    fn every_spelling_of_an_address_is_the_address(octets in any::<[u8; 4]>(), forms in proptest::collection::vec(0usize..3, 4), parts in 1usize..5) {
        let spell = |value: u32, form: usize| match form {
            0 => value.to_string(),
            1 => format!("{value:#x}"),
            _ => format!("0{value:o}"),
        };
        let bits = u32::from_be_bytes(octets);
        let heads = (0..parts - 1).map(|i| u32::from(octets[i]));
        let last = if parts == 1 { bits } else { bits & (u32::MAX >> (8 * (parts - 1))) };
        let text: Vec<String> = heads.chain([last]).zip(&forms).map(|(value, form)| spell(value, *form)).collect();
        let plain = std::net::Ipv4Addr::from_bits(bits);
        prop_assert_eq!(host::host(&text.join(".")).is_some(), target::address(plain.into()).is_some());
        let metadata = std::net::Ipv4Addr::new(169, 254, octets[2] % 2 + 169, octets[3]);
        let [a, b, c, d] = metadata.octets().map(u32::from);
        let spelled = [spell(a, forms[0]), spell(b, forms[1]), spell((c << 8) | d, forms[2])].join(".");
        prop_assert!(forbidden_target(&format!("curl http://{spelled}/")).is_some(), "{}", spelled);
    }

    #[test]
    fn quoting_does_not_hide_a_target(cuts in proptest::collection::vec((1usize..20, 0usize..4), 0..6)) {
        let url = "http://169.254.169.254/";
        let mut text = String::from("curl ");
        let mut rest = url;
        for (len, form) in cuts {
            let (head, tail) = rest.split_at(len.min(rest.len()));
            rest = tail;
            let piece = match form {
                0 => format!("'{head}'"),
                1 => format!("\"{head}\""),
                2 => head.chars().flat_map(|c| ['\\', c]).collect(),
                _ => ["$'".to_owned(), head.bytes().map(hex).collect(), "'".to_owned()].concat(),
            };
            text += &piece;
        }
        text += rest;
        prop_assert!(forbidden_target(&text).is_some(), "{}", text);
        prop_assert!(forbidden_target(&text.replacen("curl", "echo", 1)).is_none());
    }
}

#[rstest]
#[case("curl http://169.254.169.254/", "a metadata service")]
#[case("curl http://web.internal/", "a service inside the platform")]
fn a_refusal_says_what_the_target_is(#[case] command: &str, #[case] what: &str) {
    let message = forbidden_target(command).unwrap().to_string();
    assert!(message.contains(what) && message.contains("take it out"), "{message}");
}
