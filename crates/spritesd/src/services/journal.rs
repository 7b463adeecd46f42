//! The output of one service on disk: as lines with time and stream that the guest may read, and as events that the logs
//! call reads. Both are bounded: what is full becomes the older part, and the part before that goes. Blocking.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;

/// Bound of each part of a file; there are two.
const LARGEST_PART: u64 = 1 << 20;

/// Bound of what waits for the end of its line; more is a line.
const LONGEST_LINE: usize = 64 << 10;

/// Where the guest sees the text of the service `name`.
pub(crate) fn shown_path(name: &str) -> String {
    format!("/.sprite/logs/services/{name}.log")
}

/// An event of now as the wire shows it, with what belongs to its kind.
pub(crate) fn event(kind: &str, more: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let own = [("type", kind.into()), ("timestamp", Timestamp::now().as_millisecond().into())];
    object(own.into_iter().chain(more))
}

/// A JSON object.
pub(crate) fn object(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// The two files.
#[derive(Debug)]
pub(crate) struct Journal {
    shown: Rotated,
    events: Rotated,
    /// The line that each stream is in the middle of.
    unfinished: BTreeMap<&'static str, Vec<u8>>,
}

impl Journal {
    /// The journal of the service `name` of a Sprite whose directory is `own`. Touches no file.
    pub(crate) fn new(own: &Path, name: &str) -> Self {
        Self {
            shown: Rotated::new(own.join("logs/services").join(format!("{name}.log"))),
            // Not in the guest: this is not its format.
            events: Rotated::new(own.join("services").join(format!("{name}.jsonl"))),
            unfinished: BTreeMap::new(),
        }
    }

    /// Whether there is anything of the service.
    pub(crate) fn exists(&self) -> bool {
        self.shown.path.exists() || self.events.path.exists()
    }

    /// Creates the log file, so that a client that learns its path can open it before there is output. Ends a partial line of
    /// the previous process.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        for stream in self.unfinished.keys().copied().collect::<Vec<_>>() {
            self.end(stream)?;
        }
        self.shown.append(b"")
    }

    /// Adds output of a stream.
    pub(crate) fn append(&mut self, stream: &'static str, raw: &[u8], event: &Value) -> io::Result<()> {
        let line = self.unfinished.entry(stream).or_default();
        line.extend(raw);
        let finished = match line.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => line.drain(..=end).collect(),
            None if line.len() > LONGEST_LINE => std::mem::take(line),
            None => Vec::new(),
        };
        self.shown.append(&shown_lines(stream, &finished, Timestamp::now()))?;
        self.events.append(format!("{event}\n").as_bytes())
    }

    /// Takes the end of a stream: what is unfinished is a line.
    pub(crate) fn end(&mut self, stream: &'static str) -> io::Result<()> {
        let rest = self.unfinished.remove(stream).unwrap_or_default();
        self.shown.append(&shown_lines(stream, &rest, Timestamp::now()))
    }

    /// The events with the last `lines` lines of output, all that are kept by default.
    pub(crate) fn read(&self, lines: Option<usize>) -> io::Result<Vec<Value>> {
        let mut text = self.events.read()?;
        // A crash may have cut the last line short.
        text.truncate(text.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1));
        let events = text.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        Ok(last_lines(events.collect(), lines))
    }

    /// Removes everything.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        self.shown.remove()?;
        self.events.remove()
    }
}

/// Lines as the guest reads them: `time [stream] line`.
fn shown_lines(stream: &str, text: &[u8], now: Timestamp) -> Vec<u8> {
    let mut shown = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        shown.extend(format!("{now:.3} [{stream}] ").bytes());
        shown.extend(line.strip_suffix(b"\n").unwrap_or(line));
        shown.push(b'\n');
    }
    shown
}

/// Removes what is left of services that a Sprite has no more, but for the `most` that wrote last. Blocking.
pub(crate) fn prune(own: &Path, is_defined: impl Fn(&str) -> bool, most: usize) -> io::Result<()> {
    let mut left = Vec::new();
    for entry in std::fs::read_dir(own.join("logs/services"))? {
        let entry = entry?;
        let file = entry.file_name();
        if let Some(name) = file.to_str().and_then(|file| file.strip_suffix(".log"))
            && !is_defined(name)
        {
            left.push((entry.metadata()?.modified()?, name.to_owned()));
        }
    }
    left.sort_unstable();
    let surplus = left.len().saturating_sub(most);
    left.iter().take(surplus).try_for_each(|(_, name)| Journal::new(own, name).remove())
}

