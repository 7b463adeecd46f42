//! A Sprite's life: create, read, list, change, restart, delete. None of these wakes it.

use std::collections::HashSet;
use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;

use super::awake::Awake;
use super::call::CallKind;
use super::client::Client;
use super::error::Error;
use super::http::Call;
use super::response::Subject;
use super::sanitize::ProviderText;
use super::types::{CreateSprite, Sprite, UpdateSprite, WireSprite};

/// The documented maximum of one page.
const PAGE: &str = "50";
/// 50,000 Sprites: an account larger than that is a server that does not end.
const MAX_PAGES: usize = 1000;
const RESTART_TIMEOUT: Duration = Duration::from_mins(1);
const SPRITE: &str = "a Sprite object";

#[derive(Deserialize)]
struct Page {
    sprites: Vec<WireSprite>,
    has_more: Option<bool>,
    next_continuation_token: Option<String>,
}

/// The Sprite that a change is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    name: &'a str,
    id: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// Whichever instance has this name.
    pub fn any(name: &'a str) -> Self {
        Self { name, id: None }
    }

    /// This instance: its id is read immediately before the call, and another one is [`Error::Replaced`]. The wire knows no
    /// precondition, so the time between that read and the call (one round trip) remains.
    pub fn instance(name: &'a str, id: &'a str) -> Self {
        Self { name, id: Some(id) }
    }
}

impl<'a> From<&'a Sprite> for Target<'a> {
    fn from(sprite: &'a Sprite) -> Self {
        Self::instance(&sprite.name, &sprite.id)
    }
}

impl<'a> From<&'a Awake> for Target<'a> {
    fn from(awake: &'a Awake) -> Self {
        Self::instance(awake.name(), awake.id())
    }
}

impl Client {
    fn for_target<'a>(&'a self, kind: CallKind, method: Method, target: Target<'_>) -> Result<Call<'a>, Error> {
        let call = self.call(kind, method, self.sprite_url(target.name, &[])?, Subject::Sprite);
        Ok(match target.id {
            Some(id) => call.only(target.name, id),
            None => call,
        })
    }

    /// Reads one Sprite. Does not wake it.
    pub async fn get(&self, name: &str) -> Result<Sprite, Error> {
        let url = self.sprite_url(name, &[])?;
        let wire: WireSprite = self.call(CallKind::Get, Method::GET, url, Subject::Sprite).send_for(SPRITE).await?;
        same_name(name, wire.try_into()?)
    }

    /// Asks for a new Sprite. A name that exists is [`Error::Busy`]. The Sprite need not be awake when this returns.
    pub async fn create(&self, create: &CreateSprite) -> Result<Sprite, Error> {
        // Checked like every other name, though it stands in the body here.
        self.sprite_url(&create.name, &[])?;
        let call = self.call(CallKind::Create, Method::POST, self.url(&[])?, Subject::Other).json(create);
        let wire: WireSprite = call.timeout(self.config().create_timeout).send_for(SPRITE).await?;
        same_name(&create.name, wire.try_into()?)
    }

    /// All Sprites whose names begin with `prefix`, page by page. Wakes none. An error on any page is an error of the whole:
    /// half a list would look like missing Sprites.
    pub async fn list(&self, prefix: &str) -> Result<Vec<Sprite>, Error> {
        let mut sprites = Vec::new();
        let mut seen = HashSet::new();
        let mut next: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let mut pairs = vec![("prefix", prefix), ("max_results", PAGE)];
            pairs.extend(next.as_deref().map(|token| ("continuation_token", token)));
            let call = self.call(CallKind::List, Method::GET, self.url(&[])?, Subject::Other).query(pairs);
            let page: Page = call.send_for("a page of Sprites").await?;
            for wire in page.sprites {
                let sprite = Sprite::try_from(wire)?;
                // Should a server ignore the prefix, others' Sprites are none of our business.
                if sprite.name.starts_with(prefix) {
                    sprites.push(sprite);
                }
            }
            // The service was seen to say `has_more: true` with no token, even of an empty list.
            match page.next_continuation_token.filter(|token| !token.is_empty()) {
                Some(token) if page.has_more != Some(false) => {
                    if !seen.insert(token.clone()) {
                        return Err(Error::Protocol { what: "a list that ends" });
                    }
                    next = Some(token);
                }
                Some(_) | None => return Ok(sprites),
            }
        }
        Err(Error::Protocol { what: "a list that ends" })
    }

    /// Changes labels or URL settings. Does not wake it.
    pub async fn update(&self, target: Target<'_>, update: &UpdateSprite) -> Result<Sprite, Error> {
        let call = self.for_target(CallKind::Update, Method::PUT, target)?.json(update);
        let wire: WireSprite = call.send_for(SPRITE).await?;
        let sprite = same_name(target.name, wire.try_into()?)?;
        match target.id.filter(|id| *id != sprite.id) {
            Some(_) => Err(Error::Replaced { instance: ProviderText::new(&sprite.id, None), sent: true }),
            None => Ok(sprite),
        }
    }

    /// Destroys a Sprite. [`Error::Absent`] when there is none.
    pub async fn delete(&self, target: Target<'_>) -> Result<(), Error> {
        self.for_target(CallKind::Delete, Method::DELETE, target)?.send().await.map(drop)
    }

    /// Restarts the machine: every process is gone afterwards, files and rules stay. May take a minute.
    pub async fn restart(&self, on: &Awake) -> Result<(), Error> {
        let call = self.call_in(on, CallKind::Restart, Method::POST, &["restart"], Subject::Other)?;
        call.timeout(RESTART_TIMEOUT).send().await.map(drop)
    }
}

/// An answer about another Sprite than the one asked for is no answer.
fn same_name(name: &str, sprite: Sprite) -> Result<Sprite, Error> {
    if sprite.name == name { Ok(sprite) } else { Err(Error::Protocol { what: "the Sprite that was asked for" }) }
}
