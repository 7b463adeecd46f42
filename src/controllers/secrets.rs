//! The operator's own secrets, masked in everything that is stored of a command's output, whatever its policy says.
//!
//! Read from their files each time output is stored, since they are rotated; a secret that was rotated away is still masked.
//! Must not give a value back, and must not log one.

use std::{
    io::Read as _,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use secrecy::{ExposeSecret, SecretString};

use crate::rules::{egress::hex, redact::Redactor};

/// How many values are remembered: each file's own, and those that it had before.
const REMEMBERED: usize = 16;
/// As much of a file is read; a larger one was mounted by mistake.
const LARGEST: u64 = 64 << 10;

/// Redactors that know the operator's own secrets.
#[derive(Clone)]
pub struct Redactors {
    /// Masks what is recognisable, too.
    pub recognised: Arc<Redactor>,
    /// Masks the operator's own alone.
    pub own: Arc<Redactor>,
}

/// The files that hold them.
pub struct OwnSecrets {
    files: Vec<PathBuf>,
    known: Mutex<Known>,
}

struct Known {
    /// The newest last.
    values: Vec<SecretString>,
    redactors: Redactors,
}

impl OwnSecrets {
    /// From files that hold one secret each.
    pub fn new(files: Vec<PathBuf>) -> Self {
        Self { files, known: Mutex::new(Known { values: Vec::new(), redactors: redactors(&[]) }) }
    }

    /// Redactors that know what the files hold now, and what they held before. A file that cannot be read adds nothing.
    pub fn redactors(&self) -> Redactors {
        let read: Vec<SecretString> = self.files.iter().filter_map(read).collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { values, redactors: built } = &mut *known;
        let before = values.len();
        for value in read {
            if !values.iter().any(|old| old.expose_secret() == value.expose_secret()) {
                values.push(value);
            }
        }
        if values.len() > before {
            values.drain(..values.len().saturating_sub(REMEMBERED));
            *built = redactors(values);
        }
        built.clone()
    }
}

/// A secret as text; bytes that are no text in the two ways in which they are commonly written.
fn read(file: &PathBuf) -> Option<SecretString> {
    let mut bytes = Vec::new();
    std::fs::File::open(file).ok()?.take(LARGEST).read_to_end(&mut bytes).ok()?;
    Some(match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(error) => format!("{}\n{}", STANDARD.encode(error.as_bytes()), hex(error.as_bytes())).into(),
    })
}

fn redactors(values: &[SecretString]) -> Redactors {
    let values: Vec<&str> = values.iter().map(ExposeSecret::expose_secret).collect();
    let redactor = Redactor::new(&values).unwrap_or_else(|error| {
        tracing::error!(%error, "the operator's own secrets cannot be registered for redaction");
        Redactor::default()
    });
    Redactors { own: Arc::new(redactor.registered_only()), recognised: Arc::new(redactor) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(redactor: &Redactor, text: &str) -> bool {
        redactor.redact(text).hits.total() > 0
    }

    #[test]
    fn a_rotated_secret_is_masked_and_so_is_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        let secrets = OwnSecrets::new(vec![file.clone(), dir.path().join("none")]);
        assert!(!masks(&secrets.redactors().own, "first-of-ours"));
        std::fs::write(&file, "first-of-ours\n").unwrap();
        assert!(masks(&secrets.redactors().own, "it is first-of-ours"));
        std::fs::write(&file, "second-of-ours\n").unwrap();
        for value in ["first-of-ours", "second-of-ours"] {
            assert!(masks(&secrets.redactors().own, value));
            assert!(masks(&secrets.redactors().recognised, value));
        }
        std::fs::remove_file(&file).unwrap();
        assert!(masks(&secrets.redactors().own, "second-of-ours"), "a file that is being replaced forgets nothing");
        assert!(!masks(&secrets.redactors().own, "PASSWORD=a1b2c3"));
        assert!(masks(&secrets.redactors().recognised, "PASSWORD=a1b2c3"));
    }

    #[test]
    fn a_secret_of_bytes_is_masked_as_it_is_commonly_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        let bytes: Vec<u8> = (200..=240).collect();
        std::fs::write(&file, &bytes).unwrap();
        let own = OwnSecrets::new(vec![file]).redactors().own;
        assert!(masks(&own, &STANDARD.encode(&bytes)) && masks(&own, &hex(&bytes)));
    }
}
