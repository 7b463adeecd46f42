//! What becomes of a session and its Sprite.

use api::SandboxSession;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use rules::session_name::{SessionKey, SessionSecret, sprite_name};
use serde_json::json;

use test_support::{
    TestEnv,
    environment::{condition, message, phase, reason, stdout, until},
};

fn ready_reason(session: &SandboxSession) -> &str {
    session.status.as_ref().and_then(|s| s.conditions.get("Ready")).map_or("", |c| c.reason.as_str())
}

fn sprite(session: &SandboxSession) -> api::sandbox_session::SpriteStatus {
    session.status.clone().unwrap().sprite.unwrap()
}

#[tokio::test]
async fn a_session_owns_one_private_locked_sprite_with_our_labels() {
    let env = TestEnv::new().await;
    let session = env.ready_session("s1").await;
    let living = env.living().await;
    assert_eq!(living.len(), 1);
    let (_, live) = env.sprites_call("GET", &format!("/v1/sprites/{}", sprite(&session).name), None).await;
    assert_eq!(live["url_settings"], json!({"auth": "sprite", "private_access": "admins"}));
    let labels = live["labels"].as_array().unwrap();
    assert!(labels.iter().any(|l| l == &json!(format!("so-uid-{}", session.uid().unwrap()))));
    let policy = format!("/v1/sprites/{}/policy/network", sprite(&session).name);
    let (_, rules) = env.sprites_call("GET", &policy, None).await;
    assert_eq!(rules["rules"], json!([{"domain": "*", "action": "deny"}]));
    let lockdown = session.status.as_ref().unwrap().lockdown.clone().unwrap();
    let token = format!("{}:{}", sprite(&session).id.unwrap(), lockdown.egress_hash.unwrap());
    assert_eq!(lockdown.token, Some(token));
    assert_eq!(sprite(&session).name.len(), 44);
}

#[tokio::test]
async fn rules_that_read_back_with_one_more_start_nothing_and_the_session_says_why() {
    let mut env = TestEnv::prepared().await;
    env.policy(&format!("default-{}", env.id), json!({"limits": {"start": "8s"}})).await;
    env.start_spritesd();
    env.faults(json!([{"route": "policy.get", "effect": "policy-readback-differs"}])).await;
    env.start_operator();
    env.session("s1", json!({})).await;
    env.bash("r1", "s1", "echo never").await;
    let session = env.session_until("s1", |s| ready_reason(s) == "RulesDiffer").await;
    let said = &session.status.as_ref().unwrap().conditions.get("LockedDown").unwrap().message;
    assert!(said.contains("not demanded: allow"), "{said}");
    assert_eq!(session.status.as_ref().unwrap().lockdown.as_ref().unwrap().token, None);
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Failed", "StartDeadlineExceeded"), "{}", message(&run));
    assert_eq!(env.starts_of(&run).await, 0);
    // A fresh instance that cannot be locked is destroyed and made anew: never two at once.
    assert!(env.living().await.len() <= 1);
    env.faults(json!([])).await;
    env.session_until("s1", |s| condition(s, "Ready") == Some("True")).await;
}

#[tokio::test]
async fn a_proof_that_fails_on_the_live_sprite_starts_nothing_until_it_is_relocked() {
    let env = TestEnv::new().await;
    let session = env.ready_session("s1").await;
    let path = format!("/v1/sprites/{}/policy/network", sprite(&session).name);
    let open = json!({"rules": [{"domain": "*", "action": "deny"}, {"domain": "example.com", "action": "allow"}]});
    assert_eq!(env.sprites_call("POST", &path, Some(open)).await.0, 204);
    env.bash("r1", "s1", "echo locked").await;
    let run = env.finished("r1").await;
    assert_eq!(stdout(&run), "locked\n", "{}", message(&run));
    // It ran only once the rules were right again, by the ground truth.
    let uid = run.uid().unwrap();
    let exec = env.log("exec").await.into_iter().find(|e| e["argv"].to_string().contains(&uid)).unwrap();
    assert_eq!(exec["policy"]["rules"], json!([{"domain": "*", "action": "deny"}]));
    let events = env.events("SandboxSession", "s1").await;
    assert!(events.contains(&("Warning".to_owned(), "LockdownLost".to_owned())), "{events:?}");
}

#[tokio::test]
async fn a_url_made_public_is_found_and_made_private_before_anything_runs() {
    let env = TestEnv::new().await;
    let session = env.ready_session("s1").await;
    let path = format!("/v1/sprites/{}", sprite(&session).name);
    let public = json!({"url_settings": {"auth": "public"}});
    assert_eq!(env.sprites_call("PUT", &path, Some(public)).await.0, 200);
    env.bash("r1", "s1", "echo private").await;
    assert_eq!(stdout(&env.finished("r1").await), "private\n");
    let (_, live) = env.sprites_call("GET", &path, None).await;
    assert_eq!(live["url_settings"]["auth"], "sprite");
}

