//! What is stored of a command's output: recognisable secrets masked, the operator's own always, before anything is cut.

use serde_json::json;
use sprite_operator::api::Run;

use crate::support::{
    Tenant,
    tenant::{message, phase, reason, stdout},
};

/// A token of a known shape, from parts.
fn token() -> String {
    ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat()
}

fn flags(run: &Run) -> (bool, bool) {
    run.status.as_ref().and_then(|s| s.output.as_ref()).map(|o| (o.truncated, o.redacted)).unwrap()
}

async fn with_policy(policy: serde_json::Value) -> Tenant {
    let tenant = Tenant::new().await;
    tenant.policy(&format!("default-{}", tenant.id), policy).await;
    tenant.ready_session("s1").await;
    tenant
}

#[tokio::test]
async fn recognisable_secrets_are_masked_in_what_is_stored() {
    let tenant = with_policy(json!({})).await;
    let command = format!("echo 'PASSWORD=hunter-a1b2'; printf '\\377 {} \\n' >&2; echo plain", token());
    tenant.bash("r1", "s1", &command).await;
    tenant.bash("r2", "s1", "echo plain").await;
    let run = tenant.finished("r1").await;
    assert_eq!(stdout(&run), "PASSWORD=REDACTED\nplain\n", "{}", message(&run));
    assert_eq!(flags(&run), (false, true));
    // Bytes that are no text keep theirs, and lose the secret all the same.
    let stderr = run.status.as_ref().unwrap().output.clone().unwrap().stderr;
    assert_eq!(stderr.base64.as_deref(), Some("/yBSRURBQ1RFRCAK"));
    assert_eq!(stderr.bytes, 44, "what was received");
    assert_eq!(flags(&tenant.finished("r2").await), (false, false));
}

#[tokio::test]
async fn the_operators_own_token_is_masked_even_where_the_policy_masks_nothing() {
    let tenant = with_policy(json!({"output": {"redact": "Off"}})).await;
    // As if it had come to light: in base64, too.
    let own = tenant.token.clone();
    tenant.bash("r1", "s1", &format!("echo {own}; printf {own} | base64 -w0; echo; echo {}", token())).await;
    let run = tenant.finished("r1").await;
    let lines: Vec<_> = stdout(&run).lines().collect();
    assert_eq!((lines[0], lines[2]), ("REDACTED", token().as_str()), "{}", message(&run));
    assert!(lines[1].contains("REDACTED") && lines[1].len() < own.len(), "{}", lines[1]);
    assert!(flags(&run).1);
}

#[tokio::test]
async fn a_secret_that_the_cap_cuts_through_is_masked() {
    let tenant = with_policy(json!({"limits": {"output": 30}})).await;
    tenant.bash("r1", "s1", &format!("echo 'the token: {} and so on'; sleep 20", token())).await;
    let run = tenant.finished("r1").await;
    assert_eq!(reason(&run), "OutputLimitExceeded", "{}", message(&run));
    assert_eq!(stdout(&run), "the token: REDACTED and so on\n");
    assert_eq!(flags(&run), (true, true));
}

#[tokio::test]
async fn output_that_an_adopter_finds_is_masked_as_well() {
    let mut tenant = with_policy(json!({"limits": {"output": 56}})).await;
    let command = format!("echo {}; touch began; sleep 3; echo PASSWORD=a1b2", token());
    tenant.bash("r1", "s1", &command).await;
    tenant.file_appears("s1", "began").await;
    tenant.crash_operator().await;
    let run = tenant.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Succeeded", "Completed"), "{}", message(&run));
    assert_eq!(stdout(&run), "REDACTED\nPASSWORD=REDACTED\n");
    assert_eq!(flags(&run), (false, true));
}

#[tokio::test]
async fn a_mask_that_is_longer_than_its_secret_makes_no_command_exceed_its_cap() {
    let mut tenant = with_policy(json!({"limits": {"output": 14}})).await;
    tenant.bash("r1", "s1", "echo PASSWORD=a1b2").await;
    tenant.bash("r2", "s1", "touch began; sleep 3; echo PASSWORD=a1b2").await;
    let run = tenant.finished("r1").await;
    assert_eq!((reason(&run), stdout(&run)), ("Completed", "PASSWORD=REDAC"), "{}", message(&run));
    assert_eq!(flags(&run), (true, true));
    tenant.file_appears("s1", "began").await;
    tenant.crash_operator().await;
    let run = tenant.finished("r2").await;
    assert_eq!((reason(&run), stdout(&run)), ("Completed", "PASSWORD=REDAC"), "{}", message(&run));
}
