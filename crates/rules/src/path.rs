//! Paths of Runs: inside the workspace, or refused.
//!
//! Compares text only; symbolic links are the guest's to resolve. Must not touch a file system.

use thiserror::Error;

use api::reasons::RunReason;

/// The root of everything a Run may name.
pub const ROOT: &str = "/workspace";
/// Longest path, absolute and resolved, in bytes: Linux's `PATH_MAX` without its NUL.
pub const LONGEST: usize = 4095;

/// Why a path was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PathError {
    /// Nothing there.
    #[error("the path is empty: write one relative to /workspace, or absolute under it")]
    Empty,
    /// Longer than [`LONGEST`], as written or resolved.
    #[error("the path has {0} bytes with /workspace: write at most 4095")]
    Long(usize),
    /// NUL cannot be in a path.
    #[error("the path holds a NUL character: remove it")]
    Nul,
    /// Leaves the workspace.
    #[error("`{0}` leaves /workspace: write a path relative to /workspace, or absolute under it")]
    Escape(String),
    /// A file was asked for.
    #[error("`{0}` is the workspace itself: write a path below it")]
    Root(String),
}

impl PathError {
    /// The reason of a refusal: a mistake is told from an attempt to get out, which is an anomaly.
    pub const fn reason(&self) -> RunReason {
        match self {
            Self::Empty | Self::Long(_) | Self::Root(_) => RunReason::InvalidSpec,
            Self::Nul | Self::Escape(_) => RunReason::PathEscape,
        }
    }
}

/// A directory under the workspace, the workspace itself included; absolute and without `.` and `..`.
pub fn directory(path: &str) -> Result<String, PathError> {
    let resolved = resolve(path)?;
    let long = path.len().max(resolved.len());
    if long > LONGEST {
        return Err(PathError::Long(long));
    }
    // A path whose decoded form climbs is refused too, as written and as resolved: some layer may decode it. What is no
    // UTF-8 when decoded holds the same dots and slashes.
    for text in [path, &resolved] {
        let decoded = percent_decode(text);
        if decoded.contains(&0) {
            return Err(PathError::Nul);
        }
        if decoded != text.as_bytes() {
            let decoded = String::from_utf8_lossy(&decoded);
            resolve(&decoded).map_err(|_| PathError::Escape(path.to_owned()))?;
        }
    }
    Ok(resolved)
}

/// A file under the workspace.
pub fn file(path: &str) -> Result<String, PathError> {
    let resolved = directory(path)?;
    if resolved == ROOT { Err(PathError::Root(path.to_owned())) } else { Ok(resolved) }
}

fn resolve(path: &str) -> Result<String, PathError> {
    if path.is_empty() {
        return Err(PathError::Empty);
    }
    if path.contains('\0') {
        return Err(PathError::Nul);
    }
    let escape = || PathError::Escape(path.to_owned());
    let relative = match path.strip_prefix(ROOT) {
        Some("") => "",
        Some(rest) if rest.starts_with('/') => rest,
        Some(_) => return Err(escape()),
        None if path.starts_with('/') => return Err(escape()),
        None => path,
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or_else(escape)?),
            name => parts.push(name),
        }
    }
    Ok(if parts.is_empty() { ROOT.to_owned() } else { format!("{ROOT}/{}", parts.join("/")) })
}

fn percent_decode(text: &str) -> Vec<u8> {
    let digit = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16));
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (*byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(high * 16 + low).unwrap_or(b'%'));
                at += 3;
            }
            (other, _, _) => {
                decoded.push(other);
                at += 1;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("x", "/workspace/x")]
    #[case("./a//b/", "/workspace/a/b")]
    #[case("/workspace", "/workspace")]
    #[case("/workspace/", "/workspace")]
    #[case("/workspace/a/../b", "/workspace/b")]
    #[case("~/x", "/workspace/~/x")]
    #[case("$HOME/x", "/workspace/$HOME/x")]
    #[case("100%/x", "/workspace/100%/x")]
    fn a_path_inside_is_made_absolute(#[case] path: &str, #[case] resolved: &str) {
        assert_eq!(directory(path).unwrap(), resolved);
    }

    #[test]
    fn a_path_has_its_length_as_written_and_resolved() {
        let long = |len: usize| "x".repeat(len);
        assert!(directory(&long(4095 - 11)).is_ok());
        assert_eq!(directory(&long(4095 - 10)), Err(PathError::Long(4096)));
        assert_eq!(directory(&format!("{}x", "./".repeat(2048))), Err(PathError::Long(4097)));
    }

    #[rstest]
    #[case("", RunReason::InvalidSpec)]
    #[case(".", RunReason::InvalidSpec)]
    #[case("..", RunReason::PathEscape)]
    #[case("a%00b", RunReason::PathEscape)]
    fn a_mistake_is_no_attempt_to_get_out(#[case] path: &str, #[case] reason: RunReason) {
        assert_eq!(file(path).unwrap_err().reason(), reason);
    }

    #[rstest]
    #[case("")]
    #[case("..")]
    #[case("a/../../etc")]
    #[case("/etc")]
    #[case("/workspace-evil/x")]
    #[case("/workspace/../etc")]
    #[case("a\0b")]
    #[case("%2e%2e/x")]
    #[case("a/%2E%2E/%2e./x")]
    #[case("a%00b")]
    #[case("%ff/%2e%2e/%2e%2e/etc")]
    #[case("%ff%00")]
    #[case("a%2fb/../%2e%2e")]
    fn a_path_that_leaves_is_refused(#[case] path: &str) {
        assert!(directory(path).is_err(), "{path}");
    }

    #[test]
    fn a_file_is_not_the_workspace_itself() {
        assert!(matches!(file("/workspace/."), Err(PathError::Root(_))));
        assert_eq!(file("a").unwrap(), "/workspace/a");
    }
}
