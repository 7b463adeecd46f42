//! `--guest instant`: Sprites without a sandbox and without a process. Files and policies are kept; a command is answered at
//! once, as the operator's runner would answer it, with outputs that a test scripts.
//!
//! It measures the operator with thousands of sessions, so it must start no process and no thread for a Sprite or a command,
//! and must execute nothing. This folder alone of the whole server speaks the runner's protocol (the crate
//! `runner_protocol`): the real runner is checked in sandboxes. What it remembers of Runs is the process's memory: a restarted
//! server knows no nonce and no guard.

mod answers;
mod command;
mod files;
mod home;
mod machine;
mod memory;
mod run;
pub(crate) mod trees;
mod writer;

pub(crate) use answers::{AnswerRule, Answers};
pub(crate) use machine::{Instance, Machine};
