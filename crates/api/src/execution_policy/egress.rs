//! Which hosts a Sprite may reach.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::bounds;

/// Which hosts the Sprite may reach.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Egress {
    /// DenyAll: nothing. Allowlist: only `allow` and `presets`. Open: everything but `deny` and the platform's own
    /// internal names; needs the operator's flag --allow-open-egress.
    pub mode: EgressMode,
    /// Host names (api.example.com) or wildcards for subdomains (*.example.com). No IP addresses, ports, schemes or
    /// paths: the platform's rules are about names. At most 200.
    #[schemars(schema_with = "entries_schema")]
    pub allow: Vec<String>,
    /// Host names or wildcards that are denied even where a wider entry allows them. At most 200.
    #[schemars(schema_with = "entries_schema")]
    pub deny: Vec<String>,
    /// Defaults: also allow the platform's own preset of development hosts. It only adds allows.
    #[schemars(schema_with = "presets_schema")]
    pub presets: Vec<EgressPreset>,
}

fn entries_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": bounds::EGRESS_ENTRIES, "x-kubernetes-list-type": "set",
        "items": {"type": "string", "minLength": 1, "maxLength": bounds::EGRESS_ENTRY_CHARACTERS},
        "x-kubernetes-validations": [
            {"rule": r"self.all(e, e.matches('^\\s*[^\\s/:@?#%,]+\\s*$'))",
             "message": "write a host name such as api.example.com or *.example.com: no scheme, port, path, user, space or CIDR"},
            {"rule": r"self.all(e, !e.matches('^\\s*[0-9.]+\\s*$'))",
             "message": "write a host name such as api.example.com: IP addresses cannot be allowed or denied by the platform"},
            {"rule": r"self.all(e, !e.matches('^\\s*[*](\\s|$)'))",
             "message": "a lone * cannot be listed: set egress.mode to Open or DenyAll instead"},
        ],
    })
}
fn presets_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": 1, "x-kubernetes-list-type": "set",
        "items": {"type": "string", "enum": ["Defaults"]}})
}

/// How egress is decided.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum EgressMode {
    #[default]
    DenyAll,
    Allowlist,
    Open,
}

/// A named set of allows of the platform.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum EgressPreset {
    Defaults,
}
