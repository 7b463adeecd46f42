//! What the operator and the runner in the guest say to each other: names, exit codes, the launch, the record, the answers.
//!
//! Pure, and small enough for the runner: no client, no clock, no files. Nothing of a user's stands in an argument, since
//! arguments travel in a URL.

pub mod answer;
pub mod capture;
pub mod file;
pub mod launch;
pub mod record;
pub mod stdout;

pub use answer::{Fence, Guard, State};
pub use capture::{Capture, Counts, Meter, Parts, Shape, Source};
pub use file::{FileOperation, FileReport};
pub use launch::{Arguments, Input, Launch, LaunchError, Task};

pub use record::{Cause, Record};
pub use stdout::Stdout;

/// The first argument of a Run's runner, by which its exec session is found; the UID follows.
pub const RUN: &str = "so-run";
/// The first argument of the supervisor; the UID follows. Only the runner starts it.
pub const SUPERVISE: &str = "so-supervise";
/// The first argument of what becomes the script's bash. Only the supervisor starts it.
pub const EXEC: &str = "so-exec";
/// The first argument of what does a file operation. Only the supervisor starts it.
pub const FILE: &str = "so-file";
/// Installs the runner: HASH NONCE WORKSPACE.
pub const INSTALL: &str = "so-install";
/// Keeps a Run from starting for ever, ends what is left of it, and prints its [`Guard`]: UID.
pub const FENCE: &str = "so-fence";
/// Ends what is left of a Run, and prints how many processes remain: UID.
pub const SWEEP: &str = "so-sweep";
/// Prints how long a Run has been running: UID.
pub const STATE: &str = "so-state";

/// The variable that marks every process of a Run; its value is the UID.
pub const MARK_VARIABLE: &str = "SO_RUN";

/// Home of the user that everything in a Sprite runs as.
pub const HOME: &str = "/home/sprite";
/// Where the operator keeps its own files, below the home.
pub const ROOT: &str = ".sprite-operator";
/// Where the runner is, below [`ROOT`].
pub const BIN: &str = "bin";
/// Where output is kept for an adopter, below [`ROOT`].
pub const SPOOL: &str = "spool";
/// Where the files of Runs are, in the guest.
pub const WORKSPACE: &str = "/workspace";

/// How many spools of ended Runs stay.
pub const SPOOLS_KEPT: usize = 20;
/// How many guards stay.
pub const GUARDS_KEPT: usize = 10_000;

/// Exit code: the nonce is another one, so this is another instance.
pub const EXIT_WRONG_INSTANCE: u8 = 90;
/// Exit code: something stands where the guard would be made.
pub const EXIT_GUARD_EXISTS: u8 = 91;
/// Exit code: the disk refuses.
pub const EXIT_DISK: u8 = 92;
/// Exit code: the launch was cut short, or stopped before its script was started.
pub const EXIT_INPUT_CUT: u8 = 93;
/// Exit code: the script cannot be started as asked. The reason is on stderr.
pub const EXIT_CANNOT_START: u8 = 94;
/// Exit code: the arguments are not of this protocol, or an installation failed.
pub const EXIT_USAGE: u8 = 95;
/// Exit code of a file operation: it failed; stderr says why, in the system's words.
pub const EXIT_FILE_ERROR: u8 = 1;
/// Exit code of a file operation: a link leads out of the workspace.
pub const EXIT_FILE_ESCAPE: u8 = 2;
/// What a shell, and the platform, answer for a file that cannot be executed.
pub const EXIT_NOT_EXECUTABLE: u8 = 126;
/// What a shell, and the platform, answer for a file that is not there.
pub const EXIT_NOT_FOUND: u8 = 127;

/// The path of the installed runner with this hash.
pub fn installed(hash: &str) -> String {
    format!("{HOME}/{ROOT}/{BIN}/{hash}")
}

/// Where the guest keeps a stream of a Run for an adopter.
pub fn spool(uid: &str, source: Source) -> String {
    format!("{HOME}/{ROOT}/{SPOOL}/{uid}/{}", source.as_str())
}

/// The start marker of a Run: the first bytes of the runner's stdout.
pub fn start_marker(uid: &str) -> String {
    format!("so-started {uid}\n")
}

/// Whether a text can be a UID, a nonce or a hash: letters, digits and hyphens, so that it can be taken for nothing else.
pub fn is_plain(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}
