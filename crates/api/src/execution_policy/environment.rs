//! Environment variables and commands.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::bounds;

/// Environment variables of Runs.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Environment {
    /// Set for every Run, each name once. At most 128 of 32Ki each.
    #[schemars(schema_with = "env_schema")]
    pub set: Vec<EnvVar>,
    /// Names that a Run may set itself. At most 128.
    #[schemars(schema_with = "env_names_schema")]
    pub allow: Vec<String>,
}

/// One environment variable.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct EnvVar {
    /// A letter or underscore, then letters, digits and underscores.
    pub name: String,
    /// Any text without NUL.
    #[serde(default)]
    pub value: String,
}

/// The schema of a list of environment variables, for policies and Runs.
pub(crate) fn env_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": bounds::VARIABLES, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object", "required": ["name"],
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
                    "description": "A letter or underscore, then letters, digits and underscores."},
                "value": {"type": "string", "maxLength": bounds::VARIABLE_BYTES, "pattern": r"^[^\x00]*$",
                    "description": "Any text without NUL, at most 32Ki; empty if absent.",
                    "x-kubernetes-validations": [{"rule": format!("size(bytes(self)) <= {}", bounds::VARIABLE_BYTES),
                        "message": "a value has at most 32Ki bytes of UTF-8: write a shorter one"}]},
            },
        },
    })
}
fn env_names_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": bounds::VARIABLES, "x-kubernetes-list-type": "set",
        "items": {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
    })
}

/// Which commands are refused.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Commands {
    /// Linear-time regular expressions (RE2 syntax, no back-references); a command that matches one is Denied. At
    /// most 64 of 512 bytes, each without white space at its ends. Matched are the text as written, and each of its
    /// pipelines as a shell reads it: continued lines joined, quotes and backslashes resolved, also in scripts that it
    /// gives to shells. Not seen: what only shows at run time (values of variables set elsewhere, globs, aliases, decoded or downloaded
    /// text) and programs in other languages than the shell. The wall is egress, not this list.
    #[schemars(schema_with = "deny_schema")]
    pub deny: Vec<String>,
}

fn deny_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": bounds::EXPRESSIONS, "x-kubernetes-list-type": "set",
        "items": {"type": "string", "minLength": 1, "maxLength": bounds::EXPRESSION_BYTES},
        "x-kubernetes-validations": [
            {"rule": format!("self.all(e, size(bytes(e)) <= {})", bounds::EXPRESSION_BYTES),
             "message": format!("an expression has at most {} bytes: split it into several", bounds::EXPRESSION_BYTES)},
            {"rule": r"self.all(e, !e.matches('^\\s') && !e.matches('\\s$'))",
             "message": "an expression begins or ends with white space, as a block of YAML leaves it there: write it on one line, in single quotes, and \\s where white space is meant"},
        ],
    })
}
