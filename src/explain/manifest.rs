//! An ExecutionPolicy manifest: what it comes to, and everything that is wrong with it. PURE.
//!
//! The schema and the rules judge, as they do in a cluster; here their words are put together.

use std::sync::Arc;

use serde_json::{Value, json};
use thiserror::Error;

use super::beside;
use super::documents::{self, Document, Wanted};
use super::partial;
use super::shape::{self, Flaw, shown};
use super::unquoted;
use crate::policy::compile::{self, Compiled};
use crate::policy::effect;
use crate::policy::view::PolicyView;
use api::ExecutionPolicy;
use api::execution_policy::ExecutionPolicySpec;
use api::reasons::RunReason;
use rules::egress::Rule;
use rules::limits::Limits;

/// Most values without quotes that are named.
const NAMED: usize = 20;
/// Why a manifest cannot be judged at all.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ManifestError {
    /// Not YAML, or not of the YAML that is taken; first the kind that was looked for.
    #[error("nothing can be read here, also no {0}: {1}")]
    Form(&'static str, String),
    /// The same of one document among others; lines are counted from its `---`.
    #[error("document {0}, its lines counted from its `---`, cannot be read: {1}")]
    Part(usize, String),
    /// More than is read.
    #[error("the file holds more than {0}: write less into one file")]
    TooMuch(String),
    /// Not of a kind that can be told apart; second the kind that was looked for.
    #[error(
        "document {0} has kind {2} and apiVersion {3}: write kind: {1} and apiVersion: sprite-operator.io/v1alpha1, or \
         the kind that it is"
    )]
    Kind(usize, &'static str, String, String),
    /// No policy among the documents.
    #[error(
        "there is no ExecutionPolicy in it: write kind: ExecutionPolicy and apiVersion: sprite-operator.io/v1alpha1"
    )]
    NoPolicy,
    /// No Run among the documents.
    #[error("there is no Run in it: write kind: Run and apiVersion: sprite-operator.io/v1alpha1")]
    NoRun,
    /// One was asked for.
    #[error("there are {0} policies in it: name a file with the one to judge under")]
    Several(usize),
}

/// What a policy comes to.
#[derive(Debug, Clone)]
pub struct PolicyReport {
    /// Its name.
    pub name: String,
    /// As it was read, with defaults; a part that cannot be read has its defaults.
    pub spec: ExecutionPolicySpec,
    /// The rules that its Sprites get; none when it is not in force.
    pub rules: Vec<Rule>,
    /// SHA3-256 of them; the second half of a lockdown token.
    pub hash: Option<String>,
    /// What a Run is held to; nothing when it is not in force.
    pub limits: Option<Limits>,
    /// The policy as the operator has it in force; nothing when it is not.
    pub(super) compiled: Option<Arc<Compiled>>,
    /// Everything that is wrong, each with its field and what to write instead.
    pub complaints: Vec<String>,
    /// What is valid and yet not what its author may expect: fields that have no effect.
    pub notes: Vec<String>,
}

/// What a file holds.
#[derive(Debug, Default)]
pub struct Manifests {
    /// Its policies, in their order.
    pub policies: Vec<PolicyReport>,
    /// What is no policy, by kind and name.
    pub others: Vec<String>,
    /// What cannot be told.
    pub unreadable: Vec<ManifestError>,
}

impl Manifests {
    /// From a file in YAML or JSON with any number of documents.
    pub fn read(text: &str, open_allowed: bool) -> Result<Self, ManifestError> {
        let mut read = Self::default();
        let unquoted = unquoted::find(text);
        let mut empty = unquoted.empty.into_iter().take(NAMED);
        for document in documents::split(text, Wanted::Policies)? {
            match document {
                Document::Wanted(value) => {
                    let mut report = PolicyReport::of(value, open_allowed);
                    if report.complaints.iter().any(|complaint| complaint.contains(shape::NOTHING)) {
                        report = empty.by_ref().fold(report, PolicyReport::refused);
                    }
                    if !report.name.is_empty() && read.policies.iter().any(|other| other.name == report.name) {
                        let name = shown(&report.name);
                        let complaint = format!(
                            "metadata.name: `{name}` stands twice in the file, and would replace the first: give it another name"
                        );
                        report = report.refused(complaint);
                    }
                    read.policies.push(report);
                }
                Document::Other(name) => read.others.push(name),
                Document::Unreadable(error) => read.unreadable.push(error),
            }
        }
        // Lines of a file are nobody's alone: the first policy tells of them.
        if let Some(first) = read.policies.first_mut() {
            first.notes.extend(unquoted.shortened.into_iter().take(NAMED));
            *first = unquoted.refused.into_iter().take(NAMED).fold(first.clone(), PolicyReport::refused);
        }
        Ok(read)
    }
}

