//! One item, judged by the rules. PURE: nothing but the item and a policy.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::item::{Input, Item};
use super::manifest::PolicyReport;
use super::shape::shown;
use super::{Kind, quantity};
use crate::policy::bounds;
use api::execution_policy::ExecutionPolicySpec;
use api::reasons::{PolicyReason, RunReason};
use redact::Redactor;
use rules::command::{CommandText, DenyList};
use rules::egress::{self, Demand, EgressError, Mode, Pattern, PatternError, Rule, matching};
use rules::environment::{self, EnvironmentError};
use rules::path::{self, PathError};

/// What becomes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is taken, as `value`.
    Accept,
    /// It is not.
    Refuse,
    /// Something in the text is masked; `value` is what is kept.
    Mask,
    /// The text is kept as it is.
    Keep,
}

impl Verdict {
    /// The word in the output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Refuse => "refuse",
            Self::Mask => "mask",
            Self::Keep => "keep",
        }
    }
}

/// The outcome of one item.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// What becomes of it.
    pub verdict: Verdict,
    /// The reason that a status would give.
    pub reason: Option<&'static str>,
    /// Which rule decided.
    pub rule: String,
    /// The normalised form, the size in bytes, the duration in seconds, the text that is kept.
    pub value: Value,
    /// For people: why, and what to write instead.
    pub message: String,
}

impl Judgement {
    pub(super) fn accept(rule: impl Into<String>, value: impl Into<Value>, message: impl Into<String>) -> Self {
        Self { verdict: Verdict::Accept, reason: None, rule: rule.into(), value: value.into(), message: message.into() }
    }

    pub(super) fn refuse(reason: &'static str, rule: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Refuse,
            reason: Some(reason),
            rule: rule.into(),
            value: Value::Null,
            message: message.into(),
        }
    }
}

/// Judges. Without a policy the schema's defaults hold.
pub fn judge(kind: Kind, item: &Item, policy: Option<&PolicyReport>) -> Judgement {
    if let Some((reason, why)) = policy.and_then(PolicyReport::in_the_way).filter(|_| needs_the_policy(kind, item)) {
        return Judgement::refuse(reason.as_str(), reason.as_str(), why);
    }
    let default = ExecutionPolicySpec::default();
    let spec = policy.map_or(&default, |policy| &policy.spec);
    match (kind, &item.input) {
        (Kind::EgressEntry, Input::Text(entry)) => egress_entry(entry),
        (Kind::EgressEntryList, Input::Entries(entries)) => egress_entries(entries),
        (Kind::EgressHost, Input::Text(host)) => egress_host(host, item.allow.as_deref(), policy),
        (Kind::Command, Input::Text(command)) => command_of(command, spec),
        (Kind::Path, Input::Text(path)) => file(path),
        (Kind::Env, Input::Text(pair)) => variable(pair, policy.map(|policy| &policy.spec)),
        (Kind::Size, input) => quantity::size(input, policy),
        (Kind::Duration, input) => quantity::duration(input, policy),
        (Kind::Count, input) => quantity::count(input, policy),
        (Kind::Text, Input::Text(text)) => redacted(text),
        (kind, Input::Absent) => {
            Judgement::refuse(invalid(kind), "Absent", "there is nothing, and no default: write a value")
        }
        (kind, Input::Number(number)) => Judgement::refuse(
            invalid(kind),
            "Type",
            format!("{} is a number and a string is asked for: write it in quotes", shown(number.get())),
        ),
        (kind, Input::Text(_) | Input::Entries(_)) => {
            Judgement::refuse(invalid(kind), "Type", "this is no value of that kind")
        }
    }
}

/// Whether the answer is the policy's: nothing is allowed under one that is not in force.
fn needs_the_policy(kind: Kind, item: &Item) -> bool {
    match kind {
        Kind::EgressHost | Kind::Command | Kind::Env | Kind::Duration => true,
        Kind::Size | Kind::Count => matches!(item.input, Input::Absent),
        Kind::EgressEntry | Kind::EgressEntryList | Kind::Path | Kind::Text | Kind::Policy | Kind::Run => false,
    }
}

const fn invalid(kind: Kind) -> &'static str {
    match kind {
        Kind::EgressEntry | Kind::EgressEntryList | Kind::EgressHost | Kind::Policy => {
            PolicyReason::InvalidEntries.as_str()
        }
        Kind::Env => RunReason::InvalidEnvironment.as_str(),
        Kind::Path | Kind::Command | Kind::Size | Kind::Duration | Kind::Count | Kind::Text | Kind::Run => {
            RunReason::InvalidSpec.as_str()
        }
    }
}

