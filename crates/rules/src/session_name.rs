//! Names that are computed: of a Sprite, of a session, of labels; and the secret they need.
//!
//! Computed from stable inputs, so that "create" can mean "create or adopt exactly mine". Must not read the secret from
//! anywhere: it is handed in.

use api::run::SessionSelector;
use hmac::{KeyInit, Mac, SimpleHmac};
use secrecy::{ExposeSecret, SecretBox};
use sha3::{Digest, Sha3_256};
use thiserror::Error;

use super::egress::hex;

/// Name of the session that a Run with this UID selects.
pub fn selected(selector: &SessionSelector, run_uid: &str) -> String {
    match (&selector.name, &selector.drive, &selector.conversation) {
        (Some(name), _, _) => name.clone(),
        (None, Some(drive), Some(conversation)) => conversation_session(drive, conversation),
        (None, _, _) => run_session(run_uid),
    }
}

/// Shortest usable secret, in bytes: the security level of SHA3-256.
pub const SECRET_MIN: usize = 32;

/// Why a secret cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SecretError {
    /// Too few bytes once a trailing newline is gone.
    #[error("the session secret has {0} bytes: write at least 32 random bytes")]
    TooShort(usize),
}

/// The session secret.
pub struct SessionSecret(SecretBox<[u8]>);

impl std::fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionSecret(…)")
    }
}

impl SessionSecret {
    /// Takes the content of a secret file; one trailing newline does not count.
    pub fn new(content: &[u8]) -> Result<Self, SecretError> {
        let trimmed = content.strip_suffix(b"\n").unwrap_or(content);
        if trimmed.len() < SECRET_MIN {
            return Err(SecretError::TooShort(trimmed.len()));
        }
        Ok(Self(SecretBox::from(trimmed.to_vec().into_boxed_slice())))
    }
}

/// Who a session is; what the name of its Sprite is made from.
#[derive(Debug, Clone, Copy)]
pub struct SessionKey<'a> {
    /// The tenant.
    pub namespace: &'a str,
    /// The drive.
    pub drive: &'a str,
    /// The conversation.
    pub conversation: &'a str,
    /// UID of the `SandboxSession`: another object of the same name is another session.
    pub uid: &'a str,
}

