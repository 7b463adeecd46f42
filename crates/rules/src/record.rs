//! The audit record and its chain: one line of canonical JSON (RFC 8785) a record, each with the hash of the one before and its
//! own (SHA3-256, lower-case hex), so that loss, change, insertion and duplication are seen by whoever knows where it ends.
//!
//! Must not know where records are kept, nor the time: both come as arguments. Never holds file contents.

mod verify;

use serde::{Deserialize, Serialize};
use sha3::{Digest as _, Sha3_256};
use thiserror::Error;

pub use verify::{Anchor, Break, Fault, Verified, verify};

/// The longest code that is kept, in characters.
pub const CODE_MAX: usize = 4000;
/// The hash before the first record there ever was.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// The largest integer that RFC 8785 writes exactly: numbers are IEEE 754 doubles there.
const EXACT: i64 = (1 << 53) - 1;

/// Code as it is recorded: redacted first, cut afterwards. Characters that turn or hide what a reader sees stand as
/// `\u{202e}` and the like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Code {
    /// The first [`CODE_MAX`] characters.
    pub text: String,
    /// Whether there was more.
    pub truncated: bool,
}

impl Code {
    /// Cuts text that was redacted already.
    pub fn of_redacted(text: &str) -> Self {
        let mut kept = String::new();
        for character in text.chars().take(CODE_MAX) {
            if steers_display(character) {
                kept.extend(character.escape_unicode());
            } else {
                kept.push(character);
            }
        }
        Self { text: kept, truncated: text.chars().nth(CODE_MAX).is_some() }
    }
}

/// Invisible characters that turn or hide what a reader sees.
fn steers_display(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Who is meant by a claim or a stamp.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Principal {
    /// The name, exactly as the API server has it.
    pub user: String,
    /// Its UID, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// A policy, as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyVersion {
    /// Its name.
    pub name: String,
    /// Its `metadata.generation`.
    pub generation: i64,
}

/// What was decided about a Run, or found about a session. Absent fields are absent in the JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Event {
    /// `<run uid>/<decision>`; unique in a chain.
    pub id: String,
    /// RFC 3339 with milliseconds.
    pub time: String,
    /// On whose behalf.
    pub actor: Principal,
    /// Who created the Run.
    pub creator: String,
    /// The agent that asked, if one did: a ServiceAccount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Who cancelled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<String>,
    /// The tenant.
    pub namespace: String,
    /// What was worked on.
    pub drive: String,
    /// The conversation, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The session, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sprite: Option<String>,
    /// The policy that held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyVersion>,
    /// The lockdown token that was proved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// `bash`, `writeFile`, `readFile` or `editFile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The command; for a file operation its path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// What was decided: the phase, for example `Denied`.
    pub decision: String,
    /// Why: the reason of the status.
    pub reason: String,
    /// Exit code of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// How the end is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// How long it ran, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// What it cost, in millionths of a US dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "costMicroUSD")]
    pub cost_micro_usd: Option<i64>,
    /// What is out of the ordinary about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anomaly: Option<String>,
    /// How many of the same kind this one stands for, if more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Entry {
    /// A process begins to write here, and from where it goes on.
    Segment {
        /// RFC 3339 with milliseconds.
        time: String,
        /// The process.
        writer: String,
        /// The sequence of the anchor that it continues from; 0: there was none.
        continues: i64,
    },
    /// An event.
    Event(Box<Event>),
}

/// One record of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// 1 for the first there ever was, then one more each.
    pub sequence: i64,
    /// The hash of the record before, [`GENESIS`] for the first.
    pub previous: String,
    /// What it says.
    #[serde(flatten)]
    pub entry: Entry,
}

/// Why a record cannot be written. It is a bug, not a doubt: nothing of a user's leads here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordError {
    /// A number that RFC 8785 would round.
    #[error("a number is beyond 2^53-1: {0}")]
    Inexact(i64),
    /// It has no canonical form.
    #[error("the record has no canonical form")]
    Form,
}

/// Where a chain ends: what the next record is tied to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The sequence of the last record; 0 before the first.
    pub sequence: i64,
    /// Its hash.
    pub hash: String,
}

impl Default for Head {
    fn default() -> Self {
        Self { sequence: 0, hash: GENESIS.to_owned() }
    }
}

impl Head {
    /// The line of the next record, without a newline, and the head after it.
    pub fn append(&self, entry: Entry) -> Result<(String, Self), RecordError> {
        let record = Record { sequence: self.sequence + 1, previous: self.hash.clone(), entry };
        record.check()?;
        let body = canonical(&record)?;
        let hash = hash(body.as_bytes());
        // The hash stands in the line as one field more, in its canonical place.
        let mut fields: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&body).map_err(|_| RecordError::Form)?;
        fields.insert(HASH.to_owned(), hash.clone().into());
        Ok((canonical(&fields)?, Self { sequence: record.sequence, hash }))
    }
}

impl Record {
    fn check(&self) -> Result<(), RecordError> {
        let mut numbers = vec![self.sequence];
        match &self.entry {
            Entry::Segment { continues, .. } => numbers.push(*continues),
            Entry::Event(event) => {
                numbers.extend(event.policy.as_ref().map(|policy| policy.generation));
                numbers.extend([event.duration_ms, event.cost_micro_usd, event.count].into_iter().flatten());
            }
        }
        match numbers.into_iter().find(|number| !(-EXACT..=EXACT).contains(number)) {
            Some(number) => Err(RecordError::Inexact(number)),
            None => Ok(()),
        }
    }
}

/// The field that a record's own hash stands in.
const HASH: &str = "hash";

fn canonical(value: &impl Serialize) -> Result<String, RecordError> {
    serde_json_canonicalizer::to_string(value).map_err(|_| RecordError::Form)
}

fn hash(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha3_256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests;
