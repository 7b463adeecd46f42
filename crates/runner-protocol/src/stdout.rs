//! The runner's stdout apart: the start marker first, the command's output, and last the record.
//!
//! Holds back only what may be the last line. Must not keep output.

use super::{
    record::{LINE_MAX, Record, ended_prefix},
    start_marker,
};

/// Takes the stdout of one Run's runner apart, in chunks of any size.
#[derive(Debug)]
pub struct Stdout {
    marker: Vec<u8>,
    /// How many bytes of the marker were seen; nothing once something else came first.
    matched: Option<usize>,
    prefix: Vec<u8>,
    held: Vec<u8>,
}

impl Stdout {
    /// Of the Run with this UID.
    pub fn new(uid: &str) -> Self {
        Self {
            marker: start_marker(uid).into_bytes(),
            matched: Some(0),
            prefix: ended_prefix(uid).into_bytes(),
            held: Vec::new(),
        }
    }

    /// Whether the whole marker was seen: only then an exit code is the command's.
    pub fn started(&self) -> bool {
        self.matched == Some(self.marker.len())
    }

    /// Takes a chunk, and returns what of the command's output is certain by it.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let Some(matched) = self.matched else {
            // Something else came first: this is not the runner's output.
            return Vec::new();
        };
        let wanted = self.marker.get(matched..).unwrap_or_default();
        let (head, rest) = chunk.split_at(wanted.len().min(chunk.len()));
        if !wanted.starts_with(head) {
            self.matched = None;
            return Vec::new();
        }
        self.matched = Some(matched + head.len());
        self.held.extend_from_slice(rest);
        let from = self.held_from();
        let rest = self.held.split_off(from);
        std::mem::replace(&mut self.held, rest)
    }

    /// The rest of the output, and the record if it came last.
    pub fn finish(mut self) -> (Vec<u8>, Option<Record>) {
        let from = self.held_from();
        let line = self.held.get(from..).and_then(|line| line.strip_prefix(self.prefix.as_slice()));
        let record = line.and_then(|line| std::str::from_utf8(line).ok()).and_then(Record::parse);
        if record.is_some() {
            self.held.truncate(from);
        }
        (self.held, record)
    }

    /// Where what may be the last line begins.
    fn held_from(&self) -> usize {
        let held = self.held.as_slice();
        let starts = held.len().saturating_sub(LINE_MAX);
        (starts..held.len())
            .find(|start| held.get(*start..).is_some_and(|rest| self.may_be_last(rest)))
            .unwrap_or(held.len())
    }

    /// Whether this may be the beginning of the record's line, or all of it.
    fn may_be_last(&self, rest: &[u8]) -> bool {
        let shared = rest.len().min(self.prefix.len());
        let same = rest.get(..shared) == self.prefix.get(..shared);
        let text = rest.strip_suffix(b"\n").unwrap_or(rest);
        // The last of several beginnings: a command may have written the prefix itself.
        let again =
            || rest.get(1..).is_some_and(|rest| rest.windows(self.prefix.len()).any(|part| part == self.prefix));
        same && !text.contains(&b'\n') && !again()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{capture::Counts, record::Cause};

    fn record() -> Record {
        let counts = Some(Counts::whole(9));
        let ran = std::time::Duration::from_millis(1);
        Record { code: 0, by: Cause::Script, ran, ended: 0, remaining: 0, stdout: counts, stderr: counts }
    }

    fn apart(bytes: &[u8], sizes: &[usize]) -> (Vec<u8>, bool, Option<Record>) {
        let mut stdout = Stdout::new("u-1");
        let (mut output, mut rest, mut sizes) = (Vec::new(), bytes, sizes.iter().cycle());
        while !rest.is_empty() {
            let (chunk, more) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            output.extend(stdout.push(chunk));
            rest = more;
        }
        let started = stdout.started();
        let (last, record) = stdout.finish();
        output.extend(last);
        (output, started, record)
    }

    proptest! {
        #[test]
        fn marker_and_record_are_found_and_no_byte_of_the_output_is_lost(
            parts in proptest::collection::vec(prop_oneof![
                Just(b"so-ended u-1 ".to_vec()),
                Just(record().ended_line("u-1").into_bytes()),
                Just(b"\n".to_vec()),
                Just(b"so-".to_vec()),
                Just(vec![b'x'; 700]),
                proptest::collection::vec(any::<u8>(), 0..30),
            ], 0..8),
            sizes in proptest::collection::vec(1usize..50, 1..5),
        ) {
            let output = parts.concat();
            let all = [start_marker("u-1").as_bytes(), &output, record().ended_line("u-1").as_bytes()].concat();
            prop_assert_eq!(apart(&all, &sizes), (output.clone(), true, Some(record())));
            let cut = &all[..all.len() - 1];
            let (kept, started, found) = apart(cut, &sizes);
            prop_assert!(started);
            prop_assert_eq!(found, None);
            prop_assert_eq!([start_marker("u-1").as_bytes(), &kept].concat(), cut);
        }
    }

    #[test]
    fn without_its_marker_nothing_is_output() {
        let line = record().ended_line("u-1");
        assert_eq!(apart(format!("bash: not found\n{line}").as_bytes(), &[7]), (Vec::new(), false, None));
        assert_eq!(apart(b"so-start", &[3]), (Vec::new(), false, None));
    }

    #[test]
    fn output_that_cannot_be_the_last_line_is_held_back_by_nothing() {
        let mut stdout = Stdout::new("u-1");
        assert_eq!(stdout.push(b"so-started u-1\nhello\n"), b"hello\n");
        assert_eq!(stdout.push(b"so-e"), b"");
        assert_eq!(stdout.push(b"at\n"), b"so-eat\n");
    }
}
