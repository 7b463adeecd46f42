//! What becomes of the Sprite while idle and after a Run.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::known;
use crate::{bounds, schema, values::GoDuration};

/// What becomes of the Sprite while idle and after a Run.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Lifecycle {
    /// Never destroy an idle Sprite.
    pub persistent: bool,
    /// Idle for so long: the platform may pause the Sprite. At most 720h.
    #[schemars(schema_with = "hibernate_schema")]
    pub hibernate_after: GoDuration,
    /// Idle for so long, awake or paused: the Sprite is destroyed, unless persistent. At most 8760h.
    #[schemars(schema_with = "expire_schema")]
    pub expire_after: GoDuration,
    /// Awake without a Run for so long: the Sprite is stopped, reason HeldAwakeByGuest. At most 720h.
    #[schemars(schema_with = "awake_schema")]
    pub max_awake: GoDuration,
    /// Background processes, services and foreign tasks left by a Run: Kill or Keep.
    pub processes_after_run: KillOrKeep,
    /// Running commands when the policy gets tighter: let them Finish, or Kill them.
    pub on_tighten: FinishOrKill,
    /// A used instance when egress gets wider: Replace it, or Relock it.
    pub on_widen: ReplaceOrRelock,
    /// A Sprite whose kill cannot be confirmed: Destroy it, or only Report.
    pub on_kill_unconfirmed: DestroyOrReport,
}

fn hibernate_schema(_: &mut SchemaGenerator) -> Schema {
    schema::duration(bounds::IDLE, true)
}
fn expire_schema(_: &mut SchemaGenerator) -> Schema {
    schema::duration(bounds::LIFE, true)
}
fn awake_schema(_: &mut SchemaGenerator) -> Schema {
    schema::duration(bounds::IDLE, true)
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            persistent: false,
            hibernate_after: known("5m"),
            expire_after: known("24h"),
            max_awake: known("1h"),
            processes_after_run: KillOrKeep::Kill,
            on_tighten: FinishOrKill::Finish,
            on_widen: ReplaceOrRelock::Replace,
            on_kill_unconfirmed: DestroyOrReport::Destroy,
        }
    }
}

/// Kill or Keep.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum KillOrKeep {
    Kill,
    Keep,
}

/// Finish or Kill.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FinishOrKill {
    Finish,
    Kill,
}

/// Replace or Relock.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ReplaceOrRelock {
    Replace,
    Relock,
}

/// Destroy or Report.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DestroyOrReport {
    Destroy,
    Report,
}
