use proptest::prelude::*;

use super::*;

/// What is sent of two streams, and their counts, as the runner does it.
fn sent(shape: Shape, chunks: &[(Source, Vec<u8>)]) -> [(Counts, Vec<u8>); 2] {
    let mut capture = Capture::new(shape);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    for (source, chunk) in chunks {
        let now = capture.take(*source, chunk);
        let to = if *source == Source::Stdout { &mut stdout } else { &mut stderr };
        to.extend_from_slice(&chunk[..now]);
    }
    let [(out, out_rest), (err, err_rest)] = capture.finish();
    stdout.extend(out_rest);
    stderr.extend(err_rest);
    [(out, stdout), (err, stderr)]
}

fn written(source: Source, chunks: &[(Source, Vec<u8>)]) -> Vec<u8> {
    chunks.iter().filter(|(of, _)| *of == source).flat_map(|(_, chunk)| chunk.clone()).collect()
}

proptest! {
    /// Each byte differs from its neighbours, so a piece in the wrong place is seen.
    #[test]
    fn head_and_tail_are_the_streams_own_however_it_comes_and_nothing_is_kept_beyond_the_cap(
        lengths in proptest::collection::vec((any::<bool>(), 0usize..190), 0..24),
        cap in 0u64..2400,
        lookahead in 0u64..40,
        head_only in any::<bool>(),
    ) {
        let shape = Shape { cap, lookahead, head_only };
        let mut next = 0u32;
        let chunks: Vec<_> = lengths.iter().map(|(stdout, length)| {
            let source = if *stdout { Source::Stdout } else { Source::Stderr };
            let chunk = (0..*length).map(|_| { next += 1; (next % 251) as u8 }).collect::<Vec<u8>>();
            (source, chunk)
        }).collect();
        let bytewise: Vec<_> =
            chunks.iter().flat_map(|(source, chunk)| chunk.iter().map(|byte| (*source, vec![*byte]))).collect();
        let both = sent(shape, &chunks);
        prop_assert_eq!(&both, &sent(shape, &bytewise), "however it is cut");
        let total: u64 = both.iter().map(|(counts, _)| counts.written).sum();
        let mut kept = 0;
        let wire: u64 = both.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        prop_assert!(wire <= shape.most(), "{wire}");
        for (source, (counts, bytes)) in Source::ALL.into_iter().zip(&both) {
            let all = written(source, &chunks);
            prop_assert!(counts.is_sound());
            prop_assert_eq!(counts.written, all.len() as u64);
            let parts = Parts::of(shape, counts, bytes.clone()).unwrap();
            prop_assert!(all.starts_with(&parts.head) && all.ends_with(&parts.tail));
            prop_assert!(all[parts.head.len()..].starts_with(&parts.ahead));
            prop_assert!(all[..all.len() - parts.tail.len()].ends_with(&parts.behind));
            kept += (parts.head.len() + parts.tail.len()) as u64;
            if total <= cap {
                prop_assert_eq!(&parts.head, &all, "whole");
            }
            if !parts.tail.is_empty() {
                prop_assert_eq!(parts.head.len() as u64 + parts.gap + parts.tail.len() as u64, counts.written);
            }
            if let Some(cut) = bytes.len().checked_sub(1) {
                prop_assert_eq!(Parts::of(shape, counts, bytes[..cut].to_vec()), None, "cut short");
            }
        }
        prop_assert!(kept <= cap.max(total.min(cap)));
        if shape.tail() == 0 || total <= cap {
            prop_assert_eq!(kept, total.min(cap));
        } else {
            // What a stream leaves free of the tails the other uses, as far as it has any.
            let room = shape.tail() - 2 * GAP_LINE;
            let available: u64 = both.iter().map(|(counts, _)| counts.written - counts.head).sum();
            prop_assert_eq!(kept, shape.head() + room.min(available));
        }
    }
}

#[test]
fn counts_of_a_forger_are_no_counts() {
    let shape = Shape { cap: 100, lookahead: 10, head_only: false };
    let sound = Counts { written: 50, head: 20, sent: 30, tail: 10 };
    assert!(sound.is_sound());
    for wrong in [
        Counts { head: 31, ..sound },
        Counts { sent: 51, ..sound },
        Counts { tail: 31, ..sound },
        Counts { tail: u64::MAX, ..sound },
        Counts { head: u64::MAX, sent: u64::MAX, written: u64::MAX, tail: 1 },
    ] {
        assert_eq!(Parts::of(shape, &wrong, vec![0; 45]), None, "{wrong:?}");
    }
}
