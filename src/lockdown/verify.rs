//! Whether a command may start on the live Sprite. Pure.
//!
//! The live instance must be the recorded one, ours, private, and hold exactly the demanded rules. Must not read.

use super::instance::LiveSprite;
use api::SandboxSession;
use rules::{
    egress::{ReadRule, Ruleset, compare},
    lockdown::Token,
};

/// What is proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The token, as recorded and as it is live.
    pub token: String,
    /// The instance.
    pub instance: String,
    /// The nonce of the instance.
    pub nonce: String,
    /// Its name.
    pub name: String,
}

/// What a session has on record, if it is enough to start on.
pub fn recorded(session: &SandboxSession, demanded: &Ruleset) -> Result<Proof, String> {
    let status = session.status.as_ref();
    let sprite = status.and_then(|s| s.sprite.as_ref());
    let lockdown = status.and_then(|s| s.lockdown.as_ref());
    let (Some(sprite), Some(lockdown)) = (sprite, lockdown) else { return Err("no Sprite is locked down".to_owned()) };
    let (Some(id), Some(token), Some(nonce)) = (&sprite.id, &lockdown.token, &lockdown.nonce) else {
        return Err("the lockdown is not proved".to_owned());
    };
    let expected = Token { instance: id.clone(), egress: demanded.hash().to_owned() }.to_string();
    if *token != expected {
        return Err("the recorded lockdown is for another instance or other rules".to_owned());
    }
    Ok(Proof { token: expected, instance: id.clone(), nonce: nonce.clone(), name: sprite.name.clone() })
}

/// Whether the live Sprite is what is on record.
pub fn prove(proof: &Proof, demanded: &Ruleset, live: &LiveSprite, rules: &[ReadRule]) -> Result<(), String> {
    if live.id != proof.instance {
        return Err("the live Sprite is another instance than the one on record".to_owned());
    }
    if !live.ours {
        return Err("the live Sprite does not carry our labels".to_owned());
    }
    if !live.private {
        return Err("the live Sprite's URL is not private".to_owned());
    }
    let found = compare(demanded.rules(), rules);
    if found.is_equal() { Ok(()) } else { Err(format!("the live rules differ: {}", found.differences.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{SandboxSessionSpec, reasons::SpritePhase, sandbox_session::*};
    use rstest::rstest;
    use rules::egress::Rule;

    fn session(id: &str, token: Option<String>) -> SandboxSession {
        let spec: SandboxSessionSpec = serde_json::from_str(r#"{"drive": "d", "conversation": "c"}"#).unwrap();
        let mut session = SandboxSession::new("s", spec);
        session.status = Some(SandboxSessionStatus {
            sprite: Some(SpriteStatus { name: "so-x".into(), id: Some(id.into()), ..SpriteStatus::default() }),
            lockdown: Some(LockdownStatus { token, nonce: Some("n".into()), ..LockdownStatus::default() }),
            ..SandboxSessionStatus::default()
        });
        session
    }

    fn token(id: &str) -> String {
        format!("{id}:{}", Ruleset::deny_all().hash())
    }

    fn live() -> LiveSprite {
        LiveSprite {
            id: "i".into(),
            ours: true,
            state: Some(SpritePhase::Running),
            url: None,
            private: true,
            region: None,
            rules: None,
        }
    }

    #[rstest]
    #[case(session("i", Some(token("i"))), true)]
    #[case(session("i", Some(token("other"))), false)]
    #[case(session("i", None), false)]
    #[case(session("i", Some("i:0000".into())), false)]
    fn only_a_token_of_this_instance_and_these_rules_counts(#[case] session: SandboxSession, #[case] good: bool) {
        assert_eq!(recorded(&session, &Ruleset::deny_all()).is_ok(), good);
    }

    #[test]
    fn the_live_sprite_must_be_exactly_what_is_on_record() {
        let demanded = Ruleset::deny_all();
        let proof = recorded(&session("i", Some(token("i"))), &demanded).unwrap();
        let read = |rule: &Rule| ReadRule { rule: rule.clone(), unknown: Vec::new() };
        let rules: Vec<_> = demanded.rules().iter().map(read).collect();
        assert_eq!(prove(&proof, &demanded, &live(), &rules), Ok(()));
        let mut extra = rules.clone();
        extra.push(read(&Rule { action: Some("allow".into()), domain: Some("example.com".into()), include: None }));
        for (name, live, rules) in [
            ("instance", LiveSprite { id: "j".into(), ..live() }, &rules),
            ("labels", LiveSprite { ours: false, ..live() }, &rules),
            ("url", LiveSprite { private: false, ..live() }, &rules),
            ("a rule more", live(), &extra),
            ("no rules: unrestricted", live(), &Vec::new()),
        ] {
            assert!(prove(&proof, &demanded, &live, rules).is_err(), "{name}");
        }
    }
}
