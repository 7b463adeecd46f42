//! The runner that this operator carries, and how it gets into a Sprite. Must not start anything of a user's.

use std::{sync::LazyLock, time::Duration};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::trusted::trusted;
use runner_protocol::{BIN, EXIT_NOT_EXECUTABLE, HOME, INSTALL, ROOT, WORKSPACE, answer};
use sprites::{Awake, ExecError, Output, ProviderText};

/// How long an installation may take in an awake Sprite.
const INSTALLED_WITHIN: Duration = Duration::from_secs(15);
const EXECUTABLE: u32 = 0o755;

static BYTES: &[u8] = include_bytes!(env!("SPRITE_RUNNER_FILE"));
static HASH: LazyLock<String> =
    LazyLock::new(|| Sha256::digest(BYTES).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")));

/// The program.
pub const fn bytes() -> &'static [u8] {
    BYTES
}

/// Its SHA-256: 64 hex digits.
pub fn hash() -> &'static str {
    &HASH
}

/// Where it is in a Sprite that is locked down.
pub fn path() -> String {
    runner_protocol::installed(hash())
}

/// Why the runner is not in the Sprite.
#[derive(Debug, thiserror::Error)]
pub enum PutFailure {
    /// The guest's file system refuses the file.
    #[error("the Sprite's file system refuses the runner ({0})")]
    Refused(ProviderText),
    /// The connection broke while the file was sent. So does one of a server that refuses it before it has read it.
    #[error("the Sprite did not take the runner")]
    Cut(#[source] sprites::Error),
    /// The file is there and cannot be executed.
    #[error("the Sprite cannot execute the runner, which is built for x86_64 Linux")]
    UnsupportedPlatform,
    /// The runner was started and did not say that it is installed.
    #[error("the runner could not install itself (exit {})", .exit.map_or_else(|| "unknown".to_owned(), |code| code.to_string()))]
    NotInstalled {
        /// Its exit code, if there was one.
        exit: Option<u8>,
    },
    /// No answer that says anything.
    #[error("the platform gave no usable answer ({})", .0.kind())]
    Platform(#[source] sprites::Error),
    /// The exec could not be opened.
    #[error("the runner could not be started in the Sprite")]
    Exec(#[from] ExecError),
}

impl PutFailure {
    /// Whether another place in the same guest may do: something may stand in the way of the first, a link may lead it where
    /// nothing can be executed or moved away.
    const fn depends_on_the_place(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Cut(_) | Self::UnsupportedPlatform | Self::NotInstalled { .. } => true,
            Self::Platform(_) | Self::Exec(_) => false,
        }
    }
}

/// Puts the runner into a Sprite, where it installs itself, writes the nonce and makes the workspace.
///
/// The file that is executed has a name that nobody could make before; what stands where it belongs, it removes itself. What an
/// earlier runner of this operator's is in use for goes on.
pub async fn put(sprites: &sprites::Client, on: &Awake, nonce: &str) -> Result<(), PutFailure> {
    put_this(sprites, on, nonce, bytes(), hash()).await
}

/// The same with any program.
pub async fn put_this(
    sprites: &sprites::Client,
    on: &Awake,
    nonce: &str,
    program: &'static [u8],
    hash: &str,
) -> Result<(), PutFailure> {
    let [usual, other] = places(hash, rand::random());
    match put_at(sprites, on, nonce, program, hash, usual).await {
        Err(failure) if failure.depends_on_the_place() => {
            tracing::debug!(sprite = on.name(), %failure, "the runner is put elsewhere");
            put_at(sprites, on, nonce, program, hash, other).await
        }
        result => result,
    }
}

/// Where the file is written: beside the installed one, and where nothing but the home has to be as it should.
fn places(hash: &str, random: u64) -> [String; 2] {
    [format!("{HOME}/{ROOT}/{BIN}/{hash}.{random:016x}"), format!("{HOME}/.sprite-runner.{random:016x}")]
}

/// Puts a copy of this operator's runner where nobody can have put anything before, to be asked once.
pub async fn copy(sprites: &sprites::Client, on: &Awake) -> Result<String, sprites::Error> {
    let [_, file] = places(hash(), rand::random());
    write(sprites, on, bytes(), &file).await?;
    Ok(file)
}

async fn write(
    sprites: &sprites::Client,
    on: &Awake,
    program: &'static [u8],
    file: &str,
) -> Result<(), sprites::Error> {
    sprites.write_file(on, file, Some(EXECUTABLE), Bytes::from_static(program)).await
}

async fn put_at(
    sprites: &sprites::Client,
    on: &Awake,
    nonce: &str,
    program: &'static [u8],
    hash: &str,
    file: String,
) -> Result<(), PutFailure> {
    write(sprites, on, program, &file).await.map_err(not_written)?;
    let argv = [&file, INSTALL, hash, nonce, WORKSPACE].map(str::to_owned).to_vec();
    let result = match trusted(sprites, on, argv, INSTALLED_WITHIN).await {
        Ok(output) => judge(&output, hash, nonce),
        Err(error) => Err(error.into()),
    };
    if result.is_err() {
        // Each try leaves a file otherwise. That it is still there, or that this is answered, nothing depends on.
        let _ = sprites.delete_file(on, &file).await;
    }
    result
}

fn not_written(error: sprites::Error) -> PutFailure {
    if let sprites::Error::File { code, message: _ } = error {
        return PutFailure::Refused(code);
    }
    let cut = matches!(error, sprites::Error::Unknown { status: None, sent: true, .. });
    if cut { PutFailure::Cut(error) } else { PutFailure::Platform(error) }
}

/// What an installation said.
fn judge(output: &Output, hash: &str, nonce: &str) -> Result<(), PutFailure> {
    match output.exit {
        Some(0) if output.stdout == answer::installed(hash, nonce).as_bytes() => Ok(()),
        // The file was written just now, with the mode for it.
        Some(EXIT_NOT_EXECUTABLE) => Err(PutFailure::UnsupportedPlatform),
        exit => Err(PutFailure::NotInstalled { exit }),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_runner_is_known_by_its_hash() {
        assert!(!bytes().is_empty());
        assert!(hash().len() == 64 && hash().bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
        assert_eq!(path(), format!("/home/sprite/.sprite-operator/bin/{}", hash()));
    }

    #[test]
    fn the_file_that_is_executed_has_a_name_that_cannot_be_told_before() {
        let [usual, other] = places("ab", 0x1f);
        assert_eq!(usual, "/home/sprite/.sprite-operator/bin/ab.000000000000001f");
        assert_eq!(other, "/home/sprite/.sprite-runner.000000000000001f");
        assert_ne!(places("ab", 1), places("ab", 2));
    }

    #[rstest]
    #[case::installed(Some(0), "so-installed ab n\n", None)]
    #[case::of_another_nonce(Some(0), "so-installed ab m\n", Some("NotInstalled"))]
    #[case::of_another_hash(Some(0), "so-installed cd n\n", Some("NotInstalled"))]
    #[case::cut(Some(0), "so-installed ab n", Some("NotInstalled"))]
    #[case::something_before(Some(0), "hello\nso-installed ab n\n", Some("NotInstalled"))]
    #[case::silent(Some(0), "", Some("NotInstalled"))]
    #[case::said_so_and_failed(Some(95), "so-installed ab n\n", Some("NotInstalled"))]
    #[case::gone(Some(127), "", Some("NotInstalled"))]
    #[case::lost(None, "so-installed ab n\n", Some("NotInstalled"))]
    #[case::another_architecture(Some(126), "", Some("UnsupportedPlatform"))]
    fn only_its_own_words_say_that_it_is_installed(
        #[case] exit: Option<u8>,
        #[case] said: &str,
        #[case] failure: Option<&str>,
    ) {
        let output = Output { exit, stdout: said.as_bytes().to_vec(), ..Output::default() };
        let found = judge(&output, "ab", "n").err().map(|failure| match failure {
            PutFailure::NotInstalled { exit: told } => {
                assert_eq!(told, exit);
                "NotInstalled"
            }
            PutFailure::UnsupportedPlatform => "UnsupportedPlatform",
            PutFailure::Refused(_) | PutFailure::Cut(_) | PutFailure::Platform(_) | PutFailure::Exec(_) => "another",
        });
        assert_eq!(found, failure);
    }

    #[test]
    fn another_place_is_tried_only_for_what_the_guest_said() {
        let unknown = || sprites::Error::Ended;
        for (failure, expected) in [
            (PutFailure::Refused(ProviderText::default()), true),
            (PutFailure::Cut(unknown()), true),
            (PutFailure::UnsupportedPlatform, true),
            (PutFailure::NotInstalled { exit: Some(92) }, true),
            (PutFailure::Platform(unknown()), false),
            (PutFailure::Exec(ExecError::Unknown(unknown())), false),
        ] {
            assert_eq!(failure.depends_on_the_place(), expected, "{failure:?}");
        }
    }
}