/// The end of some output.
fn last_lines(events: Vec<Value>, lines: Option<usize>) -> Vec<Value> {
    let Some(mut left) = lines else { return events };
    let mut kept = Vec::new();
    // A line feed at the very end begins no line.
    let mut last = true;
    for event in events.into_iter().rev() {
        let Value::Object(mut event) = event else { continue };
        if left == 0 {
            break;
        }
        let data = event.get("data").and_then(Value::as_str).unwrap_or_default().to_owned();
        let body = if last { data.strip_suffix('\n').unwrap_or(&data) } else { &data };
        last = false;
        let starts: Vec<usize> = body.match_indices('\n').map(|(at, _)| at + 1).collect();
        let mut from = 0;
        if starts.len() >= left {
            from = starts.get(starts.len() - left).copied().unwrap_or_default();
            left = 0;
        } else {
            left -= starts.len();
        }
        let rest = data.get(from..).unwrap_or_default();
        if !rest.is_empty() {
            event.insert("data".into(), rest.into());
            kept.push(Value::Object(event));
        }
    }
    kept.reverse();
    kept
}

/// A file in two parts.
#[derive(Debug)]
struct Rotated {
    path: PathBuf,
    open: Option<(File, u64)>,
}

impl Rotated {
    fn new(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    fn older(&self) -> PathBuf {
        self.path.with_added_extension("1")
    }

    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        let (mut file, mut size) = match self.open.take() {
            Some(open) => open,
            None => self.open()?,
        };
        if size > 0 && size + data.len() as u64 > LARGEST_PART {
            std::fs::rename(&self.path, self.older())?;
            (file, size) = self.open()?;
        }
        file.write_all(data)?;
        self.open = Some((file, size + data.len() as u64));
        Ok(())
    }

