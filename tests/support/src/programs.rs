//! The programs under test.
//!
//! Cargo builds a package's own binaries before its tests and says where they are; those of other packages are built here,
//! with the profile of the test that asks, unless whoever runs the tests has built them.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use serde_json::Value;

/// Names a folder that holds the programs, built from the sources as they are now. `make test` sets it.
pub const PROGRAMS: &str = "SPRITE_OPERATOR_TEST_PROGRAMS";

/// The local Sprites server.
pub fn spritesd() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| program("spritesd"))
}

/// The operator.
pub fn operator() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| program("sprite-operator"))
}

fn program(name: &str) -> PathBuf {
    if let Some(folder) = std::env::var_os(PROGRAMS) {
        let path = Path::new(&folder).join(name);
        assert!(path.exists(), "{PROGRAMS} names a folder without {name}");
        return path;
    }
    std::env::var_os(format!("CARGO_BIN_EXE_{name}")).map_or_else(|| build(name), PathBuf::from)
}

fn build(name: &str) -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Without `--package`: with the features that `cargo build --bins` gives it, so that nothing is built twice.
    cargo.args(["build", "--locked", "--message-format=json-render-diagnostics", "--bin", name]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let built =
        cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).stderr(Stdio::inherit()).output().unwrap();
    assert!(built.status.success(), "cargo could not build {name}");
    let messages = std::str::from_utf8(&built.stdout).unwrap().lines();
    let executable = |line| serde_json::from_str::<Value>(line).unwrap()["executable"].as_str().map(PathBuf::from);
    messages.rev().find_map(executable).unwrap()
}
