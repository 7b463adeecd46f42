use super::*;
use crate::egress::Rule;
use rstest::rstest;

fn deny_all() -> Ruleset {
    Ruleset::deny_all()
}

fn read(rules: &Ruleset) -> Vec<ReadRule> {
    rules.rules().iter().map(|rule| ReadRule { rule: rule.clone(), unknown: Vec::new() }).collect()
}

fn more() -> Vec<ReadRule> {
    let rule = Rule { action: Some("allow".into()), domain: Some("example.com".into()), include: None };
    let mut rules = read(&deny_all());
    rules.push(ReadRule { rule, unknown: Vec::new() });
    rules
}

const RUNNER: &str = "r";

fn demanded(rules: &Ruleset) -> Demanded<'_> {
    Demanded { rules, runner: RUNNER }
}

fn token(instance: &str, hash: &str) -> String {
    format!("{instance}:{hash}")
}

const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn live(rules: Option<&[ReadRule]>) -> LiveInstance<'_> {
    LiveInstance { id: "i", ours: true, private: true, rules }
}

/// What an assessment says, in a word.
fn word(assessment: &Assessment) -> &'static str {
    match assessment {
        Assessment::Lost(Difference::Instance) => "another instance",
        Assessment::Lost(Difference::NotOurs) => "not ours",
        Assessment::Lost(Difference::UrlPublic) => "public",
        Assessment::Lost(Difference::Rules(_)) => "other rules",
        Assessment::Lost(Difference::RulesNotRead) => "not read",
        Assessment::Apply(ApplyReason::Fresh) => "fresh",
        Assessment::Apply(ApplyReason::InstanceUnknown) => "no instance",
        Assessment::Apply(ApplyReason::NoToken) => "no token",
        Assessment::Apply(ApplyReason::EgressDiffers) => "other demand",
        Assessment::Apply(ApplyReason::InstanceDiffers) => "token of another",
        Assessment::Apply(ApplyReason::RunnerDiffers) => "other runner",
        Assessment::Holds { read: true, .. } => "holds, read",
        Assessment::Holds { read: false, .. } => "holds",
    }
}

#[derive(Clone, Copy)]
enum Seen {
    No,
    Asleep,
    Exactly,
    More,
    NoRules,
    Other,
    Foreign,
    Public,
    PublicAndMore,
}

impl Seen {
    /// The live Sprite, with these rules where it has them.
    fn live<'a>(self, exactly: &'a [ReadRule], more: &'a [ReadRule]) -> Option<LiveInstance<'a>> {
        match self {
            Self::No => None,
            Self::Asleep => Some(live(None)),
            Self::Exactly => Some(live(Some(exactly))),
            Self::More => Some(live(Some(more))),
            Self::NoRules => Some(live(Some(&[]))),
            Self::Other => Some(LiveInstance { id: "j", ..live(Some(exactly)) }),
            Self::Foreign => Some(LiveInstance { ours: false, ..live(Some(exactly)) }),
            Self::Public => Some(LiveInstance { private: false, ..live(None) }),
            Self::PublicAndMore => Some(LiveInstance { private: false, ..live(Some(more)) }),
        }
    }
}

#[rstest]
#[case::on_record("i", Some(token("i", deny_all().hash())), false, Seen::No, "holds")]
#[case::asleep("i", Some(token("i", deny_all().hash())), false, Seen::Asleep, "holds")]
#[case::read("i", Some(token("i", deny_all().hash())), false, Seen::Exactly, "holds, read")]
#[case::a_rule_more("i", Some(token("i", deny_all().hash())), false, Seen::More, "other rules")]
#[case::no_rules_deny_nothing("i", Some(token("i", deny_all().hash())), false, Seen::NoRules, "other rules")]
#[case::replaced("i", Some(token("i", deny_all().hash())), false, Seen::Other, "another instance")]
#[case::labels_gone("i", Some(token("i", deny_all().hash())), false, Seen::Foreign, "not ours")]
#[case::url_made_public("i", Some(token("i", deny_all().hash())), false, Seen::Public, "public")]
#[case::the_url_comes_first("i", Some(token("i", deny_all().hash())), false, Seen::PublicAndMore, "public")]
#[case::the_policy_changed("i", Some(token("i", OTHER)), false, Seen::No, "other demand")]
#[case::its_old_rules_are_not_known("i", Some(token("i", OTHER)), false, Seen::More, "other demand")]
#[case::but_public_is_public("i", Some(token("i", OTHER)), false, Seen::Public, "public")]
#[case::token_of_another("i", Some(token("j", deny_all().hash())), false, Seen::Exactly, "token of another")]
#[case::never_locked("i", None, true, Seen::No, "fresh")]
#[case::fresh_whatever_stands_there("i", Some(token("i", deny_all().hash())), true, Seen::Exactly, "fresh")]
#[case::token_taken_back("i", None, false, Seen::Exactly, "no token")]
#[case::no_token("i", Some("i".to_owned()), false, Seen::Exactly, "no token")]
#[case::no_instance("", Some(token("i", deny_all().hash())), false, Seen::Exactly, "no instance")]
fn a_sprite_is_locked_down_in_one_case(
    #[case] instance: &str,
    #[case] token: Option<String>,
    #[case] fresh: bool,
    #[case] seen: Seen,
    #[case] expected: &str,
) {
    let (exactly, more) = (read(&deny_all()), more());
    let live = seen.live(&exactly, &more);
    let recorded = Recorded { instance: Some(instance), token: token.as_deref(), runner: Some(RUNNER), fresh };
    assert_eq!(word(&assess(Some(demanded(&deny_all())), recorded, live)), expected);
}