    fn open(&self) -> io::Result<(File, u64)> {
        if let Some(parent) = self.path.parent() {
            // Never more than this one directory: those above are the Sprite, which may be gone.
            match std::fs::create_dir(parent) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        let file = File::options().append(true).create(true).open(&self.path)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        for part in [&self.older(), &self.path] {
            match std::fs::read(part) {
                Ok(part) => text.extend(part),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(text)
    }

    fn remove(&mut self) -> io::Result<()> {
        self.open = None;
        for part in [&self.older(), &self.path] {
            match std::fs::remove_file(part) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Makes text of bytes that come in pieces: a character is never cut in two, and what is none becomes `�`.
#[derive(Debug, Default)]
pub(crate) struct Decoder(Vec<u8>);

impl Decoder {
    /// The text so far; the beginning of a character waits for its rest.
    pub(crate) fn text(&mut self, data: &[u8]) -> String {
        self.0.extend(data);
        let cut = match std::str::from_utf8(&self.0) {
            Ok(_) => self.0.len(),
            Err(_) => self.0.len() - unfinished(&self.0),
        };
        let rest = self.0.split_off(cut);
        let text = String::from_utf8_lossy(&self.0).into_owned();
        self.0 = rest;
        text
    }

    /// What waits when there is no more.
    pub(crate) fn rest(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned()
    }
}

/// How many bytes at the end may be the beginning of a character: three at most.
fn unfinished(data: &[u8]) -> usize {
    (1..=data.len().min(3))
        .find(|length| {
            let tail = data.get(data.len() - length..).unwrap_or_default();
            std::str::from_utf8(tail).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn out(data: &str) -> Value {
        json!({ "type": "stdout", "data": data })
    }

    #[test]
    fn both_parts_together_are_bounded_and_hold_the_end() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("logs")).unwrap();
        let mut journal = Journal::new(dir.path(), "web");
        let line = format!("{}\n", "x".repeat(4095));
        for n in 0..1000 {
            let event = json!({ "type": "stdout", "n": n, "data": line });
            journal.append("stdout", line.as_bytes(), &event).unwrap();
        }
        let size = |path: &str| std::fs::metadata(dir.path().join(path)).unwrap().len();
        assert!(size("logs/services/web.log") <= LARGEST_PART && size("logs/services/web.log.1") <= LARGEST_PART);
        let kept = journal.read(None).unwrap();
        assert!(kept.len() > 250 && kept.len() < 520 && kept.last().unwrap()["n"] == 999, "{}", kept.len());
        // Another process goes on where this one ended.
        let mut journal = Journal::new(dir.path(), "web");
        journal.append("stdout", b"y\n", &out("y\n")).unwrap();
        assert_eq!(journal.read(Some(1)).unwrap(), [out("y\n")]);
        journal.remove().unwrap();
        assert!(journal.read(None).unwrap().is_empty());
    }

    #[test]
    fn lines_are_shown_whole_with_time_and_stream() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("logs")).unwrap();
        let mut journal = Journal::new(dir.path(), "web");
        let long = vec![b'l'; LONGEST_LINE + 1];
        let pieces: [(&'static str, &[u8]); 6] = [
            ("stdout", b"one\ntw"),
            ("stderr", b"\xff\n\n"),
            ("stdout", b"o\nrest"),
            ("stderr", &long),
            ("stderr", b"after\r\n"),
            ("stdout", b" of it"),
        ];
        for (stream, raw) in pieces {
            journal.append(stream, raw, &out("")).unwrap();
        }
        journal.end("stdout").unwrap();
        journal.append("stdout", b"left", &out("")).unwrap();
        // Of the next process.
        journal.begin().unwrap();
        journal.append("stdout", b"new\n", &out("")).unwrap();
        let text = std::fs::read(dir.path().join("logs/services/web.log")).unwrap();
        let lines = text.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n');
        let lines = lines.map(|line| {
            let (time, rest) = line.split_at(line.iter().position(|byte| *byte == b' ').unwrap());
            let time = std::str::from_utf8(time).unwrap();
            assert!(time.parse::<Timestamp>().is_ok() && time.len() == "2026-01-01T00:00:00.000Z".len(), "{time}");
            rest[1..].to_vec()
        });
        let long = [b"[stderr] ", long.as_slice()].concat();
        let expected: [&[u8]; 9] = [
            b"[stdout] one",
            b"[stderr] \xff",
            b"[stderr] ",
            b"[stdout] two",
            &long,
            b"[stderr] after\r",
            b"[stdout] rest of it",
            b"[stdout] left",
            b"[stdout] new",
        ];
        assert_eq!(lines.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn of_services_that_are_gone_the_last_stay() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("logs")).unwrap();
        for n in 0..6 {
            Journal::new(dir.path(), &format!("s{n}")).append("stdout", b"x\n", &out("x\n")).unwrap();
            let file = File::options().append(true).open(dir.path().join(format!("logs/services/s{n}.log"))).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(n)).unwrap();
        }
        prune(dir.path(), |name| name == "s0", 2).unwrap();
        let left = (0..6).filter(|n| Journal::new(dir.path(), &format!("s{n}")).exists());
        assert_eq!(left.collect::<Vec<_>>(), [0, 4, 5]);
    }

    #[test]
    fn nothing_is_made_where_there_is_no_sprite() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        assert!(Journal::new(&gone, "web").append("stdout", b"x", &out("x")).is_err());
        assert!(!gone.exists());
    }

    #[test]
    fn the_last_lines_over_pieces() {
        let events = vec![out("a\nb\nc"), out("d\n"), out("e\n")];
        let last = |n| last_lines(events.clone(), Some(n));
        assert_eq!(last(1), [out("e\n")]);
        assert_eq!(last(2), [out("c"), out("d\n"), out("e\n")]);
        assert_eq!(last(3), [out("b\nc"), out("d\n"), out("e\n")]);
        assert_eq!(last(9), events);
        assert!(last(0).is_empty());
    }

    proptest! {
        #[test]
        fn text_in_pieces_is_the_text(text in ".{0,40}", at in 1usize..5) {
            let mut decoder = Decoder::default();
            let mut seen: String = text.as_bytes().chunks(at).map(|piece| decoder.text(piece)).collect();
            seen.push_str(&decoder.rest());
            prop_assert_eq!(seen, text);
        }

        #[test]
        fn no_byte_waits_for_ever(data in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut decoder = Decoder::default();
            for piece in data.chunks(7) {
                decoder.text(piece);
                prop_assert!(decoder.0.len() <= 3);
            }
        }
    }
}
