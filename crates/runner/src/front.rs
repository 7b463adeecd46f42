//! The front: the exec's own process. Checks the launch, makes the guard, has the supervisor start the script, relays and keeps
//! its output, writes the record.
//!
//! Nothing starts unless nonce and input are whole and the guard is new. Must outlive its caller: a connection that is lost,
//! or a caller that does not read, ends nothing.

mod input;
mod watch;

use std::{
    fs::File,
    io::Write as _,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, process::CommandExt as _},
    },
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    fs::MemfdFlags,
    pipe::{PipeFlags, pipe_with},
    process::Pid,
};

use runner_protocol::{
    Arguments, EXIT_CANNOT_START, EXIT_DISK, EXIT_GUARD_EXISTS, EXIT_INPUT_CUT, EXIT_USAGE, EXIT_WRONG_INSTANCE, Input,
    SUPERVISE, Source,
};

use crate::{channel, processes, prune, relay::Relay, root::Root, signals::Signals, supervisor};

/// Variables that a script has of the exec's own environment.
const PASSED_ON: [&str; 3] = ["PATH", "HOME", "USER"];

/// Runs one launch, and returns the script's code, or why nothing was started.
pub fn run(words: &[&str]) -> u8 {
    let Some(arguments) = Arguments::parse(words) else { return EXIT_USAGE };
    match launch(&arguments) {
        Ok(code) => code,
        Err(Refused { code, why }) => {
            if let Some(why) = why {
                let _ = rustix::io::write(rustix::stdio::stderr(), format!("{why}\n").as_bytes());
            }
            code
        }
    }
}

/// Why nothing was started.
struct Refused {
    code: u8,
    why: Option<String>,
}

impl Refused {
    const fn silent(code: u8) -> Self {
        Self { code, why: None }
    }
}

fn launch(arguments: &Arguments) -> Result<u8, Refused> {
    let disk = |_| Refused::silent(EXIT_DISK);
    let cannot =
        |what: &str, error: std::io::Error| Refused { code: EXIT_CANNOT_START, why: Some(format!("{what}: {error}")) };
    let uid = arguments.uid.as_str();
    let signals = Signals::block().map_err(disk)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(|error| disk(error.into()))?;
    let root = Root::new();
    // Only the instance that was locked down holds the nonce.
    if root.nonce().as_deref() != Some(arguments.nonce.as_str()) {
        return Err(Refused::silent(EXIT_WRONG_INSTANCE));
    }
    // Everything first: a launch that was cut short must start nothing.
    let input = input::read(arguments, &signals).ok_or(Refused::silent(EXIT_INPUT_CUT))?;
    let surplus = prune::surplus(&root, &input.live);
    let directory = Path::new(std::ffi::OsStr::from_bytes(&input.directory));
    std::fs::create_dir_all(directory).map_err(|error| cannot("cwd", error))?;
    root.make_guard(uid).map_err(|_| {
        let stands = std::fs::symlink_metadata(root.guard(uid)).is_ok();
        Refused::silent(if stands { EXIT_GUARD_EXISTS } else { EXIT_DISK })
    })?;
    // From here on the guard never stands without a record or a supervisor that will write it.
    let never = |refused: Refused| {
        let _ = root.write_never(uid);
        refused
    };
    let spools = Source::ALL.map(|source| root.spool(uid, source));
    let [Ok(out_spool), Ok(err_spool)] = spools else { return Err(never(Refused::silent(EXIT_DISK))) };
    let (out, out_end) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| never(disk(error.into())))?;
    let (err, err_end) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| never(disk(error.into())))?;
    let started = start(arguments, &input, [out_end, err_end]).map_err(|error| never(cannot("bash", error)))?;
    let (supervisor, channel, began) = started;
    let _ = root.write_started(uid, began);
    let relays = [
        Relay::new(Source::Stdout, out, rustix::stdio::stdout(), out_spool),
        Relay::new(Source::Stderr, err, rustix::stdio::stderr(), err_spool),
    ];
    let watch = watch::Watch::new(arguments, &root, signals, (supervisor, channel, began), relays)?;
    Ok(watch.run(|| prune::remove(&surplus)))
}

/// Starts the supervisor, and waits until it started the script.
fn start(
    arguments: &Arguments,
    input: &Input,
    [stdout, stderr]: [OwnedFd; 2],
) -> std::io::Result<(Pid, OwnedFd, std::time::Duration)> {
    let (ours, theirs) = channel::pair()?;
    // In a file of its own, and in no argument: `pkill -f` of a script would find its supervisor by the script's words.
    let script = rustix::fs::memfd_create("script", MemfdFlags::CLOEXEC)?;
    let mut script = File::from(script);
    if arguments.is_file {
        // Where the operation's path begins.
        script.write_all(&[input.directory.as_slice(), b"\0"].concat())?;
    }
    script.write_all(&input.script)?;
    let stdin = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let mut command = Command::new(processes::OWN_EXE);
    command.arg0("sprite-runner").args([
        SUPERVISE,
        &arguments.uid,
        &arguments.timeout.as_millis().to_string(),
        if arguments.kill_leftovers { supervisor::KILL_LEFTOVERS } else { "-" },
        if arguments.is_file { supervisor::IS_FILE } else { "-" },
    ]);
    command.env_clear();
    command.envs(PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.envs([("LANG", "C.UTF-8"), ("PYTHONUNBUFFERED", "1"), (runner_protocol::MARK_VARIABLE, &arguments.uid)]);
    let text = |bytes: &Vec<u8>| std::ffi::OsStr::from_bytes(bytes).to_owned();
    command.envs(input.environment.iter().map(|(name, value)| (text(name), text(value))));
    command.current_dir(std::ffi::OsStr::from_bytes(&input.directory));
    command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn()?;
    let supervisor = processes::pid_of(&child)?;
    // Its copies of the channel's other end go with it.
    drop(command);
    channel::begin(&ours, &[&stdin, &stdout, &stderr, &OwnedFd::from(script)])?;
    // Those of the script must be the only ones.
    drop((stdout, stderr, stdin));
    rustix::stdio::dup2_stdin(File::open("/dev/null")?.as_fd())?;
    match channel::receive(&ours) {
        Some((channel::Message::Started(began), _)) => Ok((supervisor, ours, began)),
        Some((channel::Message::Failed(why), _)) => Err(std::io::Error::other(why)),
        Some(_) | None => Err(std::io::Error::other("the supervisor ended")),
    }
}
