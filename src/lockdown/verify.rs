//! What a session has on record of its lockdown, for a start. Pure.
//!
//! The verdict itself is `rules::lockdown::assess`. Must not read.

use super::runner;
use api::SandboxSession;
use rules::{
    egress::Ruleset,
    lockdown::{ApplyReason, Assessment, Demanded, LiveInstance, Recorded, assess},
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

impl Proof {
    /// The verdict on the live Sprite.
    pub fn assess(&self, demanded: &Ruleset, live: LiveInstance<'_>) -> Assessment {
        let Self { token, instance, nonce: _, name: _ } = self;
        // The runner was compared when this was made of the record.
        let demanded = Demanded { rules: demanded, runner: runner::hash() };
        let recorded =
            Recorded { instance: Some(instance), token: Some(token), runner: Some(demanded.runner), fresh: false };
        assess(Some(demanded), recorded, Some(live))
    }
}

/// What a session has on record, if it is enough to start on.
pub fn recorded(session: &SandboxSession, demanded: &Ruleset) -> Result<Proof, String> {
    let status = session.status.as_ref();
    let sprite = status.and_then(|s| s.sprite.as_ref());
    let lockdown = status.and_then(|s| s.lockdown.as_ref());
    let (Some(sprite), Some(lockdown)) = (sprite, lockdown) else {
        return Err(ApplyReason::InstanceUnknown.message().to_owned());
    };
    let demanded = Demanded { rules: demanded, runner: runner::hash() };
    let recorded = Recorded {
        instance: sprite.id.as_deref(),
        token: lockdown.token.as_deref(),
        runner: lockdown.runner.as_deref(),
        fresh: false,
    };
    let token = match assess(Some(demanded), recorded, None) {
        Assessment::Holds { token, .. } => token,
        Assessment::Apply(reason) => return Err(reason.message().to_owned()),
        Assessment::Lost(difference) => return Err(difference.to_string()),
    };
    let Some(nonce) = lockdown.nonce.clone() else { return Err(ApplyReason::NoToken.message().to_owned()) };
    let instance = token.instance().to_owned();
    Ok(Proof { token: token.to_string(), instance, nonce, name: sprite.name.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{SandboxSessionSpec, sandbox_session::*};
    use rstest::rstest;

    fn session(id: &str, token: Option<String>, nonce: Option<&str>) -> SandboxSession {
        let spec: SandboxSessionSpec = serde_json::from_str(r#"{"drive": "d", "conversation": "c"}"#).unwrap();
        let mut session = SandboxSession::new("s", spec);
        let nonce = nonce.map(str::to_owned);
        session.status = Some(SandboxSessionStatus {
            sprite: Some(SpriteStatus { name: "so-x".into(), id: Some(id.into()), ..SpriteStatus::default() }),
            lockdown: Some(LockdownStatus {
                token,
                nonce,
                runner: Some(runner::hash().to_owned()),
                ..LockdownStatus::default()
            }),
            ..SandboxSessionStatus::default()
        });
        session
    }

    fn token(id: &str) -> String {
        format!("{id}:{}", Ruleset::deny_all().hash())
    }

    #[rstest]
    #[case(session("i", Some(token("i")), Some("n")), true)]
    #[case(session("i", Some(token("other")), Some("n")), false)]
    #[case(session("i", None, Some("n")), false)]
    #[case(session("i", Some("i:0000".into()), Some("n")), false)]
    #[case(session("i", Some(token("i")), None), false)]
    fn only_a_token_of_this_instance_and_these_rules_counts(#[case] session: SandboxSession, #[case] good: bool) {
        assert_eq!(recorded(&session, &Ruleset::deny_all()).is_ok(), good);
    }

    #[rstest]
    #[case::of_an_operator_without_one(None)]
    #[case::another(Some("0".repeat(64)))]
    fn nothing_starts_on_another_runner(#[case] runner: Option<String>) {
        let mut session = session("i", Some(token("i")), Some("n"));
        session.status.as_mut().unwrap().lockdown.as_mut().unwrap().runner = runner;
        let why = recorded(&session, &Ruleset::deny_all()).unwrap_err();
        assert_eq!(why, ApplyReason::RunnerDiffers.message());
    }
}
