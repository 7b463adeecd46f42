use super::{stored::Encoded, *};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use redact::LOOKAHEAD;
use rstest::rstest;

const MARKER: &str = "so-started u\n";

/// As where the script is stopped at the cap.
fn stops(cap: u64) -> Shape {
    shape(cap, true)
}

/// Whole, with what was said of it.
#[derive(Debug, Clone, PartialEq)]
struct Out {
    stdout: Encoded,
    stderr: Encoded,
    truncated: bool,
    over_cap: bool,
    redacted: bool,
    compact: Encoded,
}

impl From<Captured> for Out {
    fn from(captured: Captured) -> Self {
        let Stored { stdout, stderr, truncated } = captured.stored(Detail::Whole);
        let compact = captured.stored(Detail::Shortest).stdout;
        let Captured { over_cap, redactions, .. } = captured;
        Self { stdout, stderr, truncated, over_cap, redacted: redactions > 0, compact }
    }
}

fn text(text: &str, bytes: u64) -> Encoded {
    Encoded { text: Some(text.into()), base64: None, lossy: false, bytes }
}

fn captured(cap: u64, chunks: &[(Source, &[u8])]) -> (Out, bool) {
    let mut capture = Capture::new(stops(cap), "u");
    for (source, chunk) in chunks {
        capture.push(*source, chunk);
    }
    let started = capture.started();
    (capture.finish(&Redactor::default()).into(), started)
}

#[test]
fn the_marker_is_stripped_however_it_is_split() {
    for split in 0..=MARKER.len() {
        let (a, b) = MARKER.split_at(split);
        let rest = format!("{b}hello");
        let (out, started) = captured(100, &[(Source::Stdout, a.as_bytes()), (Source::Stdout, rest.as_bytes())]);
        assert!(started, "split at {split}");
        assert_eq!(out.stdout, text("hello", 5));
    }
}

#[test]
fn what_does_not_begin_with_the_marker_is_not_the_commands() {
    let (out, started) = captured(100, &[(Source::Stdout, b"so-startle"), (Source::Stdout, MARKER.as_bytes())]);
    assert!(!started);
    assert_eq!(out.stdout.text.as_deref(), Some(""));
}

#[rstest]
#[case(65_536, false)]
#[case(65_537, true)]
fn the_cap_is_exact(#[case] bytes: usize, #[case] truncated: bool) {
    let text = "a".repeat(bytes);
    let (out, _) = captured(65_536, &[(Source::Stdout, MARKER.as_bytes()), (Source::Stdout, text.as_bytes())]);
    assert_eq!(out.truncated, truncated);
    assert_eq!(out.stdout.bytes, bytes as u64);
    assert_eq!(out.stdout.text.unwrap().len(), 65_536);
}

#[test]
fn both_streams_share_one_cap_and_the_head_has_no_gaps() {
    let (out, _) = captured(
        8,
        &[
            (Source::Stdout, MARKER.as_bytes()),
            (Source::Stderr, b"12345"),
            (Source::Stdout, b"abcdef"),
            (Source::Stderr, b"6"),
        ],
    );
    assert_eq!(out.stderr, text("12345", 6));
    assert_eq!(out.stdout, text("abc", 6));
    assert!(out.truncated);
}

#[test]
fn a_cut_never_splits_a_character() {
    for cap in 9..13 {
        let (out, _) =
            captured(cap, &[(Source::Stdout, MARKER.as_bytes()), (Source::Stdout, "aaaaaaaaa€€".as_bytes())]);
        assert!(out.stdout.text.is_some(), "cap {cap}");
    }
}

