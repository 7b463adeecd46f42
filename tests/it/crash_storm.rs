//! A thousand Runs while the operator is killed again and again: each is started at most once, by what the guest saw, and ends
//! as it would have without a crash.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use api::{Run, reasons::RunPhase};
use futures::{StreamExt as _, stream};
use kube::{ResourceExt as _, api::ListParams};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::json;
use test_support::{
    TestEnv,
    environment::{message, phase, reason, stdout, until},
    late_proxy::LateProxy,
};

const ROUNDS: usize = 20;
const RUNS: usize = 50;
const SESSIONS: usize = 4;
/// Starts on record whose exec is held back when the operator is killed, in every other round.
const HELD: usize = 25;
/// Most outputs that may be marked incomplete, of a hundred: the guests live on.
const INCOMPLETE: usize = 5;

/// Ways of ending: the script behind the line that counts its start, and its timeout.
const ENDINGS: [(&str, &str, &str); 7] = [
    ("well", "echo well", "20s"),
    ("failed", "echo failed >&2; echo failed; exit 3", "20s"),
    ("slow", "echo slow; sleep 1; echo end", "20s"),
    ("killed", "echo killed; kill -9 $$", "20s"),
    ("timeout", "echo long; sleep 30", "1s"),
    ("output", "seq 1 2000", "20s"),
    ("leftovers", "setsid sleep 60 & echo left", "20s"),
];

/// What of an end must be the same with a crash and without.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ending {
    phase: String,
    reason: String,
    code: Option<i32>,
    stdout: String,
}

fn ending(run: &Run) -> Ending {
    let code = run.status.as_ref().and_then(|status| status.exit_code);
    Ending { phase: phase(run).into(), reason: reason(run).into(), code, stdout: stdout(run).to_owned() }
}

async fn create(env: &TestEnv, name: &str, session: &str, (_, script, timeout): (&str, &str, &str)) {
    let command = format!("echo $SO_RUN >> starts; {script}");
    env.run(name, json!({"session": {"name": session}, "timeout": timeout, "bash": {"command": command}})).await;
}

