#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod bounds;
#[cfg(feature = "kube")]
pub mod conditions;
#[cfg(feature = "kube")]
mod crd;
pub mod execution_policy;
pub mod names;
pub mod reasons;
#[cfg(feature = "kube")]
mod reference;
pub mod run;
#[cfg(feature = "kube")]
pub mod run_status;
pub mod sandbox_session;
#[cfg(feature = "kube")]
pub mod sandbox_usage;
mod schema;
pub mod values;
mod without_effect;

#[cfg(feature = "kube")]
pub use crd::{CrdError, crds, to_yaml};
pub use execution_policy::ExecutionPolicySpec;
#[cfg(feature = "kube")]
pub use execution_policy::{ExecutionPolicy, ExecutionPolicyStatus};
#[cfg(feature = "kube")]
pub use reference::reference;
#[cfg(feature = "kube")]
pub use run::Run;
pub use run::{RunSpec, SessionSelector};
#[cfg(feature = "kube")]
pub use run_status::RunStatus;
pub use sandbox_session::SandboxSessionSpec;
#[cfg(feature = "kube")]
pub use sandbox_session::{SandboxSession, SandboxSessionStatus};
#[cfg(feature = "kube")]
pub use sandbox_usage::{SandboxUsage, SandboxUsageStatus};
pub use without_effect::WITHOUT_EFFECT;

/// The API group of every resource here.
pub const GROUP: &str = "sprite-operator.io";
/// The version served and stored.
pub const VERSION: &str = "v1alpha1";