#[test]
fn bytes_that_are_no_text_are_base64_and_text_is_where_room_is_short_and_that_is_shorter() {
    let (out, _) = captured(100, &[(Source::Stdout, MARKER.as_bytes()), (Source::Stdout, b"\0\x01\xffok")]);
    assert_eq!(out.stdout.base64.as_deref(), Some("AAH/b2s="));
    assert_eq!((out.stdout.text.as_deref(), out.stdout.lossy), (Some("\0\u{1}\u{fffd}ok"), true));
    assert_eq!((out.compact.text, out.compact.base64), (None, out.stdout.base64));
    let (out, _) = captured(100, &[(Source::Stdout, MARKER.as_bytes()), (Source::Stdout, &[1; 30])]);
    assert_eq!(out.stdout.text.as_ref().map(String::len), Some(30));
    let compact = out.compact;
    assert_eq!((compact.text, compact.base64.map(|b| b.len()), compact.bytes), (None, Some(40), 30));
    // Lines of one character have a JSON that is as long as base64, or longer; both are text to whoever reads.
    for (text, shorter) in [("1\n2\n3\n", true), ("a line of words\n", false), ("", false)] {
        let (out, _) = captured(100, &[(Source::Stdout, MARKER.as_bytes()), (Source::Stdout, text.as_bytes())]);
        assert_eq!(out.stdout.text.as_deref(), Some(text));
        assert_eq!(out.compact.base64.is_some(), shorter, "{text:?}");
    }
}

proptest! {
    #[test]
    fn never_more_than_the_cap_is_held(cap in 0u64..64, chunks in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..12)) {
        let mut capture = Capture::new(stops(cap), "u");
        capture.push(Source::Stdout, MARKER.as_bytes());
        let mut total = 0;
        for (out, chunk) in &chunks {
            total += chunk.len() as u64;
            capture.push(if *out { Source::Stdout } else { Source::Stderr }, chunk);
            prop_assert!((capture.stdout.bytes.len() + capture.stderr.bytes.len()) as u64 <= cap + 3 * LOOKAHEAD as u64);
        }
        let out = Out::from(capture.finish(&Redactor::default()));
        prop_assert_eq!(out.stdout.bytes + out.stderr.bytes, total);
        prop_assert_eq!(out.truncated, total > cap);
    }
}

fn token() -> String {
    ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat()
}

fn stored(text: &str, cap: u64, chunk: usize, redactor: &Redactor) -> Out {
    let mut capture = Capture::new(stops(cap), "u");
    capture.push(Source::Stdout, MARKER.as_bytes());
    for chunk in text.as_bytes().chunks(chunk) {
        capture.push(Source::Stdout, chunk);
    }
    capture.finish(redactor).into()
}

#[test]
fn a_secret_that_the_cut_goes_through_is_masked_all_the_same() {
    let line = format!("remote: {} was used, and then a lot follows\n", token());
    let long = format!("{line}{}", "and so on, and on\n".repeat(2000));
    let redactor = Redactor::default();
    let whole = redactor.redact(&long).text;
    for text in [line.as_str(), long.as_str()] {
        for cap in 9..60 {
            for chunk in [1, 16, 40_000] {
                let captured = stored(text, cap, chunk, &redactor);
                let kept = captured.stdout.text.unwrap();
                let most = redactor.redact(text).text.len() as u64;
                assert!(whole.starts_with(&kept) && kept.len() as u64 == cap.min(most), "{cap}: {kept}");
                assert!(captured.over_cap && captured.truncated && captured.redacted);
                assert_eq!(captured.stdout.bytes, text.len() as u64, "what was received is what is counted");
            }
        }
    }
}

#[test]
fn a_mask_that_is_longer_than_its_secret_stays_within_the_cap() {
    let captured = stored("PASSWORD=a1b2", 13, 5, &Redactor::default());
    assert_eq!(captured.stdout.text.as_deref(), Some("PASSWORD=REDA"));
    assert!(captured.truncated && captured.redacted, "that something was cut off is said");
    assert!(!captured.over_cap, "and that the command kept to the cap");
    let captured = stored("PASSWORD=a1b2", 17, 5, &Redactor::default());
    assert_eq!((captured.stdout.text.as_deref(), captured.truncated), (Some("PASSWORD=REDACTED"), false));
    // The cap is shared: neither stream loses all of it to the other.
    let mut capture = Capture::unmarked(stops(26));
    for source in [Source::Stdout, Source::Stderr] {
        capture.push(source, b"PASSWORD=a1b2");
    }
    let captured = Out::from(capture.finish(&Redactor::default()));
    assert_eq!(captured.stdout.text.unwrap().len() + captured.stderr.text.unwrap().len(), 26);
    assert!(captured.truncated);
}

