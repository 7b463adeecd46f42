//! A live Sprite, in the words of the rules. Pure.

use api::reasons::SpritePhase;
use rules::{egress::ReadRule, lockdown::LiveInstance};
use sprites::{Sprite, SpriteState};

/// A live Sprite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveSprite {
    /// Instance id.
    pub id: String,
    /// Whether it carries all of our labels for this session.
    pub ours: bool,
    /// Its state; nothing when the platform said something new.
    pub state: Option<SpritePhase>,
    /// Its URL.
    pub url: Option<String>,
    /// Whether its URL is private.
    pub private: bool,
    /// Where it is.
    pub region: Option<String>,
    /// Its rules, when they were read.
    pub rules: Option<Vec<ReadRule>>,
}

impl LiveSprite {
    /// What the platform's answer means for us.
    pub fn of(sprite: Sprite, labels: &[String; 3]) -> Self {
        Self {
            ours: labels.iter().all(|label| sprite.labels.contains(label)),
            state: match sprite.status {
                SpriteState::Cold => Some(SpritePhase::Cold),
                SpriteState::Warm => Some(SpritePhase::Warm),
                SpriteState::Running => Some(SpritePhase::Running),
                SpriteState::Other(_) => None,
            },
            private: sprite.url_settings.is_private(),
            url: sprite.url,
            region: sprite.region,
            id: sprite.id,
            rules: None,
        }
    }
}

impl LiveSprite {
    /// As the verdict on a lockdown takes it.
    pub fn as_read(&self) -> LiveInstance<'_> {
        LiveInstance { id: &self.id, ours: self.ours, private: self.private, rules: self.rules.as_deref() }
    }
}
