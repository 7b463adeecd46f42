//! Sprites as the API describes them, and the bodies that ask for them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use super::error::Error;
use super::sanitize::ProviderText;

/// A Sprite, as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sprite {
    /// The instance: a new Sprite of the same name has another one. Never empty.
    pub id: String,
    /// The key of every call. Never empty.
    pub name: String,
    /// Whether it is awake.
    pub status: SpriteState,
    /// Where its HTTP port is reachable.
    pub url: Option<String>,
    /// Who may reach that URL.
    pub url_settings: UrlSettings,
    /// Plain strings. Empty when the service sent none.
    pub labels: Vec<String>,
    /// When this instance was made; `None` when missing or unreadable.
    pub created_at: Option<Timestamp>,
    /// Where it runs.
    pub region: Option<String>,
    /// The organisation's slug.
    pub organization: Option<String>,
    /// When this was read.
    pub(super) read_at: ReadAt,
}

/// When a Sprite was read. No part of what was read: two reads of an unchanged Sprite are equal.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadAt(Instant);

impl ReadAt {
    pub(super) fn get(self) -> Instant {
        self.0
    }
}

impl PartialEq for ReadAt {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ReadAt {}

/// Whether a Sprite is awake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpriteState {
    /// The machine is gone; files are kept. Waking takes seconds.
    Cold,
    /// Suspended with its memory. Waking takes some 100 ms.
    Warm,
    /// Awake, and paid for.
    Running,
    /// A word that we do not know, or none.
    Other(ProviderText),
}

/// What `auth` says of a URL that is not public.
const PRIVATE: &str = "sprite";

/// Who may reach a Sprite's URL. Absent fields are not sent, and left as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlSettings {
    /// `sprite` (the organisation only) or `public`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<String>,
    /// Narrows `sprite`: `admins` or `org_users`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_access: Option<String>,
}

impl UrlSettings {
    /// Whether the organisation alone reaches it.
    pub fn is_private(&self) -> bool {
        self.auth.as_deref() == Some(PRIVATE)
    }

    /// Reachable by the organisation's admins only.
    pub fn private() -> Self {
        Self { auth: Some(PRIVATE.to_owned()), private_access: Some("admins".to_owned()) }
    }

    fn is_empty(&self) -> bool {
        self.auth.is_none() && self.private_access.is_none()
    }
}

/// What a new Sprite is asked to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CreateSprite {
    /// A DNS label of at most 63 characters.
    pub name: String,
    /// Plain strings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Who may reach its URL.
    #[serde(skip_serializing_if = "UrlSettings::is_empty")]
    pub url_settings: UrlSettings,
    /// Sizes. The hosted service accepts and ignores them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<SpriteConfig>,
}

/// Sizes of a Sprite. Absent fields are the platform's choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpriteConfig {
    /// Memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram_mb: Option<u64>,
    /// Virtual CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// For example `iad`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Disk in GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_gb: Option<u64>,
}

/// A change of a Sprite. Absent fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UpdateSprite {
    /// Who may reach its URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_settings: Option<UrlSettings>,
    /// Replaces all labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
}

/// The wire's object: everything may be missing or null, and is checked afterwards.
#[derive(Deserialize)]
pub(super) struct WireSprite {
    id: Option<String>,
    name: Option<String>,
    status: Option<String>,
    url: Option<String>,
    url_settings: Option<UrlSettings>,
    labels: Option<Vec<String>>,
    created_at: Option<Value>,
    primary_region: Option<String>,
    region: Option<String>,
    config: Option<WireConfig>,
    organization: Option<String>,
    org_slug: Option<String>,
}

#[derive(Deserialize)]
struct WireConfig {
    region: Option<String>,
}

impl TryFrom<WireSprite> for Sprite {
    type Error = Error;

    fn try_from(wire: WireSprite) -> Result<Self, Error> {
        let not_empty = |text: &String| !text.is_empty();
        // Without the instance's id nothing can be proved about it, so such an answer is no answer.
        let id = wire.id.filter(not_empty).ok_or(Error::Protocol { what: "a Sprite with an id" })?;
        let name = wire.name.filter(not_empty).ok_or(Error::Protocol { what: "a Sprite with a name" })?;
        let from_config = wire.config.and_then(|config| config.region);
        Ok(Self {
            id,
            name,
            status: SpriteState::from(wire.status.unwrap_or_default().as_str()),
            url: wire.url.filter(not_empty),
            url_settings: wire.url_settings.unwrap_or_default(),
            labels: wire.labels.unwrap_or_default(),
            created_at: wire.created_at.as_ref().and_then(timestamp),
            region: wire.primary_region.or(wire.region).or(from_config).filter(not_empty),
            organization: wire.organization.or(wire.org_slug).filter(not_empty),
            read_at: ReadAt(Instant::now()),
        })
    }
}

impl From<&str> for SpriteState {
    fn from(word: &str) -> Self {
        match word {
            "cold" => Self::Cold,
            "warm" => Self::Warm,
            "running" => Self::Running,
            other => Self::Other(ProviderText::new(other, None)),
        }
    }
}

/// RFC 3339, or nothing.
pub(super) fn timestamp(value: &Value) -> Option<Timestamp> {
    value.as_str().and_then(|text| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Sprite, Error> {
        serde_json::from_value::<WireSprite>(value).unwrap().try_into()
    }

    #[test]
    fn a_recorded_sprite_is_read() {
        let sprite = read(json!({
            "id": "sprite-7b2c", "name": "so-1", "status": "warm", "organization": "acme", "url": "https://so-1-x.sprites.app",
            "url_settings": {"auth": "sprite", "private_access": "admins"}, "created_at": "2026-01-31T08:15:30.123456Z",
            "updated_at": "2026-01-31T08:15:30.123456Z", "version": null, "labels": ["a"], "config": {"region": "iad"},
            "new_field": {"x": 1},
        }))
        .unwrap();
        assert_eq!((sprite.id.as_str(), sprite.status), ("sprite-7b2c", SpriteState::Warm));
        assert_eq!(sprite.url_settings, UrlSettings::private());
        assert_eq!(sprite.region.as_deref(), Some("iad"));
        assert_eq!(sprite.created_at.unwrap().to_string(), "2026-01-31T08:15:30.123456Z");
    }

    #[rstest]
    #[case::no_id(json!({"name": "so-1"}))]
    #[case::null_id(json!({"id": null, "name": "so-1"}))]
    #[case::empty_id(json!({"id": "", "name": "so-1"}))]
    #[case::no_name(json!({"id": "sprite-1"}))]
    fn a_sprite_without_identity_is_not_accepted(#[case] value: Value) {
        assert!(matches!(read(value), Err(Error::Protocol { .. })));
    }

    #[test]
    fn what_may_be_missing_may_be_missing() {
        let sprite =
            read(json!({"id": "i", "name": "n", "labels": null, "url_settings": null, "created_at": "yesterday"}))
                .unwrap();
        assert_eq!(sprite.created_at, None);
        assert!(matches!(sprite.status, SpriteState::Other(_)));
    }

    #[test]
    fn absent_options_are_not_sent() {
        let create = CreateSprite { name: "so-1".to_owned(), ..CreateSprite::default() };
        assert_eq!(serde_json::to_value(create).unwrap(), json!({"name": "so-1"}));
        assert_eq!(serde_json::to_value(UpdateSprite::default()).unwrap(), json!({}));
        // `labels: []` clears them, which is something else than leaving them.
        let clear = UpdateSprite { labels: Some(vec![]), ..UpdateSprite::default() };
        assert_eq!(serde_json::to_value(clear).unwrap(), json!({"labels": []}));
    }
}
