use super::*;
use rstest::rstest;
use runner_protocol::{Capture, Shape, Source};

fn pem(lines: usize) -> String {
    let line = "aZ3bY5cX7dW9eV1fU".repeat(4);
    let body: Vec<String> = (0..lines).map(|n| format!("{:02}{}\n", n % 100, &line[..62])).collect();
    let body = body.concat();
    ["-----BEGIN PRIVATE ", "KEY-----\n", &body, "-----END PRIVATE ", "KEY-----"].concat()
}

fn secrets() -> [String; 5] {
    [
        ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat(),
        format!("password={}", ["hunter", "2Xy9"].concat()),
        ["AKIA", "IOSFODNN7", "EXAMQ7R"].concat(),
        pem(20),
        // Longer than what is looked at before a tail.
        pem(120),
    ]
}

fn parts(text: &[u8], shape: Shape) -> Parts {
    let mut capture = Capture::new(shape);
    let sent = capture.take(Source::Stdout, text);
    let [(counts, rest), _] = capture.finish();
    Parts::of(shape, &counts, [&text[..sent], &rest].concat()).unwrap()
}

/// decisions O-a: neither border leaves 8 bytes of a secret.
#[test]
fn a_secret_at_any_offset_around_either_border_leaves_nothing_of_itself() {
    let shape = Shape { cap: 32_768, lookahead: redact::LOOKAHEAD as u64, head_only: false };
    let redactor = Redactor::default();
    let total = 80_000;
    for secret in secrets() {
        let step = (secret.len() / 25).max(1);
        for border in [24_576, total - (8192 - 128)] {
            for offset in (0..secret.len() + 40).step_by(step) {
                let at: usize = border - offset;
                let filler =
                    |length: usize| "some plain words of output\n".chars().cycle().take(length).collect::<String>();
                let before = filler(at - 1);
                let text = format!("{before}\n{secret}\n{}", filler(total - at - secret.len() - 1));
                let shown = Redacted::of(parts(text.as_bytes(), shape), &redactor, false);
                let stored = [shown.head, shown.tail].concat();
                let stored = String::from_utf8(stored).unwrap();
                let secret_value = secret.strip_prefix("password=").unwrap_or(&secret);
                for piece in secret_value.as_bytes().windows(8) {
                    let piece = std::str::from_utf8(piece).unwrap();
                    // The lines around a key say only that there is one.
                    let around = ["BEGIN", "END"].map(|word| format!("\n-----{word} PRIVATE {}-----\n", "KEY"));
                    if !around.iter().any(|line| line.contains(piece)) {
                        assert!(!stored.contains(piece), "{border} {offset}: {piece:?} of a secret is stored");
                    }
                }
            }
        }
    }
}

#[rstest]
#[case("begins at a line", "aaa\nbbb", "xx\nccc ccc\nddd\n", 3, "ccc ccc\nddd\n")]
#[case("begins behind a line", "aaa\n", "ccc ccc\nddd\n", 0, "ccc ccc\nddd\n")]
#[case("one long line", "word wo", "rd and more", 0, " and more")]
#[case("one long word", "abc", "defghijkl", 0, "")]
#[case(
    "the rest of a key",
    "aaa\n",
    "aaaa0000bbbb1111cccc\nAAAA1111BBBB2222CCCC\n-----END X-----\nok\n",
    0,
    "REDACTED\nREDACTED\nREDACTED\nok\n"
)]
#[case("a last line alone", "aaa ", "b", 0, "")]
fn a_tail_begins_at_a_line_and_not_with_the_rest_of_a_secret(
    #[case] name: &str,
    #[case] behind: &str,
    #[case] tail: &str,
    #[case] more: u64,
    #[case] shown: &str,
) {
    let parts = Parts {
        head: b"head".to_vec(),
        gap: 50,
        behind: behind.into(),
        tail: tail.into(),
        written: 1000,
        ..Parts::default()
    };
    let redacted = Redacted::of(parts, &Redactor::default(), false);
    assert_eq!((String::from_utf8(redacted.tail).unwrap().as_str(), redacted.gap), (shown, 50 + more), "{name}");
}

#[test]
fn the_middle_of_a_text_is_exact_where_nothing_is_masked_and_hides_what_the_borders_go_through() {
    let redactor = Redactor::default();
    let token = ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    let text = format!("one two {token} three {token} four REDACTED five");
    for before in 0..text.len() {
        for content in [0, 1, 5, 17, 40, 200] {
            let shown = Redacted::window(text.as_bytes(), before, content, &redactor);
            let exact = &text.as_bytes()[before..(before + content).min(text.len())];
            let touches = (8..8 + token.len()).chain(8 + token.len() + 7..8 + 2 * token.len() + 7);
            let masks = touches.into_iter().any(|at| (before..before + content).contains(&at));
            if masks {
                let shown = String::from_utf8(shown.head).unwrap();
                let leaks =
                    token.as_bytes().windows(6).any(|piece| shown.contains(std::str::from_utf8(piece).unwrap()));
                assert!(!leaks, "{before} {content}: {shown}");
            } else {
                assert_eq!((shown.head.as_slice(), shown.hits), (exact, 0), "{before} {content}");
            }
        }
    }
}