#[tokio::test]
async fn a_policy_that_changes_is_locked_anew_and_unchanged_ones_are_never_sent_twice() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    for n in 0..5 {
        env.bash(&format!("r{n}"), "s1", "true").await;
        env.finished(&format!("r{n}")).await;
    }
    assert_eq!(env.log("policy-set").await.len(), 1);
    let egress = json!({"egress": {"mode": "Allowlist", "allow": ["api.example.com"]}});
    env.policy(&format!("default-{}", env.id), egress).await;
    let more = |s: &SandboxSession| {
        let status = s.status.clone().unwrap_or_default();
        condition(s, "Ready") == Some("True") && status.lockdown.unwrap_or_default().policy_generation == Some(2)
    };
    let session = env.session_until("s1", more).await;
    let path = format!("/v1/sprites/{}/policy/network", sprite(&session).name);
    let (_, rules) = env.sprites_call("GET", &path, None).await;
    assert!(rules["rules"].as_array().unwrap().contains(&json!({"domain": "api.example.com", "action": "allow"})));
    assert_eq!(env.log("policy-set").await.len(), 2);
}

#[tokio::test]
async fn a_deleted_session_takes_its_sprite_with_it_and_its_running_command() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.bash("r1", "s1", "sleep 300").await;
    env.running("r1").await;
    env.sessions().delete("s1", &DeleteParams::default()).await.unwrap();
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Failed", "SessionDeleted"));
    env.gone(env.sessions(), "s1").await;
    assert!(env.living().await.is_empty());
}

