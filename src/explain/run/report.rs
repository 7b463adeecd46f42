//! One Run manifest: what the API server has against it, then what the gate says of it. PURE.

use serde_json::Value;

use super::conceal::conceal;
use super::policies::{Chosen, Policies};
use crate::controllers::run::{Answer, Holds, ask};
use crate::explain::documents::Wanted;
use crate::explain::manifest::without_nulls;
use crate::explain::shape::{self, Flaw};
use crate::explain::{beside, cel, partial};
use api::{Run, RunSpec};
use kube::core::ObjectMeta;
use rules::outcome::Outcome;

/// What becomes of a Run.
#[derive(Debug)]
pub struct RunReport {
    /// Its name; none where the API server is to make one.
    pub name: Option<String>,
    /// Its namespace, if it is written.
    pub namespace: Option<String>,
    /// What the manifest is refused for before there is a Run, each with its field and what to write instead.
    pub complaints: Vec<String>,
    /// What is wrong with the policies that hold for it.
    pub of_policies: Vec<String>,
    /// How the gate ends it, if it does.
    pub outcome: Option<Outcome>,
    /// What holds for it if it is admitted.
    pub holds: Option<Holds>,
    /// Policies that were given and hold for it, the session's first.
    pub policies: Vec<String>,
    /// What is valid and yet not what its author may expect.
    pub notes: Vec<String>,
}

impl RunReport {
    /// Whether nothing that can be judged here stands against it.
    pub const fn is_admitted(&self) -> bool {
        self.complaints.is_empty() && self.outcome.is_none() && self.holds.is_some()
    }

    /// With one more complaint.
    pub(super) fn refused(mut self, complaint: String) -> Self {
        self.complaints.push(complaint);
        Self { holds: None, ..self }
    }

    pub(super) fn of(manifest: Value, policies: &Policies) -> Self {
        let mut complaints = beside::complaints(&manifest, Wanted::Runs);
        let written = manifest.get("spec").cloned().unwrap_or_default();
        let value = without_nulls(manifest);
        let spec = value.get("spec").cloned().unwrap_or_default();
        complaints.extend(flaws(&written, &spec).iter().map(ToString::to_string));
        let (metadata, unread) = partial::metadata(value.get("metadata"));
        complaints.extend(unread);
        let read: Result<RunSpec, _> = serde_path_to_error::deserialize(&spec);
        if let (Err(error), true) = (&read, complaints.is_empty()) {
            // The error itself may repeat what stands there.
            complaints.push(format!("spec.{}: it cannot be read: write what the schema asks for", error.path()));
        }
        let spec = read.ok();
        let reference = spec.as_ref().and_then(|spec| spec.policy_ref.as_ref()).map(|policy| policy.name.as_str());
        let Chosen { session, own, names, complaints: of_policies, mut notes } = policies.chosen(reference);
        let answer = spec.map(|spec| ask(Run { metadata: as_created(&metadata), spec, status: None }, session, own));
        let (outcome, holds) = match answer {
            Some(Answer::Over(outcome)) => (Some(outcome), None),
            Some(Answer::Passes(holds)) => (None, Some(*holds).filter(|_| complaints.is_empty())),
            Some(Answer::Open(plan)) => {
                notes.push(format!("the gate asks for more than can be made up here ({plan}), so it is not judged"));
                (None, None)
            }
            None => (None, None),
        };
        Self {
            name: metadata.name,
            namespace: metadata.namespace,
            complaints,
            of_policies,
            outcome,
            holds,
            policies: names,
            notes,
        }
    }
}

/// What the API server has against a spec: as it is written for its form, without nulls for its rules.
fn flaws(written: &Value, spec: &Value) -> Vec<Flaw> {
    if written.is_null() {
        return vec![Flaw::new("spec", "there is none: write one")];
    }
    let Some(schema) = shape::run() else { return vec![Flaw::new("spec", "the schema cannot be rendered")] };
    let mut flaws = shape::flaws(schema, written, "spec");
    // What has not the form has been told what to write.
    let of_rules = cel::flaws(schema, spec, "spec").into_iter();
    let of_rules: Vec<_> = of_rules.filter(|flaw| !flaws.iter().any(|other| other.path == flaw.path)).collect();
    flaws.extend(of_rules);
    flaws.into_iter().map(|flaw| conceal(flaw, written)).collect()
}

/// Metadata as of an object that is new; a manifest may be an export.
fn as_created(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name.clone(),
        generate_name: metadata.generate_name.clone(),
        namespace: metadata.namespace.clone(),
        labels: metadata.labels.clone(),
        annotations: metadata.annotations.clone(),
        ..ObjectMeta::default()
    }
}
