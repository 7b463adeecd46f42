//! The scenarios that a pure function answers, by their numbers: tests/data/rules/scenarios.jsonl says what is wanted.

use base64::{Engine, engine::general_purpose::STANDARD};

use redact::Redactor;
use runner_protocol::{Cause, Record};

use super::{
    environment, object_size,
    outcome::{Outcome, Seen, Verdict, judge},
    output::{Capture, Captured, Detail, Source, Stored, shape},
    quota::{Charge, DAY, Ledger, MAX_BUCKETS, Quota, Scope, UsageHistory},
    record::{Code, Entry, Event, Head, Principal},
    session_name::{NameError, SecretError, SessionKey, SessionSecret, sprite_labels, sprite_name, user_digest},
};
use api::reasons::{RunPhase, RunReason};

/// 2026-11-01T00:00:00Z.
const MIDNIGHT: i64 = 1_793_491_200_000;
const MINUTE: i64 = 60_000;

/// Every line has its test here, and every test its line.
#[test]
fn every_scenario_is_as_wanted() {
    let text = include_str!("../../../tests/data/rules/scenarios.jsonl");
    let wanted: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned())
        .collect();
    let tested: Vec<&str> = SCENARIOS.iter().map(|(id, _)| *id).collect();
    assert_eq!(wanted, tested);
    for (id, scenario) in SCENARIOS {
        eprintln!("scenario {id}");
        scenario();
    }
}

