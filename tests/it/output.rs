//! What is stored of a command's output: recognisable secrets masked, the operator's own always, before anything is cut.

use api::Run;
use serde_json::json;

use test_support::{
    TestEnv,
    environment::{message, phase, reason, stdout},
};

/// A token of a known shape, from parts.
fn token() -> String {
    ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat()
}

fn flags(run: &Run) -> (bool, bool) {
    run.status.as_ref().and_then(|s| s.output.as_ref()).map(|o| (o.truncated, o.redacted)).unwrap()
}

async fn with_policy(policy: serde_json::Value) -> TestEnv {
    let env = TestEnv::new().await;
    env.policy(&format!("default-{}", env.id), policy).await;
    env.ready_session("s1").await;
    env
}

#[tokio::test]
async fn recognisable_secrets_are_masked_in_what_is_stored() {
    let env = with_policy(json!({})).await;
    let command = format!("echo 'PASSWORD=hunter-a1b2'; printf '\\377 {} \\n' >&2; echo plain", token());
    env.bash("r1", "s1", &command).await;
    env.bash("r2", "s1", "echo plain").await;
    let run = env.finished("r1").await;
    assert_eq!(stdout(&run), "PASSWORD=REDACTED\nplain\n", "{}", message(&run));
    assert_eq!(flags(&run), (false, true));
    // Bytes that are no text keep theirs, and lose the secret all the same.
    let output = run.status.as_ref().unwrap().output.clone().unwrap();
    let stderr = output.stderr;
    assert_eq!(stderr.base64.as_deref(), Some("/yBSRURBQ1RFRCAK"));
    assert_eq!((stderr.text.as_deref(), stderr.lossy), (Some("\u{fffd} REDACTED \n"), true));
    assert_eq!((output.stdout.lossy, output.redactions), (false, 2));
    assert_eq!(stderr.bytes, 44, "what was received");
    assert_eq!(flags(&env.finished("r2").await), (false, false));
}

#[tokio::test]
async fn the_operators_own_token_is_masked_even_where_the_policy_masks_nothing() {
    let env = with_policy(json!({"output": {"redact": "Off"}})).await;
    // As if it had come to light: in base64, too.
    let own = env.token.clone();
    env.bash("r1", "s1", &format!("echo {own}; printf {own} | base64 -w0; echo; echo {}", token())).await;
    let run = env.finished("r1").await;
    let lines: Vec<_> = stdout(&run).lines().collect();
    assert_eq!((lines[0], lines[2]), ("REDACTED", token().as_str()), "{}", message(&run));
    assert!(lines[1].contains("REDACTED") && lines[1].len() < own.len(), "{}", lines[1]);
    assert!(flags(&run).1);
}

#[tokio::test]
async fn a_secret_that_the_cap_cuts_through_is_masked() {
    let env = with_policy(json!({"limits": {"output": 30}, "output": {"onLimit": "Kill"}})).await;
    env.bash("r1", "s1", &format!("echo 'the token: {} and so on'; sleep 20", token())).await;
    let run = env.finished("r1").await;
    assert_eq!(reason(&run), "OutputLimitExceeded", "{}", message(&run));
    assert_eq!(stdout(&run), "the token: REDACTED and so on\n");
    assert_eq!(flags(&run), (true, true));
}

#[tokio::test]
async fn output_that_an_adopter_finds_is_masked_as_well() {
    let mut env = with_policy(json!({"limits": {"output": 56}})).await;
    let command = format!("echo {}; touch began; sleep 3; echo PASSWORD=a1b2", token());
    env.bash("r1", "s1", &command).await;
    env.file_appears("s1", "began").await;
    env.crash_operator().await;
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Succeeded", "Completed"), "{}", message(&run));
    assert_eq!(stdout(&run), "REDACTED\nPASSWORD=REDACTED\n");
    assert_eq!(flags(&run), (false, true));
}

#[tokio::test]
async fn a_mask_that_is_longer_than_its_secret_makes_no_command_exceed_its_cap() {
    let mut env = with_policy(json!({"limits": {"output": 14}})).await;
    env.bash("r1", "s1", "echo PASSWORD=a1b2").await;
    env.bash("r2", "s1", "touch began; sleep 3; echo PASSWORD=a1b2").await;
    let run = env.finished("r1").await;
    assert_eq!((reason(&run), stdout(&run)), ("Completed", "PASSWORD=REDAC"), "{}", message(&run));
    assert_eq!(flags(&run), (true, true));
    env.file_appears("s1", "began").await;
    env.crash_operator().await;
    let run = env.finished("r2").await;
    assert_eq!((reason(&run), stdout(&run)), ("Completed", "PASSWORD=REDAC"), "{}", message(&run));
}
