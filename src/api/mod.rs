//! The custom resources: types, schema rules, columns, conditions, newtypes.
//!
//! Imports nothing of ours and does nothing: no client, no clock, no decision. What `kubectl explain` says comes from
//! the doc comments here. `crds/*.yaml` are generated from these types by [`crds`] and compared in a test.

pub mod conditions;
pub mod execution_policy;
pub mod names;
pub mod reasons;
mod reference;
pub mod run;
pub mod run_status;
pub mod sandbox_session;
pub mod sandbox_usage;
mod schema;
pub mod values;

pub use execution_policy::{ExecutionPolicy, ExecutionPolicySpec, ExecutionPolicyStatus};
pub use reference::reference;
pub use run::{Run, RunSpec};
pub use run_status::RunStatus;
pub use sandbox_session::{SandboxSession, SandboxSessionSpec, SandboxSessionStatus};
pub use sandbox_usage::{SandboxUsage, SandboxUsageStatus};
pub use schema::{CrdError, crds, to_yaml};

/// The API group of every resource here.
pub const GROUP: &str = "sprite-operator.io";
/// The version served and stored.
pub const VERSION: &str = "v1alpha1";