#[tokio::test]
async fn of_a_thousand_runs_under_crashes_each_starts_at_most_once_and_ends_as_it_would_have() {
    let mut env = TestEnv::prepared().await;
    let limits = json!({"timeout": "30s", "output": "1Ki", "parallelRuns": 32});
    env.policy(&format!("default-{}", env.id), json!({ "limits": limits })).await;
    env.start_spritesd();
    let proxy = LateProxy::start(&env.sprites_url).await;
    env.proxy_url = Some(proxy.url.clone());
    env.start_operator();
    let sessions: Vec<String> = (0..SESSIONS).map(|n| format!("s{n}")).collect();
    for session in &sessions {
        env.ready_session(session).await;
    }
    let mut calm = HashMap::new();
    for kind in ENDINGS {
        let name = format!("calm-{}", kind.0);
        create(&env, &name, "s0", kind).await;
        calm.insert(kind.0, ending(&env.finished(&name).await));
    }

    let mut random = StdRng::seed_from_u64(18);
    let mut hits: BTreeMap<&str, usize> = BTreeMap::new();
    for round in 0..ROUNDS {
        // At every other kill the execs of this round are on their way.
        let held = round % 2 == 0;
        if held {
            proxy.hold("so-run");
        }
        let begin = &env;
        stream::iter(0..RUNS)
            .for_each_concurrent(16, async |n| {
                let session = format!("s{}", n % SESSIONS);
                create(begin, &format!("r{round}-{n}"), &session, ENDINGS[(round + n) % ENDINGS.len()]).await;
            })
            .await;
        if held {
            // Of this round: those of earlier ones are being adopted.
            let of_round = |run: &Run| run.name_any().starts_with(&format!("r{round}-"));
            let recorded = async || running(&env).await.iter().filter(|run| of_round(run)).count();
            until("starts are on record", async || (recorded().await >= HELD).then_some(())).await;
        } else {
            until("some of them ended", async || (ended(&env, round).await >= HELD / 8).then_some(())).await;
            tokio::time::sleep(Duration::from_millis(random.random_range(0..300))).await;
        }
        env.operator.as_mut().unwrap().kill();
        let sent: String = env.log("exec").await.iter().map(|line| line["argv"].to_string()).collect();
        for run in running(&env).await {
            let was_sent = sent.contains(&run.uid().unwrap());
            *hits.entry(if was_sent { "after the exec" } else { "between Running and exec" }).or_default() += 1;
        }
        proxy.release();
        env.free_lease().await;
        env.start_operator();
    }
    let runs = until_all_finished(&env).await;

    let mut starts: HashMap<String, usize> = HashMap::new();
    for session in &sessions {
        let sprite = env.sessions().get(session).await.unwrap().status.unwrap().sprite.unwrap().name;
        for uid in env.peek(&sprite, "cat /workspace/starts").await.lines() {
            *starts.entry(uid.to_owned()).or_default() += 1;
        }
    }
    let (mut incomplete, mut wrong) = (0, Vec::new());
    for run in &runs {
        let name = run.name_any();
        let Some((round, n)) = name.strip_prefix('r').and_then(|name| name.split_once('-')) else { continue };
        let kind = ENDINGS[(round.parse::<usize>().unwrap() + n.parse::<usize>().unwrap()) % ENDINGS.len()].0;
        let started = starts.get(&run.uid().unwrap()).copied().unwrap_or_default();
        let end = ending(run);
        let is_incomplete = run.status.as_ref().unwrap().output.as_ref().is_some_and(|output| output.incomplete);
        incomplete += usize::from(is_incomplete);
        *hits
            .entry(if end.reason == "NotStarted" { "ended NotStarted" } else { "ended as it would have" })
            .or_default() += 1;
        let good = if end.reason == "NotStarted" {
            started == 0 && run.status.as_ref().unwrap().admission.is_none()
        } else {
            let same = Ending { stdout: String::new(), ..end.clone() }
                == Ending { stdout: String::new(), ..calm[kind].clone() };
            started == 1 && same && (is_incomplete || end.stdout == calm[kind].stdout)
        };
        if !good {
            wrong.push(format!("{name} ({kind}), started {started} times: {end:?}, {}", message(run)));
        }
    }
    eprintln!("crash storm: {hits:?}, {incomplete} outputs incomplete");
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), runs.len());
    assert!(incomplete * 100 <= INCOMPLETE * ROUNDS * RUNS, "{incomplete} outputs are incomplete");
    assert!(hits["ended as it would have"] >= ROUNDS * RUNS / 5, "{hits:?}");
    assert!(hits["between Running and exec"] >= ROUNDS * RUNS / 5, "{hits:?}");
}

async fn running(env: &TestEnv) -> Vec<Run> {
    let all = env.runs().list(&ListParams::default()).await.unwrap().items;
    all.into_iter().filter(|run| run.status.as_ref().is_some_and(|s| s.phase == Some(RunPhase::Running))).collect()
}

/// How many Runs of a round are over.
async fn ended(env: &TestEnv, round: usize) -> usize {
    let all = env.runs().list(&ListParams::default()).await.unwrap().items;
    let of_round = all.iter().filter(|run| run.name_any().starts_with(&format!("r{round}-")));
    of_round.filter(|run| run.status.as_ref().and_then(|s| s.phase).is_some_and(RunPhase::is_terminal)).count()
}

async fn until_all_finished(env: &TestEnv) -> Vec<Run> {
    // Longer than a single wait of the tests may take: there are a thousand.
    let end = tokio::time::Instant::now() + Duration::from_mins(5);
    loop {
        let runs = env.runs().list(&ListParams::default()).await.unwrap().items;
        let open = |run: &&Run| !run.status.as_ref().and_then(|s| s.phase).is_some_and(RunPhase::is_terminal);
        let left: Vec<String> =
            runs.iter().filter(open).map(|run| format!("{} {}", run.name_any(), message(run))).collect();
        if left.is_empty() {
            return runs;
        }
        assert!(tokio::time::Instant::now() < end, "not finished: {left:#?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
