//! Writes what is said of a policy, and the Event. Must not decide.

use api::{ExecutionPolicy, reasons::PolicyReason};
use kube::Resource;

use super::{observed::Observed, plan::Plan};
use crate::{
    controllers::{
        context::Context,
        driver::Next,
        error::Error,
        events::{self, Notice},
    },
    kubernetes::apply::{self, Target},
};

/// Does it.
pub async fn act(context: &Context, o: &Observed, plan: Plan) -> Result<Next, Error> {
    match plan {
        Plan::Nothing(next) => Ok(next),
        Plan::Report { status, told, next } => {
            let target = Target::of(o.policy.as_ref())?;
            let _: ExecutionPolicy = apply::status(&context.client, &target, &*status).await?;
            if let Some((reason, note)) = told {
                let warning = reason != PolicyReason::Valid;
                let notice = Notice { warning, reason: reason.as_str(), action: "Compile", note };
                events::publish(context, o.policy.object_ref(&()), notice).await;
            }
            Ok(next)
        }
    }
}
