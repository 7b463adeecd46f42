//! The bearer token: where it comes from, and how a rotated one is noticed. Never printed, never logged.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use secrecy::{ExposeSecret, SecretString};
use tokio::io::AsyncReadExt as _;

use super::file_fingerprint::Stamp;

/// Tokens are some hundred bytes. More is another file mounted by mistake.
const MAX_TOKEN_FILE: u64 = 16 * 1024;

/// Where the token comes from.
#[derive(Clone)]
pub enum TokenSource {
    /// A token that never changes.
    Fixed(SecretString),
    /// A file, as a Secret mount writes it. Read again when it changes and after a 401.
    File(PathBuf),
}

impl TokenSource {
    /// The file that holds it, if one does.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Fixed(_) => None,
            Self::File(path) => Some(path),
        }
    }
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(_) => f.write_str("Fixed([redacted])"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Why there is no token. The request was not sent.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("the token file {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Nothing in it, or nothing but a newline.
    #[error("the token is empty")]
    Empty,
    /// It holds what no HTTP header can carry, or it is far too long.
    #[error("the token is malformed: it must be one line of visible ASCII")]
    Malformed,
}

pub(super) struct Tokens {
    source: TokenSource,
    cached: Mutex<Option<(Stamp, SecretString)>>,
}

impl Tokens {
    pub(super) fn new(source: TokenSource) -> Self {
        Self { source, cached: Mutex::new(None) }
    }

    /// The token as it is now. A file costs one `stat` when it did not change.
    pub(super) async fn current(&self) -> Result<SecretString, TokenError> {
        match &self.source {
            TokenSource::Fixed(token) => validate(token.expose_secret()),
            TokenSource::File(path) => self.read_file(path).await.map_err(|error| match error {
                FileError::Read(source) => TokenError::Read { path: path.clone(), source },
                FileError::Token(error) => error,
            }),
        }
    }

    /// The service refused the token: the next request reads the file again, whatever its stamp says.
    pub(super) fn forget(&self) {
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn read_file(&self, path: &Path) -> Result<SecretString, FileError> {
        // The stamp is taken first: a file replaced between the two reads is read again next time, never missed.
        let stamp = Stamp::from(&tokio::fs::metadata(path).await?);
        if let Some(token) = self.cached_for(stamp) {
            return Ok(token);
        }
        if stamp.length > MAX_TOKEN_FILE {
            return Err(TokenError::Malformed.into());
        }
        let mut text = String::new();
        let file = tokio::fs::File::open(path).await?;
        file.take(MAX_TOKEN_FILE + 1).read_to_string(&mut text).await?;
        let text = SecretString::from(text);
        if text.expose_secret().len() as u64 > MAX_TOKEN_FILE {
            return Err(TokenError::Malformed.into());
        }
        let token = validate(text.expose_secret())?;
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = Some((stamp, token.clone()));
        Ok(token)
    }

    fn cached_for(&self, stamp: Stamp) -> Option<SecretString> {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().filter(|(of, _)| *of == stamp).map(|(_, token)| token.clone())
    }
}

enum FileError {
    Read(io::Error),
    Token(TokenError),
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl From<TokenError> for FileError {
    fn from(error: TokenError) -> Self {
        Self::Token(error)
    }
}

fn validate(text: &str) -> Result<SecretString, TokenError> {
    let token = text.strip_suffix('\n').unwrap_or(text);
    let token = token.strip_suffix('\r').unwrap_or(token);
    if token.is_empty() {
        Err(TokenError::Empty)
    } else if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        Err(TokenError::Malformed)
    } else {
        Ok(SecretString::from(token))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("abc/def", Some("abc/def"))]
    #[case::newline("abc\n", Some("abc"))]
    #[case::windows_newline("abc\r\n", Some("abc"))]
    #[case::only_one_newline_goes("abc\n\n", None)]
    #[case::empty("", None)]
    #[case::only_newline("\n", None)]
    #[case::space("a b", None)]
    #[case::header_injection("a\r\nX-Evil: 1", None)]
    #[case::not_ascii("ключ", None)]
    fn a_token_is_one_line_of_visible_ascii(#[case] text: &str, #[case] token: Option<&str>) {
        let validated = validate(text).ok();
        assert_eq!(validated.as_ref().map(ExposeSecret::expose_secret), token);
    }

    #[tokio::test]
    async fn a_replaced_file_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, "one\n").unwrap();
        let tokens = Tokens::new(TokenSource::File(path.clone()));
        assert_eq!(tokens.current().await.unwrap().expose_secret(), "one");

        // Same length, as a rotated token has, and renamed into place, as a Secret mount does.
        fs::write(dir.path().join("next"), "two\n").unwrap();
        fs::rename(dir.path().join("next"), &path).unwrap();
        assert_eq!(tokens.current().await.unwrap().expose_secret(), "two");

        fs::remove_file(&path).unwrap();
        let error = tokens.current().await.unwrap_err();
        assert!(matches!(error, TokenError::Read { .. }));
    }

    #[tokio::test]
    async fn after_a_refusal_the_file_is_read_again_though_it_looks_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, "one").unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let tokens = Tokens::new(TokenSource::File(path.clone()));
        tokens.current().await.unwrap();

        fs::write(&path, "two").unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(modified).unwrap();
        assert_eq!(tokens.current().await.unwrap().expose_secret(), "one");
        tokens.forget();
        assert_eq!(tokens.current().await.unwrap().expose_secret(), "two");
    }

    #[test]
    fn debug_shows_no_token() {
        let source = TokenSource::Fixed(SecretString::from("very-secret"));
        assert!(!format!("{source:?}").contains("very-secret"));
    }
}