const fn pattern_rule(error: &PatternError) -> &'static str {
    match error {
        PatternError::Empty => "Empty",
        PatternError::Character(_) => "Character",
        PatternError::Invisible(_) => "Invisible",
        PatternError::Blank => "Blank",
        PatternError::Address => "Address",
        PatternError::Everything => "Everything",
        PatternError::Wildcard => "Wildcard",
        PatternError::OneLabel => "OneLabel",
        PatternError::Form => "Form",
        PatternError::SpecialUse(_) => "SpecialUse",
        PatternError::PublicSuffix => "PublicSuffix",
    }
}

const fn egress_rule(error: &EgressError) -> &'static str {
    match error {
        EgressError::Entry { why, .. } => pattern_rule(why),
        EgressError::Overlap { .. } => "Overlap",
        EgressError::Contradiction(_) => "Contradiction",
        EgressError::DenyAllAllows => "DenyAllAllows",
        EgressError::OpenNotAllowed => "OpenNotAllowed",
    }
}

fn egress_entry(entry: &str) -> Judgement {
    match listed(&[entry.to_owned()]) {
        Ok(_) => {
            let form = Pattern::parse(entry).map(|pattern| pattern.to_string()).unwrap_or_default();
            let message = if form == entry { "" } else { "used in its normal form" };
            Judgement::accept("Pattern", form, message)
        }
        Err(refused) => *refused,
    }
}

fn egress_entries(entries: &[String]) -> Judgement {
    match listed(entries) {
        Ok(rules) => {
            let allows = rules.iter().filter(|rule| rule.action.as_deref() == Some("allow"));
            let hosts: Vec<_> = allows.filter_map(|rule| rule.domain.clone()).collect();
            let message = format!("{} of {} entries make rules of their own", hosts.len(), entries.len());
            Judgement::accept("Pattern", hosts, message)
        }
        Err(refused) => *refused,
    }
}

/// The rules of a list, as it may stand in a policy.
fn listed(entries: &[String]) -> Result<Vec<Rule>, Box<Judgement>> {
    let refuse = |rule, message| Box::new(Judgement::refuse(PolicyReason::InvalidEntries.as_str(), rule, message));
    let rules = build(entries).map_err(|errors| Box::new(refused_entries(&errors)))?;
    if let Some(long) = entries.iter().find(|entry| entry.chars().count() > api::bounds::EGRESS_ENTRY_CHARACTERS) {
        let message = bounds::too_long(long.chars().count(), api::bounds::EGRESS_ENTRY_CHARACTERS);
        return Err(refuse("Length", format!("egress.allow: `{}`: {message}", shown(long.trim()))));
    }
    if entries.len() > api::bounds::EGRESS_ENTRIES {
        let message = bounds::too_many(entries.len(), api::bounds::EGRESS_ENTRIES);
        return Err(refuse("TooMany", format!("egress.allow: {message}")));
    }
    let mut seen = BTreeSet::new();
    match entries.iter().find(|entry| !seen.insert(entry.as_str())) {
        Some(twice) => {
            Err(refuse("Duplicate", format!("egress.allow: `{}` stands there twice: keep one", shown(twice))))
        }
        None => Ok(rules),
    }
}

fn build(allow: &[String]) -> Result<Vec<Rule>, Vec<EgressError>> {
    let demand = Demand { mode: Mode::Allowlist, allow, deny: &[], defaults: false };
    egress::build(demand, false).map(|rules| rules.rules().to_vec())
}

fn refused_entries(errors: &[EgressError]) -> Judgement {
    let mut rules: Vec<_> = errors.iter().map(egress_rule).collect();
    rules.dedup();
    let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
    Judgement::refuse(PolicyReason::InvalidEntries.as_str(), rules.join(","), messages.join("; "))
}

fn egress_host(host: &str, allow: Option<&[String]>, policy: Option<&PolicyReport>) -> Judgement {
    let rules = match (allow, policy) {
        (Some(allow), _) => match build(allow) {
            Ok(rules) => rules,
            Err(errors) => return refused_entries(&errors),
        },
        (None, Some(policy)) => policy.rules.clone(),
        (None, None) => egress::Ruleset::deny_all().rules().to_vec(),
    };
    let decision = matching::decide(&rules, host);
    let rule = match &decision {
        matching::Decision::Allowed { by } | matching::Decision::Denied { by } => by.clone(),
        matching::Decision::Preset { include } => include.clone(),
        matching::Decision::Unlisted | matching::Decision::Unrestricted => String::new(),
        matching::Decision::NoHost(why) => pattern_rule(why).to_owned(),
    };
    if decision.is_allowed() {
        let value = Pattern::host(host).unwrap_or_default();
        Judgement::accept(rule, value, decision.to_string())
    } else {
        let without = allow.is_none() && policy.is_none() && matches!(decision, matching::Decision::Denied { .. });
        let why = if without { "; no policy was given, so no host is allowed: name one with --policy" } else { "" };
        Judgement { reason: None, ..Judgement::refuse("", rule, format!("{decision}{why}")) }
    }
}

