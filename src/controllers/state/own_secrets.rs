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

use redact::Redactor;
use rules::egress::hex;

/// How many values that were rotated away are remembered.
const REMEMBERED: usize = 16;
/// As much of a file is looked for; a larger one was mounted by mistake.
const LARGEST: u64 = 8 << 10;

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
        let is_new = |value: &&SecretString| !values.iter().any(|old| old.expose_secret() == value.expose_secret());
        if read.iter().any(|value| is_new(&value)) {
            // What the files hold now is the newest, and never among what is forgotten.
            values.retain(|old| !read.iter().any(|value| value.expose_secret() == old.expose_secret()));
            values.drain(..values.len().saturating_sub(REMEMBERED));
            values.extend(read);
            *built = redactors(values);
        }
        built.clone()
    }
}

/// The head of a secret as text; bytes that are no text in the two ways in which they are commonly written.
fn read(file: &PathBuf) -> Option<SecretString> {
    let mut bytes = Vec::new();
    std::fs::File::open(file).ok()?.take(LARGEST).read_to_end(&mut bytes).ok()?;
    Some(match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        // The head ends inside a character.
        Err(error) if error.utf8_error().error_len().is_none() => {
            let len = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(error.as_bytes().get(..len).unwrap_or_default()).into_owned().into()
        }
        Err(error) => format!("{}\n{}", STANDARD.encode(error.as_bytes()), hex(error.as_bytes())).into(),
    })
}

/// Knows as many of the values as can be looked for together: the newest first, since one value too many must not unmask
/// the others.
fn redactors(values: &[SecretString]) -> Redactors {
    let values: Vec<&str> = values.iter().map(ExposeSecret::expose_secret).collect();
    let redactor = (0..=values.len()).find_map(|from| match Redactor::new(values.get(from..)?) {
        Ok(redactor) => Some(redactor),
        Err(error) => {
            tracing::error!(%error, "not all of the operator's own secrets can be registered for redaction");
            None
        }
    });
    let redactor = redactor.unwrap_or_default();
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
    fn a_file_that_is_too_large_hides_no_other_secret() {
        let dir = tempfile::tempdir().unwrap();
        let [token, large] = ["token", "large"].map(|name| dir.path().join(name));
        std::fs::write(&token, "first-of-ours\n").unwrap();
        let text = (0..40_000_u32).map(|n| n.to_string()).collect::<String>();
        std::fs::write(&large, &text).unwrap();
        let own = OwnSecrets::new(vec![token, large]).redactors().own;
        assert!(masks(&own, "it is first-of-ours"));
        assert!(masks(&own, &text), "its head is masked, too");
    }

    #[test]
    fn a_head_that_ends_inside_a_character_is_text() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        let text = format!("{}\u{e9}\n", (0..4000_u32).map(|n| n.to_string()).collect::<String>().get(..8191).unwrap());
        std::fs::write(&file, &text).unwrap();
        assert!(masks(&OwnSecrets::new(vec![file]).redactors().own, &text));
    }

    #[test]
    fn what_the_files_hold_now_is_never_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let [token, session] = ["token", "session"].map(|name| dir.path().join(name));
        std::fs::write(&session, "the-session-secret").unwrap();
        let secrets = OwnSecrets::new(vec![session, token.clone()]);
        for n in 0..2 * REMEMBERED {
            std::fs::write(&token, format!("token-number-{n}-of-ours")).unwrap();
            let own = secrets.redactors().own;
            assert!(masks(&own, "the-session-secret") && masks(&own, &format!("token-number-{n}-of-ours")), "{n}");
        }
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