#[tokio::test]
async fn what_was_deleted_while_the_operator_was_down_leaves_no_sprite() {
    let mut env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.run("r1", json!({"session": {"drive": "d"}, "bash": {"command": "sleep 300"}})).await;
    env.running("r1").await;
    assert_eq!(env.living().await.len(), 2);
    env.operator.as_mut().unwrap().kill();
    env.sessions().delete("s1", &DeleteParams::default()).await.unwrap();
    env.runs().delete("r1", &DeleteParams::default()).await.unwrap();
    env.free_lease().await;
    env.start_operator();
    env.gone(env.sessions(), "s1").await;
    env.gone(env.runs(), "r1").await;
    until("no Sprite is left", async || env.living().await.is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_deleted_run_is_killed_first_and_its_finalizer_goes_last() {
    let env = TestEnv::new().await;
    let session = env.ready_session("s1").await;
    env.bash("r1", "s1", "sleep 302").await;
    let run = env.running("r1").await;
    assert_eq!(run.finalizers(), ["sprite-operator.io/charge"], "stamped at creation");
    env.runs().delete("r1", &DeleteParams::default()).await.unwrap();
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Cancelled", "Deleted"));
    env.gone(env.runs(), "r1").await;
    let left = env.peek(&sprite(&session).name, "ps -e -o args= | grep -c '[s]leep 302' || true").await;
    assert_eq!(left.trim(), "0");
}

#[tokio::test]
async fn a_deleted_namespace_leaves_no_sprite_and_is_not_held_up() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.run("r1", json!({"session": {"drive": "d"}, "bash": {"command": "sleep 300"}})).await;
    env.running("r1").await;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(env.client.clone());
    namespaces.delete(&env.namespace, &DeleteParams::default()).await.unwrap();
    env.gone(namespaces, &env.namespace).await;
    assert!(env.living().await.is_empty());
}

#[tokio::test]
async fn a_session_made_again_under_the_same_name_gets_nothing_of_the_old_one() {
    let env = TestEnv::new().await;
    let old = env.ready_session("s1").await;
    env.bash("r1", "s1", "echo old > note").await;
    env.finished("r1").await;
    env.sessions().delete("s1", &DeleteParams::default()).await.unwrap();
    env.gone(env.sessions(), "s1").await;
    let new = env.ready_session("s1").await;
    assert_ne!(sprite(&old).name, sprite(&new).name);
    env.bash("r2", "s1", "cat note").await;
    assert_eq!(reason(&env.finished("r2").await), "NonZeroExit");
}

#[tokio::test]
async fn a_sprite_of_our_name_without_our_labels_is_never_touched() {
    let env = TestEnv::new().await;
    env.session("s1", json!({"suspend": true})).await;
    let session = env.session_until("s1", |s| ready_reason(s) == "Suspended").await;
    assert!(env.living().await.is_empty(), "a suspended session makes none");
    let installation: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(env.client.clone(), &env.operator_namespace);
    let installation = installation.get("sprite-operator-installation").await.unwrap().uid().unwrap();
    let secret = SessionSecret::new(&std::fs::read(env.dir.path().join("secret")).unwrap()).unwrap();
    let uid = session.uid().unwrap();
    let key = SessionKey { namespace: &env.namespace, drive: "research", conversation: "s1", uid: &uid };
    let name = sprite_name(&secret, &installation, key).unwrap();
    assert_eq!(env.sprites_call("POST", "/v1/sprites", Some(json!({"name": name}))).await.0, 201);
    let on = Patch::Merge(json!({"spec": {"suspend": false}}));
    env.sessions().patch("s1", &PatchParams::default(), &on).await.unwrap();
    let session = env.session_until("s1", |s| ready_reason(s) == "NotOurs").await;
    assert_eq!(condition(&session, "Stalled"), Some("True"));
    env.sessions().delete("s1", &DeleteParams::default()).await.unwrap();
    env.gone(env.sessions(), "s1").await;
    assert_eq!(env.living().await.len(), 1, "it is somebody else's");
    assert!(env.log("exec").await.is_empty());
}

#[tokio::test]
async fn a_lost_sprite_is_made_anew_once_that_is_certain_and_the_loss_is_told() {
    let env = TestEnv::new().await;
    let old = env.ready_session("s1").await;
    let path = format!("/v1/sprites/{}", sprite(&old).name);
    assert_eq!(env.sprites_call("DELETE", &path, None).await.0, 204);
    env.bash("r1", "s1", "echo again").await;
    let run = env.finished("r1").await;
    assert_eq!(stdout(&run), "again\n", "{}", message(&run));
    assert!(message(&run).contains("gone from the platform"), "{}", message(&run));
    let new = env.session_until("s1", |s| condition(s, "Ready") == Some("True")).await;
    assert_eq!(sprite(&new).incarnation, 1);
    assert_ne!(sprite(&new).id, sprite(&old).id);
    assert_eq!(env.living().await.len(), 1);
}

#[tokio::test]
async fn a_hand_edited_status_makes_nothing_run() {
    let env = TestEnv::new().await;
    let real = env.ready_session("s1").await;
    // A session that claims the Sprite of another one, with a token that would fit.
    env.session("forged", json!({"suspend": true})).await;
    env.session_until("forged", |s| ready_reason(s) == "Suspended").await;
    let mut status = serde_json::to_value(real.status.clone().unwrap()).unwrap();
    status["observedGeneration"] = json!(2);
    let claim = Patch::Merge(json!({"status": status}));
    env.sessions().patch_status("forged", &PatchParams::default(), &claim).await.unwrap();
    let on = Patch::Merge(json!({"spec": {"suspend": false}}));
    env.sessions().patch("forged", &PatchParams::default(), &on).await.unwrap();
    env.bash("r1", "forged", "echo never").await;
    let session = env.session_until("forged", |s| ready_reason(s) == "NotOurs").await;
    assert_eq!(condition(&session, "Ready"), Some("False"));
    // A Run that claims to be running, or to be over.
    env.bash("r2", "nowhere", "echo never").await;
    env.run_until("r2", |run| phase(run) == "Pending").await;
    let identity = json!({"session": {"name": "s1", "uid": real.uid()}, "sprite": {"id": sprite(&real).id}});
    let mut running = json!({"phase": "Running", "reason": "Started"});
    running.as_object_mut().unwrap().extend(identity.as_object().unwrap().clone());
    let claim = Patch::Merge(json!({"status": running}));
    env.runs().patch_status("r2", &PatchParams::default(), &claim).await.unwrap();
    let run = env.finished("r2").await;
    assert_eq!((phase(&run), reason(&run)), ("Failed", "NotStarted"), "{}", message(&run));
    assert!(!env.log("exec").await.iter().any(|e| e["argv"].to_string().contains("so-run")));
    // Deleting the forged session must not destroy the real one's Sprite.
    env.sessions().delete("forged", &DeleteParams::default()).await.unwrap();
    until("the forged session is stuck or gone, and the real Sprite lives", async || {
        let gone = env.sessions().get_opt("forged").await.unwrap();
        let stalled = gone.as_ref().is_none_or(|s| condition(s, "Stalled") == Some("True"));
        stalled.then_some(())
    })
    .await;
    assert_eq!(env.living().await.len(), 1);
    env.bash("r3", "s1", "echo alive").await;
    assert_eq!(stdout(&env.finished("r3").await), "alive\n");
}

#[tokio::test]
async fn without_a_good_secret_the_operator_is_not_ready_says_so_and_creates_nothing() {
    let mut env = TestEnv::prepared().await;
    let secret = env.dir.path().join("secret");
    std::fs::write(&secret, "short\n").unwrap();
    env.start_spritesd();
    env.start_operator();
    env.session("s1", json!({})).await;
    let session = env.session_until("s1", |s| ready_reason(s) == "SecretMissing").await;
    let said = &session.status.as_ref().unwrap().conditions.get("Ready").unwrap().message;
    assert!(said.contains("5 bytes") && said.contains("at least 32"), "{said}");
    let ready = format!("{}/readyz", env.listen().await);
    let answer = reqwest::get(&ready).await.unwrap();
    assert_eq!(answer.status(), 503);
    assert!(answer.text().await.unwrap().contains("secret: the session secret has 5 bytes"));
    std::fs::remove_file(&secret).unwrap();
    until("a missing file is told, too", async || {
        let text = reqwest::get(&ready).await.unwrap().text().await.unwrap();
        text.contains("cannot be read").then_some(())
    })
    .await;
    assert!(env.living().await.is_empty() && env.log("create").await.is_empty());
    std::fs::write(&secret, uuid::Uuid::new_v4().to_string()).unwrap();
    env.session_until("s1", |s| condition(s, "Ready") == Some("True")).await;
    assert_eq!(reqwest::get(&ready).await.unwrap().status(), 200);
}