fn command_of(command: &str, spec: &ExecutionPolicySpec) -> Judgement {
    let limit = spec.limits.command.bytes();
    if command.is_empty() {
        let message = "the command is empty: write at least one character";
        return Judgement::refuse(RunReason::InvalidSpec.as_str(), "Empty", message);
    }
    if command.contains('\0') {
        let message = "the command holds a NUL character, which no shell can carry: remove it";
        return Judgement::refuse(RunReason::InvalidSpec.as_str(), "Nul", message);
    }
    if command.len() as u64 > limit {
        let message = format!("the command has {} bytes, the policy allows {limit}: make it smaller", command.len());
        return Judgement::refuse(RunReason::LimitExceeded.as_str(), "Size", message);
    }
    let text = CommandText::new(command);
    match DenyList::new(&spec.commands.deny) {
        Ok(list) => {
            if let Some(denial) = list.denies(&text) {
                let message = format!("{denial}, which the policy denies");
                return Judgement::refuse(RunReason::BlockedCommand.as_str(), "Expression", message);
            }
        }
        Err(errors) => {
            let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
            let message = format!("the policy is not in force: {}", messages.join("; "));
            return Judgement::refuse(RunReason::PolicyNotReady.as_str(), "PolicyNotReady", message);
        }
    }
    if let Some(finding) = text.forbidden_target() {
        let judgement =
            Judgement::refuse(RunReason::BlockedCommand.as_str(), finding.zone.as_str(), finding.to_string());
        return Judgement { value: finding.address.clone().into(), ..judgement };
    }
    match text.unreadable() {
        Some(why) => Judgement::refuse(RunReason::BlockedCommand.as_str(), "Unreadable", why),
        None => Judgement::accept("", command.len() as u64, ""),
    }
}

fn file(text: &str) -> Judgement {
    match path::file(text) {
        Ok(resolved) => Judgement::accept("Workspace", resolved, ""),
        Err(error) => {
            let rule = match &error {
                PathError::Empty => "Empty",
                PathError::Nul => "Nul",
                PathError::Long(_) => "Length",
                PathError::Escape(_) => "Escape",
                PathError::Root(_) => "Root",
            };
            Judgement::refuse(error.reason().as_str(), rule, error.to_string())
        }
    }
}

fn variable(pair: &str, policy: Option<&ExecutionPolicySpec>) -> Judgement {
    let refuse = |rule, message| Judgement::refuse(RunReason::InvalidEnvironment.as_str(), rule, message);
    let Some((name, value)) = pair.split_once('=') else {
        return refuse("Form", "there is no `=`: write NAME=value".to_owned());
    };
    if let Err(error) = environment::check(name, value) {
        let rule = match &error {
            EnvironmentError::Name(_) => "Name",
            EnvironmentError::Reserved(_) => "Reserved",
            EnvironmentError::NotAllowed(_) => "NotAllowed",
            EnvironmentError::Twice(_) => "Twice",
            EnvironmentError::Nul(_) => "Nul",
            EnvironmentError::TooMany(_) => "TooMany",
            EnvironmentError::LongName(_) | EnvironmentError::LongValue(..) => "Length",
        };
        return refuse(rule, error.to_string());
    }
    let allowed = policy.is_none_or(|spec| spec.environment.allow.iter().any(|allowed| allowed == name));
    if !allowed {
        return refuse("NotAllowed", EnvironmentError::NotAllowed(name.to_owned()).to_string());
    }
    let message = if policy.is_none() { "if the policy allows it in environment.allow" } else { "" };
    Judgement::accept("Name", json!({"name": name, "value": value}), message)
}

fn redacted(text: &str) -> Judgement {
    let redacted = Redactor::default().redact(text);
    let rules: Vec<_> = redacted.hits.iter().map(|(rule, _)| rule.as_str()).collect();
    let masked = redacted.hits.total() > 0;
    Judgement {
        verdict: if masked { Verdict::Mask } else { Verdict::Keep },
        reason: None,
        rule: rules.join(","),
        value: redacted.text.into_owned().into(),
        message: if masked { format!("{} masked", redacted.hits.total()) } else { String::new() },
    }
}