const SCENARIOS: &[(&str, fn())] = &[
    ("5.16", || {
        assert_eq!(set(&[("A", "\u{1f600}")]), Ok(vec![("A".into(), "\u{1f600}".into())]));
        // A value that is no UTF-8 cannot be written in a Run: its JSON is refused as a whole.
        assert!(serde_json::from_slice::<String>(b"\"\xf0\x9f\x98\x80\xff\"").is_err());
    }),
    ("5.17", || assert!(set(&[("A", &"x".repeat(32 << 10))]).is_ok())),
    ("5.19", || {
        let names: Vec<String> = (0..2000).map(|n| format!("A{n}")).collect();
        let own: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
        assert_eq!(set(&own).unwrap_err(), [environment::EnvironmentError::TooMany(2000)], "none of them, and why");
    }),
    ("5.20", || assert!(set(&[("A", "1"), ("A", "2")]).is_err())),
    ("5.21", || assert_eq!(set(&[("a", "1"), ("A", "2")]).unwrap().len(), 2)),
    ("6.03", || {
        let seen = Seen { started: true, ..Seen::default() };
        assert_eq!(judge(&seen), Verdict::AskGuest, "no code is made up");
        assert_eq!(text(&captured(64, &[b"a"])), "a");
    }),
    ("6.04", || assert_eq!(ended(137), (RunPhase::Failed, RunReason::Killed, Some(137)))),
    ("6.11", || {
        let captured = captured(65_536, &[&[b'a'; 65_536]]);
        assert!(!captured.truncated && text(&captured).len() == 65_536);
    }),
    ("6.12", || {
        let captured = captured(65_536, &[&[b'a'; 65_537]]);
        assert!(captured.truncated && text(&captured).len() == 65_536 && captured.stdout.bytes == 65_537);
    }),
    ("6.13", || {
        let emoji = "\u{1f600}".as_bytes();
        for at in 1..4 {
            assert_eq!(text(&captured(64, &[&emoji[..at], &emoji[at..]])), "\u{1f600}");
        }
    }),
    ("6.14", || {
        let captured = captured(64, &[b"\xc3"]);
        assert_eq!((captured.stdout.base64.as_deref(), captured.stdout.bytes), (Some("ww=="), 1));
        assert_eq!((captured.stdout.text.as_deref(), captured.stdout.lossy), (Some("\u{fffd}"), true));
    }),
    ("6.15", || {
        let utf16: Vec<u8> =
            std::iter::once(0xfeff).chain("h\u{e9}".encode_utf16()).flat_map(u16::to_le_bytes).collect();
        let captured = captured(64, &[&utf16]);
        assert_eq!(STANDARD.decode(captured.stdout.base64.unwrap()).unwrap(), utf16);
    }),
    ("6.17", || {
        for c in ["<", "\"", "\\", "\u{1}", "\u{2028}"] {
            // What is stored where the object has no room for the text.
            let compact = capture(131_072, &[c.repeat(65_536).as_bytes()]).stored(Detail::Shortest).stdout;
            let stored = compact.text.or(compact.base64).unwrap();
            assert!(object_size::escaped_size(&stored) <= 131_072 / 3 * 4 + 4, "{c:?}");
            assert!(object_size::escaped_size(&stored) < object_size::STATUS_ROOM);
        }
    }),
    ("6.18", || assert_eq!(text(&captured(64, &[b"a\r\nb\rc\r"])), "a\r\nb\rc\r")),
    ("6.20", || assert_eq!(Code::of_redacted("echo \u{202e}x").text, "echo \\u{202e}x")),
    ("6.33", || assert_eq!(ended(127), (RunPhase::Failed, RunReason::NonZeroExit, Some(127)))),
    ("6.36", || assert_eq!(text(&captured(64, &[b"no newline"])), "no newline")),
    ("6.37", || {
        let captured = captured(1000, &[[b'a'; 65_536].as_slice(); 160]);
        assert!(captured.truncated && text(&captured).len() == 1000 && captured.stdout.bytes == 160 * 65_536);
    }),
    ("7.01", || assert_eq!((used_by("alice", "alice"), user_digest("alice").len()), (1, 32))),
    ("7.03", || {
        assert_eq!(used_by("alice ", "alice"), 0);
        assert_ne!(user_digest("alice"), user_digest("alice "));
    }),
    ("7.06", || {
        assert_eq!(used_by("system:serviceaccount:a:b:c", "system:serviceaccount:a:b:c"), 1);
        assert_eq!(used_by("system:serviceaccount:a:b:c", "system:serviceaccount:a:b"), 0);
    }),
    ("7.09", || assert!(is_label(&user_digest("CN=ops,O=x")))),
    ("7.11", || {
        let long = "u".repeat(1024);
        assert!(is_label(&user_digest(&long)) && used_by(&long, &long) == 1 && used_by(&long, &long[1..]) == 0);
    }),
    ("7.12", || {
        let event =
            Event { id: "r/Denied".into(), actor: Principal { user: "a\nb\0c".into(), uid: None }, ..Event::default() };
        let (_, head) = Head::default().append(segment()).unwrap();
        let (line, _) = head.append(Entry::Event(Box::new(event))).unwrap();
        assert!(line.contains(r#""user":"a\nb\u0000c""#) && !line.contains(['\n', '\0']), "{line}");
    }),
    ("7.13", || assert_ne!(named("i", "a-b", "c", "u"), named("i", "a", "b-c", "u"))),
    ("7.14", || {
        assert_ne!(named("i", "a", "b:c", "u"), named("i", "a:b", "c", "u"));
        assert_eq!(named("i", "a\0b", "c", "u"), Err(NameError::Nul("the namespace")), "what joins them is in none");
    }),
    ("7.15", || {
        assert_ne!(named("i", "a", "b", "u1"), named("i", "a", "b", "u2"));
        assert_ne!(sprite_labels("i", "a", "u1"), sprite_labels("i", "a", "u2"));
    }),
    ("7.18", || assert_eq!(SessionSecret::new(b"").unwrap_err(), SecretError::TooShort(0), "and never a constant key")),
    ("7.19", || {
        assert_eq!(SessionSecret::new(b"k\n").unwrap_err(), SecretError::TooShort(1));
        let of = |content: &[u8]| sprite_name(&SessionSecret::new(content).unwrap(), "i", key("a", "b", "u"));
        assert_eq!(of(&[b'k'; 32]), of(&[&[b'k'; 32][..], b"\n"].concat()));
    }),
    ("7.20", || assert_ne!(named("one", "a", "b", "u"), named("two", "a", "b", "u"))),
    ("7.22", || {
        let long = format!("{}x", "abc.".repeat(63));
        let name = named("i", "a", &long, "u").unwrap();
        assert!(name.len() == 44 && is_label(&name) && name != named("i", "a", &long[1..], "u").unwrap());
    }),
    ("9.01", || assert_eq!(tenth(MIDNIGHT - DAY + 100), Err(Some(1)))),
    ("9.02", || {
        assert_eq!(tenth(MIDNIGHT - DAY), Ok(()));
        let charges = (1..10).map(|n| charge(n, MIDNIGHT - n)).chain([charge(11, MIDNIGHT)]);
        assert_eq!(Ledger::new(charges, []).usage("alice", "d", MIDNIGHT).used(Scope::User), 10);
    }),
    ("9.04", || assert_eq!(counted(MIDNIGHT - 40 * DAY, MIDNIGHT), 0)),
    ("9.05", || {
        let admitted = MIDNIGHT - 2 * MINUTE;
        assert_eq!([0, 7 * MINUTE, DAY - 1, DAY].map(|later| counted(admitted, admitted + later)), [1, 1, 1, 0]);
    }),
    ("9.06", || {
        // Not charged while it waits, however long; then from its admission on.
        let waiting = Charge { at: None, ..charge(1, 0) };
        assert_eq!(Ledger::new([waiting], []).usage("alice", "d", MIDNIGHT).used(Scope::User), 0);
        let admitted = MIDNIGHT + MINUTE;
        assert_eq!([0, DAY - 1, DAY].map(|later| counted(admitted, admitted + later)), [1, 1, 0]);
    }),
    ("9.07", || {
        assert_eq!(counted(MIDNIGHT, MIDNIGHT - 5000), 1);
        assert_eq!([DAY - 1, DAY].map(|later| counted(MIDNIGHT, MIDNIGHT + later)), [1, 0]);
    }),
    ("9.08", || {
        assert_eq!(counted(MIDNIGHT, MIDNIGHT - 26 * 60 * MINUTE), 1);
        assert_eq!(counted(MIDNIGHT, i64::MIN), 1);
    }),
    // Milliseconds since the epoch: there is no zone and no day that could be longer.
    ("9.15", || assert_eq!([DAY - 1, DAY].map(|later| counted(MIDNIGHT, MIDNIGHT + later)), [1, 0])),
    ("9.16", || {
        // The charge of the leader whose clock is ahead is seen by the other, once.
        let ahead = Ledger::new([charge(1, MIDNIGHT + 3000), charge(1, MIDNIGHT + 3000)], []);
        assert_eq!(ahead.usage("alice", "d", MIDNIGHT).used(Scope::User), 1);
    }),
    ("9.17", || {
        let mut history = UsageHistory::default();
        let end = MIDNIGHT + 10_000 * 8000;
        for n in 0..10_000 {
            let run = format!("run-{n}");
            assert!(history.fold(&run, MIDNIGHT + n * 8000, "d", MIDNIGHT + n * 8000));
            history.prune([run.as_str()]);
        }
        assert!(history.buckets().count() <= MAX_BUCKETS && history.folding().count() == 0);
        let usage = Ledger::new([], [("alice".to_owned(), history)]).usage("alice", "d", end);
        assert_eq!(usage.used(Scope::User), 10_000);
    }),
    ("9.18", || assert_eq!(counted(MIDNIGHT + 14 * 60 * MINUTE, MIDNIGHT + DAY), 1)),
    ("9.23", || {
        assert!(!Outcome::unknown("the connection was lost").never_started, "charged");
        assert!(Outcome::not_started("the platform could not be reached").never_started, "not charged");
    }),
    ("9.26", || {
        let quota = Quota { concurrent: 0, user: Some(0), drive: Some(0), tenant: Some(0) };
        let exceeded = Ledger::default().usage("alice", "d", MIDNIGHT).exceeded(&quota, MIDNIGHT);
        assert!(exceeded.len() == 4 && exceeded.iter().all(|one| one.retry_after.is_none()));
    }),
];

fn set(own: &[(&str, &str)]) -> Result<Vec<(String, String)>, Vec<environment::EnvironmentError>> {
    let allow: Vec<&str> = own.iter().map(|(name, _)| *name).collect();
    environment::combine(&[], &allow, own)
}

fn ended(code: u8) -> (RunPhase, RunReason, Option<u8>) {
    let ran = std::time::Duration::ZERO;
    let record = Record { code, by: Cause::Script, ran, ended: 0, remaining: 0, stdout: None, stderr: None };
    let seen = Seen { exit: Some(code), started: true, line: Some(record), ..Seen::default() };
    let Verdict::Final(Outcome { phase, reason, exit_code, .. }) = judge(&seen) else { panic!("{code}") };
    (phase, reason, exit_code)
}

fn capture(cap: u64, chunks: &[&[u8]]) -> Captured {
    let mut capture = Capture::unmarked(shape(cap, true));
    for chunk in chunks {
        capture.push(Source::Stdout, chunk);
    }
    capture.finish(&Redactor::default())
}

fn captured(cap: u64, chunks: &[&[u8]]) -> Stored {
    capture(cap, chunks).stored(Detail::Whole)
}

fn text(captured: &Stored) -> &str {
    captured.stdout.text.as_deref().unwrap()
}

fn is_label(text: &str) -> bool {
    text.len() <= 63 && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn key<'a>(namespace: &'a str, conversation: &'a str, uid: &'a str) -> SessionKey<'a> {
    SessionKey { namespace, drive: "d", conversation, uid }
}

fn named(installation: &str, namespace: &str, conversation: &str, uid: &str) -> Result<String, NameError> {
    sprite_name(&SessionSecret::new(&[7; 32]).unwrap(), installation, key(namespace, conversation, uid))
}

fn segment() -> Entry {
    Entry::Segment { time: "2026-11-01T00:00:00.000Z".into(), writer: "operator".into(), continues: 0 }
}

fn charge(run: i64, at: i64) -> Charge {
    Charge { run: run.to_string(), user: "alice".into(), drive: "d".into(), at: Some(at), active: false }
}

/// Whether an eleventh Run fits under a limit of ten when the oldest of ten charges was made then.
fn tenth(oldest: i64) -> Result<(), Option<u32>> {
    let charges = (1..10).map(|n| charge(n, MIDNIGHT - n)).chain([charge(10, oldest)]);
    let usage = Ledger::new(charges, []).usage("alice", "d", MIDNIGHT);
    let quota = Quota { concurrent: 1, user: Some(10), drive: None, tenant: None };
    usage.exceeded(&quota, MIDNIGHT).first().map_or(Ok(()), |one| Err(one.retry_after))
}

/// What one charge counts at a moment.
fn counted(at: i64, now: i64) -> u64 {
    Ledger::new([charge(1, at)], []).usage("alice", "d", now).used(Scope::User)
}

/// What a charge of one user counts for another.
fn used_by(charged: &str, asked: &str) -> u64 {
    let charge = Charge { user: charged.to_owned(), ..charge(1, MIDNIGHT) };
    Ledger::new([charge], []).usage(asked, "d", MIDNIGHT).used(Scope::User)
}
