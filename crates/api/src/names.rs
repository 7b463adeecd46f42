//! Names that others depend on: labels, annotations, finalizers, well-known objects.
//!
//! One place, so that a chart, a policy and the code cannot drift apart. Must not compute anything.

/// Finalizer of a `SandboxSession`: held until its Sprite is confirmed gone.
pub const SESSION_FINALIZER: &str = "sprite-operator.io/sprite";
/// Finalizer of a `Run`: stamped at create by the admission policy, removed once the Run's charge is accounted for.
pub const RUN_FINALIZER: &str = "sprite-operator.io/charge";
/// Annotation naming who created a Run, stamped by the admission policy.
pub const CREATOR_ANNOTATION: &str = "sprite-operator.io/creator";
/// Annotation on a session: an administrator's stop.
pub const HOLD_ANNOTATION: &str = "sprite-operator.io/hold";
/// Namespace label that opts a tenant in; only the value [`CODE_EXECUTION_ENABLED`] does.
pub const CODE_EXECUTION_LABEL: &str = "sprite-operator.io/code-execution";
/// The one value of [`CODE_EXECUTION_LABEL`] that opts in.
pub const CODE_EXECUTION_ENABLED: &str = "enabled";
/// The cluster-wide switch, in the operator's namespace.
pub const SWITCH_CONFIG_MAP: &str = "sprite-operator-switch";
/// The key of the switch; on only at exactly `true`.
pub const SWITCH_KEY: &str = "CODE_EXECUTION_ENABLED";
/// The `ConfigMap` whose UID identifies this installation.
pub const INSTALLATION_CONFIG_MAP: &str = "sprite-operator-installation";
/// The Lease that makes one operator work at a time.
pub const LEASE: &str = "sprite-operator";
/// Label on a session made for a Run: the Run's UID.
pub const RUN_UID_LABEL: &str = "sprite-operator.io/run-uid";
