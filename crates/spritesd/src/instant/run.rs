//! A launch, as the runner takes it: nonce, input, guard, start marker, output, record. The script is not executed: what it
//! would have done is in the answers.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use runner_protocol::{
    Arguments, Capture, Cause, Counts, EXIT_CANNOT_START, EXIT_GUARD_EXISTS, EXIT_INPUT_CUT, EXIT_WRONG_INSTANCE,
    Input as Brought, Record, Source, start_marker,
};
use rustix::process::Signal;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::answers::Answer;
use super::home;
use super::machine::Instance;
use super::memory::KILLED;
use super::writer::Writer;
use crate::exec::frames::Input;
use crate::exec::inputs::Inputs;
use crate::exec::session::Session;
use crate::sprite::blocking;

/// How long a launch may take to come through, as with the runner.
const INPUT_WITHIN: Duration = Duration::from_secs(15);
/// How many write to the disk at once: each does so in a thread of the runtime's, and Runs come by the thousand.
static WRITERS: Semaphore = Semaphore::const_new(4);
/// Exit code of what was told to stop.
const STOPPED: u8 = 143;

/// Runs one launch, and gives the script's code, or why nothing was started.
pub(super) async fn run(
    instance: &Arc<Instance>,
    arguments: &Arguments,
    session: &Arc<Session>,
    inputs: Option<Inputs>,
    mut signals: watch::Receiver<Option<i32>>,
) -> u8 {
    if !instance.memory.has(&arguments.nonce) {
        return EXIT_WRONG_INSTANCE;
    }
    let brought = tokio::select! {
        biased;
        signal = told(&mut signals) => return if is(signal, Signal::KILL) { KILLED } else { EXIT_INPUT_CUT },
        brought = timeout(INPUT_WITHIN, read(arguments, inputs)) => brought.ok().flatten(),
    };
    let Some(Brought { live, script, .. }) = brought else { return EXIT_INPUT_CUT };
    if arguments.is_file {
        // The place of file operations: `script` is an encoded one then, to be done on the instance's files.
        Writer::new(session).say("file operations are not answered with --guest instant").await;
        return EXIT_CANNOT_START;
    }
    let Some((alive, fenced)) = instance.memory.begin(&arguments.uid) else { return EXIT_GUARD_EXISTS };
    // As the runner's task of the platform does for a long script: what goes on is not put to sleep.
    let _awake = session.keep_awake();
    let answer = instance.answers.meet(&script);
    let captured = Captured::new(arguments, &answer);
    let [stdout, stderr] = &captured.streams;
    let counts = [stdout.counts, stderr.counts];
    alive.wrote(counts);
    if counts.iter().any(|counts| counts.written > 0) {
        keep(instance, arguments, &live, &captured).await;
    }
    // From the marker on: a record that says longer would be none to the operator.
    let began = alive.begins();
    let mut writer = Writer::new(session);
    writer.stdout(start_marker(&arguments.uid).as_bytes());
    writer.stdout(&stdout.now);
    writer.stderr(&stderr.now);
    let script = async {
        if captured.overflows {
            return (STOPPED, Cause::Overflow);
        }
        if !answer.delay.is_zero() {
            writer.flush().await;
            sleep(answer.delay.min(arguments.timeout)).await;
        }
        if answer.delay > arguments.timeout { (STOPPED, Cause::Timeout) } else { (answer.code, Cause::Script) }
    };
    let mut counts = counts.map(Some);
    let (code, by) = tokio::select! {
        biased;
        signal = told(&mut signals) => {
            if is(signal, Signal::KILL) {
                // The front is killed: what it counted is lost, and nobody writes the last line.
                counts = [None; 2];
                (KILLED, Cause::RunnerKilled)
            } else if is(signal, Signal::INT) || is(signal, Signal::QUIT) {
                (KILLED, Cause::Stop)
            } else {
                (STOPPED, Cause::Stop)
            }
        }
        // From a question of the operator's; its other end lives as long as the guard does.
        Ok(()) = fenced => (KILLED, Cause::RunnerKilled),
        end = script => end,
    };
    let [out, err] = counts;
    let record = alive.end(Record { code, by, ran: began.elapsed(), ended: 0, remaining: 0, stdout: out, stderr: err });
    if out.is_none() {
        return KILLED;
    }
    writer.stdout(&stdout.rest);
    writer.stderr(&stderr.rest);
    writer.stdout(record.ended_line(&arguments.uid).as_bytes());
    writer.flush().await;
    record.code
}

/// What is kept of an answer's output.
struct Captured {
    streams: [Kept; 2],
    /// The script is to be stopped, since there was too much.
    overflows: bool,
}

/// What is kept of one stream.
struct Kept {
    source: Source,
    counts: Counts,
    /// What is sent as it comes.
    now: Vec<u8>,
    /// What is sent at the end.
    rest: Vec<u8>,
}

impl Captured {
    fn new(arguments: &Arguments, answer: &Answer) -> Self {
        let mut capture = Capture::new(arguments.shape());
        let [out, err] = [(Source::Stdout, &answer.stdout), (Source::Stderr, &answer.stderr)].map(|(source, text)| {
            let bytes = text.as_bytes();
            let sent = capture.take(source, bytes);
            (source, bytes.get(..sent).unwrap_or_default().to_vec())
        });
        let [out_end, err_end] = capture.finish();
        let streams = [(out, out_end), (err, err_end)];
        Self {
            streams: streams.map(|((source, now), (counts, rest))| Kept { source, counts, now, rest }),
            overflows: arguments.stop_at_cap && capture.passed(),
        }
    }
}

/// The next signal that ends a program, or the one that came.
async fn told(signals: &mut watch::Receiver<Option<i32>>) -> i32 {
    match signals.wait_for(Option::is_some).await.ok().and_then(|signal| *signal) {
        Some(signal) => signal,
        None => pending().await,
    }
}

fn is(number: i32, signal: Signal) -> bool {
    number == signal.as_raw()
}

/// Reads exactly what the launch brings; none when that is cut short. What follows is the script's, which does not read it.
async fn read(arguments: &Arguments, inputs: Option<Inputs>) -> Option<Brought> {
    let wanted = arguments.input_bytes();
    let mut bytes = Vec::new();
    let mut inputs = inputs.filter(|_| wanted > 0);
    while bytes.len() < wanted {
        match inputs.as_mut()?.next().await? {
            Input::Data(data) => {
                bytes.extend_from_slice(data.get(..data.len().min(wanted - bytes.len())).unwrap_or_default());
            }
            Input::End => return None,
        }
    }
    Brought::parse(arguments, &bytes)
}

/// Keeps what is sent of the output where an adopter looks for it.
async fn keep(instance: &Arc<Instance>, arguments: &Arguments, live: &[String], captured: &Captured) {
    let (root, uid) = (instance.root.clone(), arguments.uid.clone());
    let surplus = instance.memory.spool(&uid, live);
    let streams = captured.streams.each_ref().map(|kept| (kept.source, [kept.now.as_slice(), &kept.rest].concat()));
    // Never closed.
    let _permit = WRITERS.acquire().await;
    let kept = blocking(move || home::keep(&root, &uid, &streams, &surplus));
    if let Err(error) = kept.await {
        // As a full disk cuts it short; the record tells how much there was.
        warn!(%error, "the output of a Run is not kept");
    }
}