#[test]
fn registered_values_are_masked_even_where_shapes_are_left() {
    let value = ["hunter2", "-of-ours"].concat();
    let redactor = Redactor::new(&[&value]).unwrap();
    let text = format!("{value} and {}", token());
    let all = stored(&text, 1000, 7, &redactor);
    assert_eq!(all.stdout.text.as_deref(), Some("REDACTED and REDACTED"));
    let only = stored(&text, 1000, 7, &redactor.registered_only());
    assert_eq!(only.stdout.text, Some(format!("REDACTED and {}", token())));
    assert!(only.redacted);
    assert!(!stored("nothing", 1000, 7, &redactor).redacted);
}

#[test]
fn a_secret_among_bytes_that_are_no_text_is_masked_and_the_bytes_stay() {
    let text = [b"\xff\xfe\0 ".as_slice(), token().as_bytes(), b" \x80"].concat();
    let mut capture = Capture::unmarked(stops(1000));
    capture.push(Source::Stdout, &text);
    let captured = Out::from(capture.finish(&Redactor::default()));
    let kept = STANDARD.decode(captured.stdout.base64.unwrap()).unwrap();
    assert_eq!(kept, b"\xff\xfe\0 REDACTED \x80");
}

#[test]
fn what_came_is_counted_for_each_stream_past_the_cap_too() {
    let mut capture = Capture::new(stops(3), "u");
    for (source, bytes) in [(Source::Stdout, MARKER.as_bytes()), (Source::Stdout, b"12345"), (Source::Stderr, b"67")] {
        capture.push(source, bytes);
    }
    assert_eq!(capture.received(), (5, 2));
}

#[test]
fn a_stream_that_is_whole_keeps_half_a_character_when_the_other_is_cut() {
    let (out, _) = captured(
        10,
        &[
            (Source::Stdout, MARKER.as_bytes()),
            (Source::Stderr, b"ab\xe2\x82"),
            (Source::Stdout, "aaaaa\u{20ac}".as_bytes()),
        ],
    );
    assert_eq!(out.stderr.base64, Some(STANDARD.encode(b"ab\xe2\x82")));
    assert_eq!(out.stdout.text.as_deref(), Some("aaaaa"), "the one that was cut is text without it");
}

#[test]
fn where_masks_are_longer_than_what_they_hide_each_stream_has_half_of_the_cap() {
    let text = "password=x1Y2\n".repeat(100);
    let cap = 2 * text.len() as u64;
    let (out, _) = captured(
        cap,
        &[(Source::Stdout, MARKER.as_bytes()), (Source::Stdout, text.as_bytes()), (Source::Stderr, text.as_bytes())],
    );
    let [stdout, stderr] = [out.stdout, out.stderr].map(|stream| stream.text.unwrap());
    assert!(stdout.starts_with("password=REDACTED\n") && stderr.starts_with("password=REDACTED\n"));
    assert_eq!((stdout.len(), stderr.len()), (text.len(), text.len()));
    assert!(out.truncated && !out.over_cap);
}

#[test]
fn what_moves_up_behind_a_long_mask_is_decided_with_all_that_follows() {
    // The mask makes room for text past the cap, up to where the operator stopped looking: in the middle of a token.
    let long = format!("password=\"{}\"\n", "x1Y".repeat(LOOKAHEAD / 3 + 100));
    let cap = 13_000;
    let value = "a value that is registered";
    let cut = cap + LOOKAHEAD - value.len() / 2;
    let text = format!("{long}{}{value} and more\n", "word ".repeat(LOOKAHEAD).get(..cut - long.len()).unwrap());
    let captured = stored(&text, cap as u64, text.len(), &Redactor::new(&[value]).unwrap());
    let kept = captured.stdout.text.unwrap();
    assert!(kept.starts_with("password=\"REDACTED\"\nword word"), "{kept:.60}");
    assert!(!kept.contains("a value"), "{}", &kept[kept.len() - 60..]);
}

