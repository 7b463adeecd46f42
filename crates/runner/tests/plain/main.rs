//! The runner as plain processes of this machine, in a home of its own.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests; a pause is part of what some of them do"
)]

mod ask;
mod end;
mod files;
mod get_away;
mod home;
mod start;
mod tools;

use std::{
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use home::{Home, RUNNER, Ran, read_until, signal, until};
use runner_protocol::*;
