//! How the scanner goes over a text: its shortcut decides nothing, and its work is linear.

use super::*;

/// Counts how often a pass is asked.
#[derive(Debug)]
struct Counting(Scanner, usize);

impl window::Pass for Counting {
    fn ahead(&self) -> usize {
        self.0.ahead()
    }

    fn step(&mut self, place: window::Place<'_>) -> window::Step {
        self.1 += 1;
        self.0.step(place)
    }
}

/// The scanner without its shortcut over ordinary text.
#[derive(Debug, Default)]
struct Slow(Scanner);

impl window::Pass for Slow {
    fn ahead(&self) -> usize {
        self.0.ahead()
    }

    fn step(&mut self, place: window::Place<'_>) -> window::Step {
        self.0.look(place)
    }
}

fn slowly(text: &str) -> (String, Hits) {
    let (mut out, mut hits) = (String::new(), Hits::default());
    Machine::new(Slow::default()).run(text, true, &mut out, &mut hits, &mut ());
    (out, hits)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_shortcut_over_ordinary_text_changes_nothing(texts in proptest::collection::vec(text(), 1..4), blanks in 0usize..3) {
        let text = texts.join(&" ".repeat(blanks));
        let fast = Redactor::default().read(&text, true);
        let (out, hits) = slowly(&text);
        prop_assert_eq!(&fast.text, &out, "from {:?}", text);
        prop_assert_eq!(fast.hits, hits);
    }
}

#[test]
fn the_shortcut_changes_nothing_in_the_corpora() {
    let files = [
        include_str!("../../../../tests/data/rules/commands-ordinary.jsonl"),
        include_str!("../../../../docs/rules.md"),
        include_str!("../key.rs"),
    ];
    let mut texts: Vec<String> = secrets()
        .iter()
        .chain(&harmless())
        .map(|line| line.text.join() + "\n")
        .chain(files.map(str::to_owned))
        .collect();
    texts.push(texts.concat());
    for text in texts {
        assert_eq!(redact(&text), slowly(&text).0, "{text}");
    }
}

proptest! {
    #[test]
    fn twice_the_text_is_no_more_than_twice_the_work(text in text()) {
        let steps = |text: &str| {
            let mut machine = Machine::new(Counting(Scanner::default(), 0));
            machine.run(text, true, &mut String::new(), &mut Hits::default(), &mut ());
            machine.pass().1
        };
        // Each step looks at no more than the window, and none is made without going on.
        let (once, twice) = (steps(&text), steps(&text.repeat(2)));
        prop_assert!(once <= 2 * text.len() + 1);
        prop_assert!(twice <= 2 * (2 * text.len()) + 1);
    }
}

#[test]
fn ordinary_text_is_passed_at_once() {
    let mut machine = Machine::new(Counting(Scanner::default(), 0));
    machine.run(&"word ".repeat(10_000), true, &mut String::new(), &mut Hits::default(), &mut ());
    assert!(machine.pass().1 < 100, "{}", machine.pass().1);
}

#[test]
fn a_ruler_is_passed_in_few_steps() {
    let mut machine = Machine::new(Counting(Scanner::default(), 0));
    machine.run(&"-".repeat(1000), true, &mut String::new(), &mut Hits::default(), &mut ());
    assert!(machine.pass().1 < 40, "{}", machine.pass().1);
}

/// The shortcut does not count down what the scanner has judged: it must not be taken there.
#[rstest]
#[case::behind_a_path(&["see /usr/share/doc/packages/of/this/machine then ", "4aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF"], "see /usr/share/doc/packages/of/this/machine then REDACTED")]
#[case::behind_a_short_run(&["curl.abc.def AKIA", "IOSFODNN7ZZZZZZZ"], "curl.abc.def REDACTED")]
#[case::behind_a_user(&["curl -uann:hunter2x9 b AKIA", "IOSFODNN7ZZZZZZZ"], "curl -uann:REDACTED b REDACTED")]
fn what_is_judged_ends_where_it_ends(#[case] parts: &[&str], #[case] expected: &str) {
    assert_eq!(redact(&parts.concat()), expected);
}

#[test]
fn what_begins_at_the_end_of_the_window_is_not_gone_over() {
    let token = ["gh", "p_16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    for secret in [token.as_str(), "Bearer hunter2x9", "password=hunter2x9", "a://bob:hunter2x9@example.com/"] {
        for shift in 0..140 {
            let pad = &"pad ".repeat(WINDOW_LOOKAHEAD)[..WINDOW_LOOKAHEAD - 130 + shift];
            let text = [pad, " ", secret, " ", pad, pad].concat();
            let (expected, hits) = slowly(&text);
            assert_eq!(hits.total(), 1);
            assert_eq!(redact(&text), expected, "{secret} {shift}");
        }
    }
}
