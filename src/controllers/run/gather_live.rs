//! Reads the live Sprite of a Run that could start: the Sprite, and its rules where it is awake.
//!
//! Must not decide, and changes nothing: a Sprite that sleeps is left asleep.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{execution::proved::Proved, observed::LiveRead};
use crate::{
    controllers::{context::Context, state::shared_reads},
    kubernetes::object_key::ObjectKey,
    lockdown::{egress_rule, instance::LiveSprite, verify::Proof},
};
use rules::session_name;
use sprites::{Awake, Priority};

/// How long the reads of a proof may take: with the second that they may be shared for, well below what it is good for.
const READ_WITHIN: Duration = Duration::from_millis(1500);

/// Reads the live Sprite and its rules, both at once where it was seen awake a moment ago. With rules comes what a start rests on.
pub async fn live(context: &Context, session: &ObjectKey, proof: &Proof) -> (LiveRead, Option<Proved>) {
    // A shared read may have begun before we asked for it.
    let began = Instant::now().checked_sub(shared_reads::SHARED).unwrap_or_else(Instant::now);
    let name = &proof.name;
    let labels = session_name::sprite_labels(&context.settings.installation, &session.namespace, &session.uid);
    // What was not read by then would be too old to start on.
    let sprites = context.sprites.with_priority(Priority::Lockdown).within(READ_WITHIN);
    let (reading, wanted) = (sprites.clone(), name.clone());
    let read_sprite =
        context.reads.sprites.get(name.clone(), move || async move { reading.get(&wanted).await.map(Arc::new) });
    let read_rules = |on: Awake| {
        let sprites = sprites.clone();
        context.reads.rules.get(name.clone(), move || async move { sprites.network_policy(&on).await.map(Arc::new) })
    };
    let (sprite, rules) = match context.reads.awake.of(name, &proof.instance) {
        Some(on) => {
            let (sprite, rules) = tokio::join!(read_sprite, read_rules(on));
            (sprite, Some(rules))
        }
        None => (read_sprite.await, None),
    };
    let no_answer = |what: &str, error: &sprites::Error| {
        (LiveRead::NoAnswer(format!("the platform gave no answer about {what} ({})", error.kind())), None)
    };
    let sprite = match sprite {
        Ok(sprite) => sprite,
        Err(error) => return no_answer("the Sprite", &error),
    };
    let live = LiveSprite::of(sprite.as_ref().clone(), &labels);
    let Some(on) = sprite.awake().filter(|_| live.id == proof.instance && live.ours) else {
        return (LiveRead::Sprite(live), None);
    };
    context.reads.awake.record(on.clone());
    let rules = match rules {
        Some(rules) => rules,
        None => read_rules(on.clone()).await,
    };
    match rules {
        Ok(rules) => {
            let rules = Some(rules.iter().cloned().map(egress_rule::read).collect());
            (LiveRead::Sprite(LiveSprite { rules, ..live }), Some(Proved { at: began, on }))
        }
        Err(error) => no_answer("the rules", &error),
    }
}
