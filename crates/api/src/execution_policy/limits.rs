//! Upper bounds of one Run, and what is asked of the platform.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::known;
use crate::{
    bounds, schema,
    values::{ByteSize, GoDuration},
};

/// Upper bounds of one Run. Absent fields take the value shown in the schema; zero sizes allow nothing.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Limits {
    /// Longest run time of a command, counted from its start; also the default of a Run. At least 1ms, at most 55m.
    #[schemars(schema_with = "timeout_schema")]
    pub timeout: GoDuration,
    /// Longest wait from creation to the start of the command; past it the Run is Failed, StartDeadlineExceeded. At
    /// most 24h.
    #[schemars(schema_with = "start_schema")]
    pub start: GoDuration,
    /// Bytes of stdout and stderr together; past it the command is killed and the head is kept. Integer or quantity, at
    /// most 128Ki.
    #[schemars(schema_with = "output_schema")]
    pub output: ByteSize,
    /// Bytes of a command. Integer or quantity, at most 64Ki.
    #[schemars(schema_with = "command_schema")]
    pub command: ByteSize,
    /// Bytes of a command's stdin. Integer or quantity, at most 512Ki.
    #[schemars(schema_with = "stdin_schema")]
    pub stdin: ByteSize,
    /// Bytes of a file written by a Run. Integer or quantity, at most 512Ki.
    #[schemars(schema_with = "write_schema")]
    pub write: ByteSize,
    /// Bytes of a file read by a Run. Integer or quantity, at most 128Ki.
    #[schemars(schema_with = "read_schema")]
    pub read: ByteSize,
    /// Runs at the same time in one session, 1 to 64.
    #[schemars(range(min = 1, max = bounds::PARALLEL_RUNS))]
    pub parallel_runs: u32,
}

fn timeout_schema(_: &mut SchemaGenerator) -> Schema {
    schema::duration(bounds::TIMEOUT, false)
}
fn start_schema(_: &mut SchemaGenerator) -> Schema {
    schema::duration(bounds::START, false)
}
fn output_schema(_: &mut SchemaGenerator) -> Schema {
    schema::size(bounds::OUTPUT)
}
fn command_schema(_: &mut SchemaGenerator) -> Schema {
    schema::size(bounds::COMMAND)
}
fn stdin_schema(_: &mut SchemaGenerator) -> Schema {
    schema::size(bounds::STDIN)
}
fn write_schema(_: &mut SchemaGenerator) -> Schema {
    schema::size(bounds::WRITE)
}
fn read_schema(_: &mut SchemaGenerator) -> Schema {
    schema::size(bounds::READ)
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: known("30s"),
            start: known("5m"),
            output: known("64Ki"),
            command: known("16Ki"),
            stdin: known("256Ki"),
            write: known("256Ki"),
            read: known("64Ki"),
            parallel_runs: 4,
        }
    }
}

/// What is asked of the platform.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Resources {
    /// Virtual CPUs, 1 to 64.
    #[schemars(range(min = 1, max = bounds::CPUS))]
    pub cpus: u32,
    /// Memory. Integer or quantity, at most 1Ti.
    #[schemars(schema_with = "memory_schema")]
    pub memory: ByteSize,
    /// Disk. Integer or quantity, at most 16Ti.
    #[schemars(schema_with = "storage_schema")]
    pub storage: ByteSize,
    /// Region code of the platform, such as iad. Absent: the platform chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "region_schema")]
    pub region: Option<String>,
}

fn memory_schema(_: &mut SchemaGenerator) -> Schema {
    schema::size(bounds::MEMORY)
}
fn storage_schema(_: &mut SchemaGenerator) -> Schema {
    schema::size(bounds::STORAGE)
}
fn region_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 16, "pattern": "^[a-z0-9-]+$"})
}

impl Default for Resources {
    fn default() -> Self {
        Self { cpus: 1, memory: known("1Gi"), storage: known("2Gi"), region: None }
    }
}
