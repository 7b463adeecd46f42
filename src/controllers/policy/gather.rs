//! Gathers what is said of a policy, from caches. Must not decide, and changes nothing.

use std::sync::Arc;

use api::ExecutionPolicy;

use super::observed::Observed;
use crate::{controllers::context::Context, kubernetes::object_key::ObjectKey};

/// Gathers.
pub fn gather(context: &Context, policy: Arc<ExecutionPolicy>, key: &ObjectKey) -> Observed {
    Observed {
        compilation: context.compilations.of(&policy, context.settings.open_egress),
        sessions: context.sessions_of_policy(&key.name),
        now: context.now(),
        policy,
    }
}
