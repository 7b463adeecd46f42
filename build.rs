//! Builds the runner that the operator puts into Sprites, so that it can be embedded: a static program for `x86_64` Linux,
//! whatever the operator itself is built for.
//!
//! `SPRITE_RUNNER=FILE` takes that file instead. Must not need the network where cargo's cache holds what Cargo.lock names.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

/// Names a runner that was built before.
const GIVEN: &str = "SPRITE_RUNNER";
/// What Sprites are.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const PACKAGE: &str = "sprite-operator-runner";
const PROGRAM: &str = "sprite-runner";
/// A profile of its own: small, and the same bytes from `cargo check`, `cargo test` and a release.
const PROFILE: &str = "runner";
/// Each lockdown sends the whole file.
const LARGEST: u64 = 3 << 19;
/// What the runner is made of; its tests are not.
const SOURCES: [&str; 6] = [
    "crates/runner/Cargo.toml",
    "crates/runner/src",
    "crates/runner-protocol/Cargo.toml",
    "crates/runner-protocol/src",
    "Cargo.toml",
    "Cargo.lock",
];
/// What this build was told and the runner's must not be: clippy's wrapper, and flags of other targets and profiles.
const NOT_PASSED_ON: [&str; 4] = ["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTFLAGS", "CARGO_BUILD_TARGET"];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // Nothing can be done where the words do not get out.
            let _ = writeln!(io::stderr(), "{why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    tell("rerun-if-env-changed", Path::new(GIVEN))?;
    tell("rerun-if-changed", Path::new("build.rs"))?;
    let runner = match env::var_os(GIVEN).filter(|given| !given.is_empty()) {
        Some(given) => {
            let given = root.join(given);
            tell("rerun-if-changed", &given)?;
            fs::canonicalize(&given).map_err(|error| format!("{GIVEN} names {}: {error}", given.display()))?
        }
        None => build(&root)?,
    };
    let size = fs::metadata(&runner).map_err(|error| format!("{}: {error}", runner.display()))?.len();
    if size > LARGEST {
        return Err(format!(
            "the runner {} has {size} bytes; at most {LARGEST} are sent to a Sprite",
            runner.display()
        ));
    }
    tell("rustc-env=SPRITE_RUNNER_FILE", &runner)
}

fn build(root: &Path) -> Result<PathBuf, String> {
    for source in SOURCES {
        tell("rerun-if-changed", &root.join(source))?;
    }
    target_is_installed()?;
    // Its own folder: whoever runs this holds the lock of the workspace's.
    let folder = PathBuf::from(variable("OUT_DIR")?).join("runner");
    let mut cargo = Command::new(variable("CARGO")?);
    cargo.args(["build", "--locked", "--package", PACKAGE, "--bin", PROGRAM, "--profile", PROFILE, "--target", TARGET]);
    cargo.arg("--manifest-path").arg(root.join("Cargo.toml")).arg("--target-dir").arg(&folder);
    for name in NOT_PASSED_ON {
        cargo.env_remove(name);
    }
    // Weighs more than any other place for flags. Exactly these: the program must not depend on what a guest's /lib holds.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static");
    // Cargo reads this program's stdout.
    let status =
        cargo.stdout(Stdio::null()).status().map_err(|error| format!("cargo could not be started: {error}"))?;
    if !status.success() {
        return Err(format!("the runner could not be built ({status}); {GIVEN}=FILE takes one that was built before"));
    }
    Ok(folder.join(TARGET).join(PROFILE).join(PROGRAM))
}

/// Cargo itself would only say that it cannot find `core`.
fn target_is_installed() -> Result<(), String> {
    let mut rustc = Command::new(variable("RUSTC")?);
    let answer = rustc.args(["--print", "target-libdir", "--target", TARGET]).output();
    let answer = answer.map_err(|error| format!("rustc could not be started: {error}"))?;
    let folder = String::from_utf8_lossy(&answer.stdout);
    let holds_core = |folder: &str| {
        let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"))
    };
    if answer.status.success() && holds_core(folder.trim()) {
        return Ok(());
    }
    Err(format!(
        "the runner is built for {TARGET}, whose standard library is not installed: run `rustup target add {TARGET}`. On a host \
         that is not x86_64 a linker for it is needed, too (CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER). {GIVEN}=FILE takes \
         a runner that was built before."
    ))
}

fn variable(name: &str) -> Result<OsString, String> {
    env::var_os(name).ok_or_else(|| format!("cargo sets {name}, and it is not set"))
}

/// Tells cargo.
fn tell(what: &str, value: &Path) -> Result<(), String> {
    writeln!(io::stdout(), "cargo:{what}={}", value.display())
        .map_err(|error| format!("cargo does not listen: {error}"))
}