proptest! {
    /// Redaction before the cut: what is stored is a head of the whole output, redacted.
    #[test]
    fn what_is_stored_is_a_head_of_the_redacted_whole(
        parts in proptest::collection::vec(prop_oneof!["[a-z =\n\"]{0,20}", Just("PASSWORD=".to_owned()), Just(token()), "[ -~]{300}"], 0..40),
        cap in 0u64..3000,
        chunk in 1usize..2000,
    ) {
        let text = parts.concat();
        let redactor = Redactor::default();
        let captured = stored(&text, cap, chunk, &redactor);
        let whole = redactor.redact(&text).text;
        let kept = captured.stdout.text.clone().unwrap();
        let compact = captured.compact.clone();
        let decoded = compact.base64.map(|base64| String::from_utf8(STANDARD.decode(base64).unwrap()).unwrap());
        prop_assert_eq!(compact.text.or(decoded), Some(kept.clone()));
        // The head of a token at the very end is masked, since how it would have gone on is unknown.
        let certain = kept.strip_suffix(redact::MASK).filter(|_| captured.truncated).unwrap_or(&kept);
        prop_assert!(whole.starts_with(&kept) || whole.starts_with(certain));
        prop_assert!(kept.len() as u64 <= cap);
        prop_assert!(captured.truncated || kept == whole);
    }
}

#[test]
fn half_a_character_is_dropped_where_a_long_mask_cuts_it_and_kept_where_nothing_does() {
    let captured = |cap, stderr: &[u8]| {
        let mut capture = Capture::unmarked(stops(cap));
        capture.push(Source::Stdout, "PASSWORD=a1b2 é".as_bytes());
        capture.push(Source::Stderr, stderr);
        Out::from(capture.finish(&Redactor::default()))
    };
    let out = captured(19, b"");
    assert_eq!((out.stdout.text.as_deref(), out.over_cap), (Some("PASSWORD=REDACTED "), false));
    // Of 20 and 3 bytes 18 and 3 fit.
    let out = captured(21, b"ab\xc3");
    assert_eq!(out.stdout.text.as_deref(), Some("PASSWORD=REDACTED "));
    assert_eq!((out.stderr.lossy, out.stderr.base64.as_deref()), (true, Some("YWLD")));
}

fn record(stdout: (u64, u64), stderr: (u64, u64)) -> Record {
    let counts = |(written, head)| Some(Counts { written, head, sent: written, tail: 0 });
    let (stdout, stderr) = (counts(stdout), counts(stderr));
    let ran = std::time::Duration::ZERO;
    Record { code: 0, by: runner_protocol::Cause::Script, ran, ended: 0, remaining: 0, stdout, stderr }
}

#[test]
fn the_record_is_taken_off_the_end_past_the_cap_too() {
    for (sent, written, whole) in [("abcdefgh", 8, true), ("abcde", 5, true), ("abc", 3, true), ("ab", 4, false)] {
        let head = u64::min(written, 5);
        let line = record((written, head), (0, 0)).ended_line("u");
        let mut capture = Capture::new(stops(5), "u");
        capture.push(Source::Stdout, MARKER.as_bytes());
        capture.push(Source::Stdout, format!("{sent}{line}").as_bytes());
        assert_eq!(capture.end(), (Some(record((written, head), (0, 0))), whole), "{sent}");
        let out = Out::from(capture.finish(&Redactor::default()));
        // What is missing may be the rest of a secret: its beginning is not shown.
        let shown = if whole { &sent[..sent.len().min(5)] } else { "" };
        assert_eq!(out.stdout.text.as_deref(), Some(shown), "{sent}");
        assert_eq!((out.stdout.bytes, out.over_cap), (written, !whole || written > 5), "{sent}");
    }
}

/// What the runner sends of such output, and how its record counts it.
fn runner(shape: Shape, chunks: &[(Source, Vec<u8>)]) -> (Spool, Record) {
    let mut capture = runner_protocol::Capture::new(shape);
    let mut spool = Spool::default();
    for (source, chunk) in chunks {
        let now = capture.take(*source, chunk);
        let to = if *source == Source::Stdout { &mut spool.stdout } else { &mut spool.stderr };
        to.extend_from_slice(&chunk[..now]);
    }
    let [(out, out_rest), (err, err_rest)] = capture.finish();
    spool.stdout.extend(out_rest);
    spool.stderr.extend(err_rest);
    (spool, Record { stdout: Some(out), stderr: Some(err), ..record((0, 0), (0, 0)) })
}

