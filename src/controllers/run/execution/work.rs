//! What kind of work an execution is: how its output is kept, and what its end is called. Pure.

use api::RunSpec;
use rules::{
    output::{self, Shape},
    path,
};
use runner_protocol::FileOperation;

use super::super::plan::Tool;

/// The kind of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// A script.
    Script,
    /// A file operation.
    File {
        /// Its file.
        path: String,
        /// What is said of it when it succeeded.
        done: &'static str,
        /// Whether it sends what it read.
        reads: bool,
    },
}

const WRITTEN: &str = "the file was written";
const READ: &str = "the file was read";
const EDITED: &str = "the file was edited";

impl Work {
    /// Of a request that was judged.
    pub fn of_tool(tool: &Tool) -> Self {
        let Tool::File(operation) = tool else { return Self::Script };
        let (done, reads) = match operation {
            FileOperation::Write { .. } => (WRITTEN, false),
            FileOperation::Read { .. } => (READ, true),
            FileOperation::Edit { .. } => (EDITED, false),
        };
        Self::File { path: operation.path().to_owned(), done, reads }
    }

    /// Of a Run that was started by somebody else: its spec cannot have changed since.
    pub fn of_spec(spec: &RunSpec) -> Self {
        let file = |written: &str, done, reads| Self::File {
            path: path::file(written).unwrap_or_else(|_| written.to_owned()),
            done,
            reads,
        };
        match (&spec.write_file, &spec.read_file, &spec.edit_file) {
            (Some(write), _, _) => file(&write.path, WRITTEN, false),
            (None, Some(read), _) => file(&read.path, READ, true),
            (None, None, Some(edit)) => file(&edit.path, EDITED, false),
            (None, None, None) => Self::Script,
        }
    }

    /// What is kept of its output with this limit.
    pub const fn shape(&self, limit: u64, stopped_at_limit: bool) -> Shape {
        match self {
            Self::Script => output::shape(limit, stopped_at_limit),
            Self::File { .. } => output::file_shape(limit),
        }
    }
}