/// Why a name cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// A component is empty.
    #[error("{0} is empty")]
    Empty(&'static str),
    /// A component holds the separator.
    #[error("{0} holds a NUL character")]
    Nul(&'static str),
}

/// The 8 hex digits that stand for an installation: the head of the SHA3-256 of its id.
pub fn installation_digest(installation: &str) -> String {
    hex(&Sha3_256::digest(installation.as_bytes())).chars().take(8).collect()
}

/// The Sprite's name: `so-<8 hex of the installation>-<32 hex of the HMAC>`, 44 characters, so that its URL label fits 63.
pub fn sprite_name(secret: &SessionSecret, installation: &str, key: SessionKey<'_>) -> Result<String, NameError> {
    let SessionKey { namespace, drive, conversation, uid } = key;
    let parts = [
        ("the version", "sandbox-session:v1"),
        ("the installation id", installation),
        ("the namespace", namespace),
        ("spec.drive", drive),
        ("spec.conversation", conversation),
        ("metadata.uid", uid),
    ];
    for (name, value) in parts {
        if value.is_empty() {
            return Err(NameError::Empty(name));
        }
        if value.contains('\0') {
            return Err(NameError::Nul(name));
        }
    }
    let message = parts.map(|(_, value)| value).join("\0");
    // HMAC takes a key of any length; the error type is only for other MACs.
    let Ok(mut mac) = SimpleHmac::<Sha3_256>::new_from_slice(secret.0.expose_secret()) else {
        return Err(NameError::Empty("the session secret"));
    };
    mac.update(message.as_bytes());
    let digest: String = hex(&mac.finalize().into_bytes()).chars().take(32).collect();
    Ok(format!("so-{}-{digest}", installation_digest(installation)))
}

/// The labels that make a Sprite ours, and this session's.
pub fn sprite_labels(installation: &str, namespace: &str, uid: &str) -> [String; 3] {
    let namespace: String = hex(&Sha3_256::digest(namespace.as_bytes())).chars().take(16).collect();
    [format!("so-inst-{}", installation_digest(installation)), format!("so-ns-{namespace}"), format!("so-uid-{uid}")]
}

/// The name of the session of a drive and a conversation: `c-` and 32 hex of SHA3-256(drive NUL conversation).
pub fn conversation_session(drive: &str, conversation: &str) -> String {
    let mut digest = Sha3_256::new();
    digest.update(drive.as_bytes());
    digest.update(b"\0");
    digest.update(conversation.as_bytes());
    format!("c-{}", hex(&digest.finalize()).chars().take(32).collect::<String>())
}

/// What stands for a user where a name or a label is needed: 32 hex of SHA3-256. User names are opaque and of any length.
pub fn user_digest(user: &str) -> String {
    hex(&Sha3_256::digest(user.as_bytes())).chars().take(32).collect()
}

/// The name of the session that a Run has of its own.
pub fn run_session(run_uid: &str) -> String {
    format!("run-{run_uid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> SessionSecret {
        SessionSecret::new(&[7u8; 32]).unwrap()
    }

    fn key<'a>(namespace: &'a str, drive: &'a str, conversation: &'a str) -> SessionKey<'a> {
        SessionKey { namespace, drive, conversation, uid: "uid-1" }
    }

    #[test]
    fn a_name_is_stable_and_fits_a_url_label() {
        let name = sprite_name(&secret(), "inst", key("team-a", "research", "conv-42")).unwrap();
        assert_eq!(name, "so-0a57ae4e-70254291ba9775379200a7fb92b97fd7");
        assert_eq!(name.len(), 44);
        assert_eq!(run_session("uid-1"), "run-uid-1");
    }

    #[test]
    fn digests_are_the_first_half_of_sha3() {
        // As `hashlib.sha3_256` of Python gives them.
        assert_eq!(user_digest("alice"), "a7dcef9aef26202fce82a7c7d6672afb");
        assert_eq!(conversation_session("research", "conv-42"), "c-f21e7ae03a09a2fb6636c806b8682398");
    }

    #[test]
    fn components_cannot_run_into_each_other() {
        let name = |k| sprite_name(&secret(), "inst", k).unwrap();
        assert_ne!(name(key("a-b", "c", "x")), name(key("a", "b-c", "x")));
        assert_ne!(name(key("a", "b:c", "x")), name(key("a:b", "c", "x")));
        assert_ne!(conversation_session("a", "bc"), conversation_session("ab", "c"));
        let other_uid = SessionKey { uid: "uid-2", ..key("a", "b", "c") };
        assert_ne!(name(key("a", "b", "c")), name(other_uid), "a new object of the same name is another session");
    }

    #[test]
    fn a_component_may_not_be_empty_or_hold_the_separator() {
        assert_eq!(sprite_name(&secret(), "inst", key("a", "", "c")), Err(NameError::Empty("spec.drive")));
        assert_eq!(sprite_name(&secret(), "inst", key("a", "b", "c\0d")), Err(NameError::Nul("spec.conversation")));
    }

    #[test]
    fn a_short_secret_is_none_and_one_newline_does_not_count() {
        assert_eq!(SessionSecret::new(&[1u8; 31]).unwrap_err(), SecretError::TooShort(31));
        let mut short = vec![1u8; 31];
        short.push(b'\n');
        assert_eq!(SessionSecret::new(&short).unwrap_err(), SecretError::TooShort(31));
        let mut long = vec![7u8; 32];
        long.push(b'\n');
        let trimmed = SessionSecret::new(&long).unwrap();
        let (a, b) = (sprite_name(&trimmed, "i", key("a", "b", "c")), sprite_name(&secret(), "i", key("a", "b", "c")));
        assert_eq!(a, b);
        assert_eq!(format!("{trimmed:?}"), "SessionSecret(…)");
    }
}
