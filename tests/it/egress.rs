//! What commands of Runs can reach, on a network that the kernel enforces: servers are real, in a world of the
//! test's own.

use std::process::Stdio;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64_STANDARD};
use serde_json::{Value, json};

use test_support::{
    TestEnv,
    environment::{message, phase, reason, stdout, until},
    process::Process,
};

const SERVER: &str = "import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(sys.argv[2].encode())
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer((sys.argv[1], 80), Handler)
print('up', flush=True)
server.serve_forever()";

/// A host outside of all Sprites, with a server that answers with the host's name.
async fn host(env: &TestEnv, name: &str, addr: &str) -> Process {
    let holder = env.host(name, addr).await;
    let mut command = Process::command("nsenter");
    command.arg(format!("--net=/proc/{holder}/ns/net")).args(["--", "python3", "-c", SERVER, addr, name]);
    let (process, lines) = Process::start(command.stdin(Stdio::null()), 1);
    assert_eq!(lines, ["up"]);
    process
}

/// A command that asks each target and says who answered. The targets are disguised, as hostile code would do it: it is the
/// network that must hold, not the gate's look at the text.
fn ask(targets: &[&str]) -> String {
    let ask = |target: &&str| {
        let disguised = BASE64_STANDARD.encode(target);
        format!("t=$(echo {disguised} | base64 -d); echo \"$t $(curl -s -m 3 http://$t/ || echo -)\"")
    };
    targets.iter().map(ask).collect::<Vec<_>>().join("; ")
}

#[tokio::test]
async fn a_command_that_names_a_metadata_service_as_its_target_is_refused_and_a_mention_is_not() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.bash("target", "s1", "curl -s http://2852039166/latest/meta-data/").await;
    let run = env.finished("target").await;
    assert_eq!((phase(&run), reason(&run)), ("Denied", "BlockedCommand"), "{run:?}");
    assert!(message(&run).contains("169.254.169.254"), "{}", message(&run));
    env.bash("mention", "s1", "echo 'never ask 169.254.169.254' > notes; grep -c 169.254.169.254 notes").await;
    let run = env.finished("mention").await;
    assert_eq!((phase(&run), stdout(&run)), ("Succeeded", "1\n"), "{run:?}");
}

#[tokio::test]
async fn a_command_reaches_what_its_policy_names_and_nothing_else() {
    let env = TestEnv::new().await;
    let _hosts = [
        host(&env, "api.example.com", "203.0.113.7").await,
        host(&env, "other.example.org", "203.0.113.8").await,
        host(&env, "_api.internal", "203.0.113.9").await,
        host(&env, "metadata.example.org", "169.254.169.254").await,
    ];
    let policy = format!("web-{}", env.id);
    let egress = json!({ "mode": "Allowlist", "allow": ["*.example.com"], "deny": ["secret.example.com"] });
    env.policy(&policy, json!({ "egress": egress })).await;
    env.session("web", json!({ "policyRef": { "name": policy } })).await;
    env.bash(
        "allowed",
        "web",
        &ask(&["api.example.com", "other.example.org", "203.0.113.8", "169.254.169.254", "_api.internal"]),
    )
    .await;
    let run = env.finished("allowed").await;
    assert_eq!(phase(&run), "Succeeded", "{run:?}");
    let expected =
        "api.example.com api.example.com\nother.example.org -\n203.0.113.8 -\n169.254.169.254 -\n_api.internal -\n";
    assert_eq!(stdout(&run), expected);

    // The default policy opens nothing.
    env.ready_session("closed").await;
    env.bash("denied", "closed", &ask(&["api.example.com", "203.0.113.7", "169.254.169.254"])).await;
    let run = env.finished("denied").await;
    assert_eq!(stdout(&run), "api.example.com -\n203.0.113.7 -\n169.254.169.254 -\n");
}

#[tokio::test]
async fn no_code_runs_in_the_window_before_the_lockdown() {
    let env = TestEnv::new().await;
    let _host = host(&env, "other.example.org", "203.0.113.8").await;
    // Nothing slows the platform down more than a policy call that takes its time.
    env.faults(json!([{ "route": "policy.set", "effect": "delay", "delay": "1s" }])).await;
    env.session("s1", json!({})).await;
    env.bash("early", "s1", &ask(&["203.0.113.8", "other.example.org"])).await;
    let run = env.finished("early").await;
    assert_eq!(stdout(&run), "203.0.113.8 -\nother.example.org -\n");
    let execs = env.log("exec").await;
    let open: Vec<&Value> = execs.iter().filter(|exec| exec["policy"]["rules"] == json!([])).collect();
    // What wakes a fresh Sprite is the operator's own, and constant.
    assert!(open.iter().all(|exec| exec["argv"] == json!(["true"])), "{open:?}");
}

#[tokio::test]
async fn a_tighter_policy_reaches_a_running_sprite_before_its_next_command() {
    let env = TestEnv::new().await;
    let _host = host(&env, "api.example.com", "203.0.113.7").await;
    let policy = format!("web-{}", env.id);
    env.policy(&policy, json!({ "egress": { "mode": "Allowlist", "allow": ["api.example.com"] } })).await;
    env.session("web", json!({ "policyRef": { "name": policy } })).await;
    env.bash("before", "web", &ask(&["api.example.com"])).await;
    assert_eq!(stdout(&env.finished("before").await), "api.example.com api.example.com\n");
    env.policy(&policy, json!({ "egress": { "mode": "DenyAll" } })).await;
    until("the session has seen the new policy", async || {
        let rules = env.log("policy-set").await.last()?["policy"]["rules"].clone();
        (rules == json!([{ "domain": "*", "action": "deny" }])).then_some(())
    })
    .await;
    env.bash("after", "web", &ask(&["api.example.com", "203.0.113.7"])).await;
    assert_eq!(stdout(&env.finished("after").await), "api.example.com -\n203.0.113.7 -\n");
}