impl PolicyReport {
    /// The one policy of a file.
    pub fn read(text: &str, open_allowed: bool) -> Result<Self, ManifestError> {
        let Manifests { mut policies, unreadable, .. } = Manifests::read(text, open_allowed)?;
        if let Some(error) = unreadable.into_iter().next() {
            return Err(error);
        }
        match (policies.pop(), policies.len()) {
            (Some(policy), 0) => Ok(policy),
            (Some(_), others) => Err(ManifestError::Several(others + 1)),
            (None, _) => Err(ManifestError::NoPolicy),
        }
    }

    /// With one more complaint, so not in force.
    fn refused(mut self, complaint: String) -> Self {
        self.complaints.push(complaint);
        Self { rules: Vec::new(), hash: None, limits: None, compiled: None, ..self }
    }

    /// Whether it is in force: there is no complaint about it, of whatever kind.
    pub const fn is_ready(&self) -> bool {
        self.complaints.is_empty()
    }

    /// As a Run sees it.
    pub fn view(&self) -> PolicyView {
        match &self.compiled {
            Some(compiled) => PolicyView::Ready(Arc::clone(compiled)),
            None => PolicyView::NotReady(self.name.clone(), self.complaints.join("; ")),
        }
    }

    /// Why nothing starts under this policy, if so.
    pub fn in_the_way(&self) -> Option<(RunReason, String)> {
        if !self.is_ready() {
            let why = format!("the policy is not in force: {}", self.complaints.join("; "));
            return Some((RunReason::PolicyNotReady, why));
        }
        let why = "the policy is suspended: nothing starts under it".to_owned();
        self.spec.suspend.then_some((RunReason::PolicySuspended, why))
    }

    fn of(manifest: Value, open_allowed: bool) -> Self {
        let written = manifest.get("spec").filter(|spec| !spec.is_null()).cloned().unwrap_or_else(|| json!({}));
        let mut complaints = beside::complaints(&manifest, Wanted::Policies);
        let value = without_nulls(manifest);
        let name = match value.pointer("/metadata/name") {
            Some(Value::String(name)) => name.clone(),
            // As a handle; it is named as no text.
            Some(other) => shown(&other.to_string()),
            None => String::new(),
        };
        let spec = value.get("spec").cloned().unwrap_or_else(|| json!({}));
        let flaws = match shape::policy() {
            Some(schema) => shape::flaws(schema, &written, "spec"),
            None => vec![Flaw::new("spec", "the schema cannot be rendered")],
        };
        complaints.extend(flaws.iter().map(ToString::to_string));
        let (metadata, unread) = partial::metadata(value.get("metadata"));
        complaints.extend(unread);
        let (spec, unread) = partial::spec(spec, &flaws);
        complaints.extend(unread);
        let policy = ExecutionPolicy { metadata, spec, status: None };
        let compiled = compile::compile(&policy, open_allowed);
        let errors = compiled.as_ref().err().map(|errors| errors.errors.as_slice()).unwrap_or_default();
        let errors = errors.iter().filter(|error| !partial::is_said(error, &flaws));
        complaints.extend(errors.map(|error| format!("spec.{error}")));
        let compiled = compiled.ok().filter(|_| complaints.is_empty());
        let notes = effect::without_effect(&policy.spec).into_iter();
        Self {
            name,
            notes: notes.map(|field| format!("spec.{field}: it has no effect in this version")).collect(),
            spec: policy.spec,
            rules: compiled.as_ref().map(|compiled| compiled.egress.rules().to_vec()).unwrap_or_default(),
            hash: compiled.as_ref().map(|compiled| compiled.egress.hash().to_owned()),
            limits: compiled.as_ref().map(|compiled| compiled.limits.clone()),
            compiled: compiled.map(Arc::new),
            complaints,
        }
    }
}

/// A field set to `null` counts as absent, as on the API server.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, inner)| !inner.is_null());
            Value::Object(kept.map(|(name, inner)| (name, without_nulls(inner))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}
