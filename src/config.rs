//! What the operator was started with.
//!
//! Must not read flags; `cli` does.

use std::{path::PathBuf, time::Duration};

use rules::session_name::{SecretError, SessionSecret};

/// What the operator was started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the operator's own objects are.
    pub operator_namespace: String,
    /// Who reports in Events: the name of the Pod.
    pub instance: String,
    /// UID that stands for this installation.
    pub installation: String,
    /// The policy of sessions that name none.
    pub default_policy: String,
    /// Policies outside of it do not exist for us.
    pub policy_selector: Option<String>,
    /// Whether policies may open egress.
    pub open_egress: bool,
    /// How long a Sprite must be absent before that is believed.
    pub absent_after: Duration,
    /// How long a create may still be on its way.
    pub create_grace: Duration,
    /// How often an awake Sprite is verified.
    pub verify_interval: Duration,
}

/// The session secret's file. Every read opens the file; a read happens once for each new Sprite.
#[derive(Debug, Clone)]
pub struct SecretFile(pub PathBuf);

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretProblem {
    /// Not readable.
    #[error("the session secret file cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// Not usable.
    #[error(transparent)]
    Content(#[from] SecretError),
}

impl SecretFile {
    /// The secret as it is now.
    pub fn read(&self) -> Result<SessionSecret, SecretProblem> {
        Ok(SessionSecret::new(&std::fs::read(&self.0)?)?)
    }
}