proptest! {
    /// An adopter stores what the starter would have stored; and neither holds or stores more than it may.
    #[test]
    fn a_spool_is_taken_apart_as_the_record_says(
        parts in proptest::collection::vec((any::<bool>(), prop_oneof!["[a-z =\n\"]{0,20}", Just(token()), "[ -~\n]{300}"]), 0..60),
        cap in 0u64..6000,
        stopped_at_cap in any::<bool>(),
    ) {
        let shape = Shape { lookahead: 900, ..shape(cap, stopped_at_cap) };
        let chunks: Vec<_> = parts
            .into_iter()
            .map(|(out, text)| (if out { Source::Stdout } else { Source::Stderr }, text.into_bytes()))
            .collect();
        let (spool, told) = runner(shape, &chunks);
        let mut starter = Capture::new(shape, "u");
        starter.push(Source::Stdout, MARKER.as_bytes());
        starter.push(Source::Stdout, &spool.stdout);
        starter.push(Source::Stderr, &spool.stderr);
        starter.push(Source::Stdout, told.ended_line("u").as_bytes());
        prop_assert_eq!(starter.end(), (Some(told), true));
        let (adopter, whole) = Capture::of_spool(shape, spool, Some(&told));
        prop_assert!(whole);
        let stored = adopter.finish(&Redactor::default());
        prop_assert_eq!(&stored, &starter.finish(&Redactor::default()));
        prop_assert!(stored.length() as u64 <= cap);
        let total: usize = chunks.iter().map(|(_, chunk)| chunk.len()).sum();
        prop_assert_eq!(stored.over_cap, total as u64 > cap);
        for most in [0, 100, 700] {
            let Stored { stdout, stderr, .. } = stored.stored(Detail::Cut(most));
            let length = [stdout, stderr].map(|stream| stream.text.map_or(0, |text| text.len()));
            prop_assert!(length.iter().sum::<usize>() <= most.max(200), "{most}: {length:?}");
        }
    }
}

#[test]
fn a_spool_that_is_short_or_forged_is_a_head_and_said_to_be_incomplete() {
    let cap = 10;
    let chunks = [(Source::Stderr, b"12345".to_vec()), (Source::Stdout, b"abcdefg".to_vec())];
    let (_, told) = runner(stops(cap), &chunks);
    let short = Spool { stdout: b"ab".to_vec(), stderr: b"12345".to_vec() };
    let (adopter, whole) = Capture::of_spool(stops(cap), short, Some(&told));
    let out = Out::from(adopter.finish(&Redactor::default()));
    // What is missing may be the rest of a secret: its beginning is not shown.
    assert_eq!((whole, out.stdout.text.as_deref(), out.stdout.bytes), (false, Some(""), 7), "a full disk cut it");
    let forged = record((999, 999), (0, 0));
    let (adopter, whole) =
        Capture::of_spool(stops(cap), Spool { stdout: vec![b'x'; 999], stderr: Vec::new() }, Some(&forged));
    let out = Out::from(adopter.finish(&Redactor::default()));
    assert_eq!((whole, out.stdout.text.unwrap().len()), (false, 10), "never past the cap");
}

/// found C17: what follows the cut was never written.
#[test]
fn the_head_of_a_token_is_masked_where_its_writer_was_stopped() {
    let heads = [token()[..14].to_owned(), ["AKIA", "IOSFO"].concat(), ["xoxb-", "1234567890"].concat()];
    for head in heads {
        let text = format!("fetching with {head}");
        let cap = text.len() as u64 - 2;
        let out = stored(&text, cap, 7, &Redactor::default());
        let shown = out.stdout.text.unwrap();
        assert!(!shown.contains(&head[..6]) && shown.starts_with("fetching with "), "{head}: {shown}");
        assert!(out.redacted && out.truncated);
    }
    for plain in ["the quick brown fox", "/usr/lib/python3/dist-packages", "0123456789", "done: 4/5", "Compiling serde"]
    {
        let out = stored(plain, plain.len() as u64 - 1, 7, &Redactor::default());
        assert_eq!((out.stdout.text.as_deref(), out.redacted), (Some(&plain[..plain.len() - 1]), false));
    }
}
