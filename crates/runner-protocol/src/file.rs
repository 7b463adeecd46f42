//! A file operation of a Run: how the operator sends it in the place of a script, and what the runner says of it on stderr.
//!
//! `write PATH MODE`, `read PATH OFFSET LENGTH BEFORE AHEAD` or `edit PATH OLD_BYTES MATCHES`, a NUL behind each; then the
//! content, nothing, or old and new text. Must not touch a file.

/// What is done to one file of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileOperation {
    /// Write it whole.
    Write {
        /// Absolute, below the workspace.
        path: String,
        /// Its permissions; absent: those it has, or 0644.
        mode: Option<u32>,
        /// What it holds afterwards.
        content: Vec<u8>,
    },
    /// Read a part of it.
    Read {
        /// Absolute, below the workspace.
        path: String,
        /// Bytes to skip.
        offset: u64,
        /// Bytes to read.
        length: u64,
        /// Bytes before them that redaction looks at.
        before: u64,
        /// Bytes behind them that redaction looks at.
        ahead: u64,
    },
    /// Replace text in it.
    Edit {
        /// Absolute, below the workspace.
        path: String,
        /// What stands there.
        old: Vec<u8>,
        /// What shall stand there.
        new: Vec<u8>,
        /// Whether it may stand there several times, and each is replaced.
        all: bool,
    },
}

const WRITE: &str = "write";
const READ: &str = "read";
const EDIT: &str = "edit";
const KEEP: &str = "-";
const ALL: &str = "all";
const ONE: &str = "one";

impl FileOperation {
    /// The file.
    pub fn path(&self) -> &str {
        match self {
            Self::Write { path, .. } | Self::Read { path, .. } | Self::Edit { path, .. } => path,
        }
    }

    /// As it is sent.
    pub fn encode(&self) -> Vec<u8> {
        let header =
            |words: &[&str]| words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect::<Vec<u8>>();
        match self {
            Self::Write { path, mode, content } => {
                let mode = mode.map_or_else(|| KEEP.to_owned(), |mode| format!("{mode:o}"));
                [header(&[WRITE, path, &mode]).as_slice(), content].concat()
            }
            Self::Read { path, offset, length, before, ahead } => {
                let numbers = [offset, length, before, ahead].map(u64::to_string);
                let [offset, length, before, ahead] = &numbers;
                header(&[READ, path, offset, length, before, ahead])
            }
            Self::Edit { path, old, new, all } => {
                let matches = if *all { ALL } else { ONE };
                [header(&[EDIT, path, &old.len().to_string(), matches]).as_slice(), old, new].concat()
            }
        }
    }

    /// Reads what was sent; nothing when it is no operation.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut word = || {
            let end = rest.iter().position(|byte| *byte == 0)?;
            let (word, behind) = rest.split_at_checked(end)?;
            rest = behind.get(1..)?;
            std::str::from_utf8(word).ok()
        };
        let kind = word()?;
        let path = word()?.to_owned();
        Some(match kind {
            WRITE => {
                let mode = match word()? {
                    KEEP => None,
                    mode => Some(u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o7777)?),
                };
                Self::Write { path, mode, content: rest.to_vec() }
            }
            READ => {
                let mut number = || word()?.parse().ok();
                let (offset, length, before, ahead) = (number()?, number()?, number()?, number()?);
                if !rest.is_empty() {
                    return None;
                }
                Self::Read { path, offset, length, before, ahead }
            }
            EDIT => {
                let old: usize = word()?.parse().ok()?;
                let all = match word()? {
                    ALL => true,
                    ONE => false,
                    _ => return None,
                };
                let (old, new) = rest.split_at_checked(old).filter(|(old, _)| !old.is_empty())?;
                Self::Edit { path, old: old.to_vec(), new: new.to_vec(), all }
            }
            _ => return None,
        })
    }
}

/// What became of a file operation: the one line on stderr of one that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileReport {
    /// Bytes of the file afterwards.
    pub size: u64,
    /// Of what a read sent: bytes before those that were asked for.
    pub before: u64,
    /// Of what a read sent: bytes that were asked for.
    pub content: u64,
}

impl FileReport {
    /// The line.
    pub fn line(&self) -> String {
        let Self { size, before, content } = self;
        format!("so-file {size} {before} {content}\n")
    }

    /// Reads the line; nothing when it is none.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?.strip_prefix("so-file ")?;
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let [size, before, content] = numbers.as_slice() else { return None };
        Some(Self { size: *size, before: *before, content: *content })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn operation() -> impl Strategy<Value = FileOperation> {
        let path = || "/workspace/[a-zü ]{1,9}";
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        let mode = proptest::option::of(0u32..=0o7777);
        prop_oneof![
            (path(), mode, bytes()).prop_map(|(path, mode, content)| FileOperation::Write { path, mode, content }),
            (path(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
                |(path, offset, length, before, ahead)| FileOperation::Read { path, offset, length, before, ahead }
            ),
            (path(), proptest::collection::vec(any::<u8>(), 1..40), bytes(), any::<bool>())
                .prop_map(|(path, old, new, all)| FileOperation::Edit { path, old, new, all }),
        ]
    }

    proptest! {
        #[test]
        fn an_operation_is_read_as_it_was_sent(operation in operation()) {
            prop_assert_eq!(FileOperation::parse(&operation.encode()), Some(operation));
        }

        #[test]
        fn nothing_that_is_read_is_a_surprise(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = FileOperation::parse(&bytes);
            prop_assert_eq!(FileReport::parse(&bytes), None);
        }
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let report = FileReport { size: 1, before: 2, content: u64::MAX };
        assert_eq!(FileReport::parse(report.line().as_bytes()), Some(report));
        for wrong in ["so-file 1 2 3", "so-file 1 2\n", "so-file 1 2 3 4\n", "so-file 1 2 -3\n", "x\nso-file 1 2 3\n"] {
            assert_eq!(FileReport::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
