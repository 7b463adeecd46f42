//! The policies that hold for a Run: which of those that are given stands for which, and what was not given. PURE.
//!
//! A name decides in a cluster; here the order of the files does, and a note says where the names do not go with it.

use std::sync::Arc;

use crate::explain::manifest::PolicyReport;
use crate::explain::shape::shown;
use crate::policy::{compile, view::PolicyView};
use api::{ExecutionPolicy, execution_policy::ExecutionPolicySpec};

/// The session's policy, and the one that Runs name themselves.
#[derive(Debug)]
pub struct Policies {
    session: Option<PolicyReport>,
    own: Option<PolicyReport>,
}

/// What holds for one Run.
pub(super) struct Chosen {
    /// The session's policy.
    pub(super) session: PolicyView,
    /// The Run's own, if it has another one.
    pub(super) own: Option<PolicyView>,
    /// Names of those that were given and hold.
    pub(super) names: Vec<String>,
    /// Everything that is wrong with them.
    pub(super) complaints: Vec<String>,
    /// What is not as the Run says.
    pub(super) notes: Vec<String>,
}

impl Policies {
    /// The first is the session's, the second the Run's own; there are no more.
    pub fn new(given: Vec<PolicyReport>) -> Self {
        let mut given = given.into_iter();
        Self { session: given.next(), own: given.next() }
    }

    /// Those that hold for a Run with this `policyRef`.
    pub(super) fn chosen(&self, reference: Option<&str>) -> Chosen {
        let mut notes = Vec::new();
        if self.session.is_none() {
            notes.push(
                "no policy was given: judged under the defaults of the schema; name one with --policy".to_owned(),
            );
        }
        let is_of =
            |report: &Option<PolicyReport>, name: &str| report.as_ref().is_some_and(|report| report.name == name);
        let own = match (reference, &self.own) {
            // As in a cluster, where the session has the same one.
            (Some(name), _) if is_of(&self.session, name) => None,
            (Some(name), Some(own)) => {
                if own.name != name {
                    let (name, own) = (shown(name), shown(&own.name));
                    notes.push(format!(
                        "spec.policyRef names `{name}`, and the second policy is `{own}`, under which it is judged: give the file of `{name}`"
                    ));
                }
                Some(own)
            }
            (Some(name), None) => {
                let name = shown(name);
                notes.push(format!(
                    "spec.policyRef names `{name}`, which was not given, so the Run is not judged under it: name its file \
                     with --policy after that of the session's policy"
                ));
                None
            }
            (None, Some(own)) => {
                let own = shown(&own.name);
                notes.push(format!(
                    "the Run has no spec.policyRef, so the second policy, `{own}`, does not hold for it: write policyRef: {{name: {own}}}"
                ));
                None
            }
            (None, None) => None,
        };
        let reports = || self.session.iter().chain(own);
        let complaints = reports().flat_map(|report| {
            let name = shown(&report.name);
            report.complaints.iter().map(move |complaint| format!("ExecutionPolicy {name}: {complaint}"))
        });
        for report in reports() {
            let name = shown(&report.name);
            notes.extend(report.notes.iter().map(|note| format!("ExecutionPolicy {name}: {note}")));
        }
        Chosen {
            session: self.session.as_ref().map_or_else(defaults, PolicyReport::view),
            own: own.map(PolicyReport::view),
            names: reports().map(|report| report.name.clone()).collect(),
            complaints: complaints.collect(),
            notes,
        }
    }
}

/// `spec: {}`.
fn defaults() -> PolicyView {
    let name = "of the schema's defaults";
    match compile::compile(&ExecutionPolicy::new(name, ExecutionPolicySpec::default()), false) {
        Ok(compiled) => PolicyView::Ready(Arc::new(compiled)),
        Err(errors) => PolicyView::NotReady(name.to_owned(), errors.to_string()),
    }
}