/// The recorded runner is none, or another one.
#[rstest]
#[case::holds_otherwise("i", Some(token("i", deny_all().hash())), false, Seen::Exactly, "other runner")]
#[case::asleep("i", Some(token("i", deny_all().hash())), false, Seen::Asleep, "other runner")]
#[case::the_policy_changed_too("i", Some(token("i", OTHER)), false, Seen::No, "other runner")]
#[case::told_also_once_the_token_is_taken_back("i", None, false, Seen::Exactly, "other runner")]
#[case::never_locked("i", None, true, Seen::No, "fresh")]
#[case::no_instance("", None, false, Seen::No, "no instance")]
#[case::what_contradicts_the_record_comes_first("i", Some(token("i", deny_all().hash())), false, Seen::More, "other rules")]
fn another_runner_is_replaced(
    #[case] instance: &str,
    #[case] token: Option<String>,
    #[case] fresh: bool,
    #[case] seen: Seen,
    #[case] expected: &str,
) {
    let (exactly, more) = (read(&deny_all()), more());
    let live = seen.live(&exactly, &more);
    for runner in [None, Some(""), Some("s")] {
        let recorded = Recorded { instance: Some(instance), token: token.as_deref(), runner, fresh };
        assert_eq!(word(&assess(Some(demanded(&deny_all())), recorded, live)), expected);
    }
}

#[test]
fn without_a_policy_in_force_the_record_stands_until_something_contradicts_it() {
    let text = token("i", OTHER);
    let recorded = Recorded { instance: Some("i"), token: Some(&text), runner: None, fresh: false };
    let more = more();
    assert_eq!(word(&assess(None, recorded, None)), "holds");
    assert_eq!(word(&assess(None, recorded, Some(live(Some(&more))))), "holds");
    assert_eq!(word(&assess(None, recorded, Some(LiveInstance { private: false, ..live(None) }))), "public");
}

/// Every combination of what is recorded and what is demanded.
#[test]
fn a_record_holds_in_one_case_of_the_whole_truth_table() {
    let hash = deny_all().hash().to_owned();
    let tokens = [
        None,
        Some(String::new()),
        Some("i".to_owned()),
        Some(format!(":{hash}")),
        Some("i:".to_owned()),
        Some(token("i", &hash)),
        Some(token("i", OTHER)),
        Some(token("j", &hash)),
        Some(format!("{} ", token("i", &hash))),
        Some(token("i", &hash).to_uppercase()),
    ];
    let mut held = Vec::new();
    for recorded in &tokens {
        for instance in [None, Some(""), Some("i"), Some("j")] {
            for fresh in [false, true] {
                for runner in [None, Some(""), Some(RUNNER), Some("R"), Some("rr")] {
                    let record = Recorded { instance, token: recorded.as_deref(), runner, fresh };
                    if matches!(assess(Some(demanded(&deny_all())), record, None), Assessment::Holds { .. }) {
                        held.push((recorded.clone(), instance, runner, fresh));
                    }
                }
            }
        }
    }
    let one = |instance| (Some(token(instance, &hash)), Some(instance), Some(RUNNER), false);
    assert_eq!(held, [one("i"), one("j")]);
}

#[test]
fn a_token_is_made_only_of_what_was_read_back() {
    let (exactly, more) = (read(&deny_all()), more());
    let confirmed = Confirmed::of(&deny_all(), live(Some(&exactly))).unwrap();
    let token = Token::from(confirmed);
    assert_eq!((token.instance(), token.egress()), ("i", deny_all().hash()));
    assert_eq!(Token::parse(&token.to_string()), Some(token));
    for (live, why) in [
        (live(None), Difference::RulesNotRead),
        (LiveInstance { private: false, ..live(Some(&exactly)) }, Difference::UrlPublic),
        (LiveInstance { ours: false, ..live(Some(&exactly)) }, Difference::NotOurs),
    ] {
        assert_eq!(Confirmed::of(&deny_all(), live), Err(why));
    }
    assert!(matches!(Confirmed::of(&deny_all(), live(Some(&more))), Err(Difference::Rules(_))));
}

#[test]
fn a_token_reads_back_even_when_the_id_holds_a_colon() {
    let text = token("a:b", OTHER);
    assert_eq!(Token::parse(&text).unwrap().instance(), "a:b");
    assert_eq!(Token::parse("a:"), None);
    assert_eq!(Token::parse(&format!("a:{}", OTHER.to_uppercase())), None);
}
