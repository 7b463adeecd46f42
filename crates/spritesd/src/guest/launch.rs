//! The step between the daemon and bubblewrap: a process of its own that becomes `bwrap`.
//!
//! It exists because (a) the guest must run as a host user that is not the daemon's, and that user may not be able
//! to reach the data directory by its path, so the parts of it are mounted where it can, in a mount namespace of
//! this process alone; (b) limits and identity are set on a process with one thread, never on the daemon.
//! It must not hold or pass on anything of the daemon but its standard streams.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::MemfdFlags;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use serde::{Deserialize, Serialize};

use super::layers::{Layers, directories, inside};
use super::root::{self, FIXED_ETC};
use super::{common, filter};
use crate::network::{self, LinkPlan};

/// The environment variable that carries the plan to the launching process.
pub(crate) const PLAN: &str = "SPRITESD_LAUNCH";
/// Where the agent's program lies inside.
const AGENT: &str = "/.sprite/agent";
/// Where the parts are mounted for the guest's user to reach; hides whatever the host has there.
const STAGE: &str = "/mnt";

const OPEN_FILES: u64 = 65_536;
const PROCESSES: u64 = 8_192;

/// What one guest is made of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LaunchPlan {
    /// Host name inside.
    pub(crate) hostname: String,
    /// Where the parts lie; see [`Parts`].
    pub(crate) parts: Parts,
    /// Mount namespace to look the files up in, if not our own.
    pub(crate) mounts: Option<PathBuf>,
    /// The link to the outside; none is a network of its own with nothing in it.
    pub(crate) link: Option<LinkPlan>,
    /// Control groups to join, by writing our process id.
    pub(crate) groups: Vec<PathBuf>,
    /// Host user to become; none when the daemon itself is no superuser.
    pub(crate) user: Option<u32>,
    /// Whether the host's system directories get layers of the Sprite's own; else they are read-only.
    pub(crate) layered: bool,
    /// The program to run as the first process, its loader's name and its arguments.
    pub(crate) agent: PathBuf,
    pub(crate) loader: Option<String>,
    pub(crate) agent_args: Vec<String>,
}

/// The directories and files of a Sprite that are mounted inside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Parts {
    /// Holds `root`, `home`, `workspace` and `tmp`, which the guest may write, and `system`, the layers over the host's
    /// directories.
    pub(crate) files: PathBuf,
    /// Where the host's directories are mounted with their layers.
    pub(crate) system: Option<PathBuf>,
    /// What all guests have at `/.sprite`.
    pub(crate) common: PathBuf,
    /// Copies of that, read-only.
    pub(crate) checkpoints: PathBuf,
    /// Holds `etc`, `policy` and `logs`, read-only, and the socket `run/api.sock`.
    pub(crate) own: PathBuf,
}

/// The parts: where below the two directories, and where inside.
const WRITABLE: [(&str, &str); 3] = [("home", "/home/sprite"), ("workspace", "/workspace"), ("tmp", "/tmp")];
const READABLE: [(&str, &str); 4] =
    [("etc", "/etc"), ("policy", "/.sprite/policy"), ("logs", "/.sprite/logs"), ("run/api.sock", "/.sprite/api.sock")];
/// The tree at `/`.
const ROOT: &str = "root";
/// Bytes of `/run`, which is memory.
const RUN_BYTES: u64 = 64 << 20;
/// Where the copies are inside.
const CHECKPOINTS: &str = "/.sprite/checkpoints";

/// Becomes `bwrap`; returns only when that failed.
pub(crate) fn run() -> io::Error {
    match std::env::var(PLAN).map_err(io::Error::other).and_then(|text| Ok(serde_json::from_str(&text)?)) {
        Ok(plan) => become_guest(&plan),
        Err(error) => error,
    }
}

fn become_guest(plan: &LaunchPlan) -> io::Error {
    let prepare = || {
        for group in &plan.groups {
            std::fs::write(group, std::process::id().to_string())?;
        }
        // Before the network: it goes on meanwhile.
        let layers = match plan.user {
            Some(user) => enter_stage(plan, user)?,
            None => None,
        };
        if let Some(link) = &plan.link {
            network::enter(link)?;
        }
        root::prepare(&plan.parts.files.join(ROOT), &plan.parts.own.join("etc"), plan.user)?;
        let staged = if plan.user.is_some() { stage(plan, layers)? } else { plan.clone() };
        limit(staged.user.is_some())?;
        // After the wrapper has looked for inherited descriptors: this one is to be inherited, by bwrap.
        Ok((staged, wrapper()?, filter_file()?))
    };
    let (staged, mut command, filter) = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => return error,
    };
    command.arg("bwrap").args(arguments(&staged, &filter.as_raw_fd().to_string()));
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").current_dir("/");
    if let Some(user) = staged.user {
        // std drops all supplementary groups when it changes the user of a superuser's process.
        command.uid(user).gid(user);
    }
    command.exec()
}

/// A command that runs its arguments without what this process inherited from whoever started the server:
/// ignored signals (a shell's background job ignores SIGINT, and so would every program of the guest) and open
/// descriptors. Closing those here would take unsafe code, so a shell does it; usually there are none.
fn wrapper() -> io::Result<Command> {
    let inherited = inherited_descriptors()?;
    let mut command = Command::new("env");
    if !inherited.is_empty() {
        command = Command::new("bash");
        let closing: String =
            inherited.iter().flat_map(|fd| [" ".to_owned(), fd.to_string(), ">&-".to_owned()]).collect();
        command.args(["--noprofile", "--norc", "-c", &format!("exec env \"$@\"{closing}"), "launch"]);
    }
    if ignores_signals() {
        command.arg("--default-signal");
    }
    Ok(command)
}

/// Descriptors above the standard ones that a program started from here would get.
fn inherited_descriptors() -> io::Result<Vec<u32>> {
    const CLOEXEC: u32 = 0o2_000_000;
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fdinfo")? {
        let entry = entry?;
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Gone again: the directory's own.
        let Ok(info) = std::fs::read_to_string(entry.path()) else {
            continue;
        };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        if number > 2 && flags.is_none_or(|flags| flags & CLOEXEC == 0) {
            found.push(number);
        }
    }
    Ok(found)
}

/// Whether this process ignores a signal besides SIGPIPE, which std restores by itself.
fn ignores_signals() -> bool {
    const PIPE: u64 = 1 << 12;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & !PIPE != 0)
}

/// Makes `STAGE` a place of this process and what it becomes only, and begins the layers there.
fn enter_stage(plan: &LaunchPlan, user: u32) -> io::Result<Option<Layers>> {
    if let Some(mounts) = &plan.mounts {
        let mounts = File::open(mounts)?;
        // Whose working directory is shared with another thread may not change its mount namespace.
        unshare(UnshareFlags::FS)?;
        move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
    }
    unshare(UnshareFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("tmpfs", STAGE, "tmpfs", MountFlags::NODEV | MountFlags::NOSUID, Some(c"mode=0755,size=1m"))?;
    plan.layered.then(|| Layers::begin(Path::new(STAGE).join("host"), user)).transpose()
}

/// Mounts the parts of the Sprite under `STAGE`.
fn stage(plan: &LaunchPlan, layers: Option<Layers>) -> io::Result<LaunchPlan> {
    let stage = Path::new(STAGE);
    let place = |from: &Path, name: &str| {
        let target = stage.join(name);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        if from.is_dir() {
            std::fs::create_dir(&target)?;
        } else {
            File::create(&target)?;
        }
        mount_bind(from, &target)?;
        io::Result::Ok(target)
    };
    let files = &plan.parts.files;
    for (part, _) in WRITABLE.into_iter().chain([(ROOT, "/")]) {
        place(&files.join(part), part)?;
    }
    for (part, _) in READABLE {
        place(&plan.parts.own.join(part), part)?;
    }
    let system = match layers {
        Some(layers) => {
            let upper = files.join("system");
            std::fs::create_dir_all(&upper)?;
            let at = stage.join("system");
            layers.mount(&place(&upper, "layers")?, &at)?;
            Some(at)
        }
        None => None,
    };
    let parts = Parts {
        files: stage.into(),
        own: stage.into(),
        checkpoints: place(&plan.parts.checkpoints, "checkpoints")?,
        common: place(&plan.parts.common, "common")?,
        system,
    };
    let agent = place(&plan.agent, "agent")?;
    Ok(LaunchPlan { parts, agent, ..plan.clone() })
}

#[expect(deprecated, reason = "mounts and directories are no descriptors, which is what the deprecation is about")]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    Ok(rustix::thread::unshare(flags)?)
}

/// A file with the system call filter, at its beginning, that survives `exec`.
fn filter_file() -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("filter", MemfdFlags::empty())?);
    file.write_all(&filter::program())?;
    file.rewind()?;
    Ok(file)
}

fn limit(own_user: bool) -> io::Result<()> {
    let cap = |resource, wanted: u64| {
        let hard = getrlimit(resource).maximum;
        let value = Some(hard.map_or(wanted, |hard| hard.min(wanted)));
        setrlimit(resource, Rlimit { current: value, maximum: value })
    };
    cap(Resource::Core, 0)?;
    cap(Resource::Nofile, OPEN_FILES)?;
    if own_user {
        // Counted per user: without a user of its own the guest would be charged for everybody's processes.
        cap(Resource::Nproc, PROCESSES)?;
    }
    Ok(())
}

/// The arguments of `bwrap`.
fn arguments(plan: &LaunchPlan, filter: &str) -> Vec<OsString> {
    let mut list: Vec<OsString> = Vec::new();
    let mut add = |words: &[&dyn AsRef<std::ffi::OsStr>]| {
        list.extend(words.iter().map(|w| (*w).as_ref().to_owned()));
    };
    for flag in ["user", "pid", "ipc", "uts", "cgroup"] {
        add(&[&format!("--unshare-{flag}")]);
    }
    if plan.link.is_none() {
        add(&[&"--unshare-net"]);
    }
    add(&[&"--disable-userns", &"--as-pid-1", &"--new-session", &"--die-with-parent", &"--clearenv"]);
    add(&[&"--seccomp", &filter]);
    add(&[&"--uid", &"1000", &"--gid", &"1000", &"--hostname", &plan.hostname]);
    let parts = &plan.parts;
    // First: all else is mounted in it.
    add(&[&"--bind", &parts.files.join(ROOT), &"/"]);
    for path in directories() {
        match &parts.system {
            Some(system) => add(&[&"--bind", &inside(system, path), &path]),
            None => add(&[&"--ro-bind", &path, &path]),
        }
    }
    add(&[&"--proc", &"/proc", &"--dev", &"/dev"]);
    add(&[&"--perms", &"0755", &"--size", &RUN_BYTES.to_string(), &"--tmpfs", &"/run"]);
    add(&[&"--ro-bind", &parts.common, &"/.sprite"]);
    for (part, inside) in READABLE.into_iter().filter(|(_, inside)| *inside != "/etc") {
        add(&[&"--ro-bind", &parts.own.join(part), &inside]);
    }
    for name in FIXED_ETC {
        let file = Path::new("etc").join(name);
        add(&[&"--ro-bind-try", &parts.own.join(&file), &Path::new("/").join(file)]);
    }
    for (part, inside) in WRITABLE {
        add(&[&"--bind", &parts.files.join(part), &inside]);
    }
    add(&[&"--ro-bind", &parts.checkpoints, &CHECKPOINTS]);
    add(&[&"--ro-bind", &plan.agent, &AGENT, &"--chdir", &"/", &"--"]);
    if let Some(loader) = &plan.loader {
        add(&[&Path::new(common::LIBRARIES).join(loader), &"--library-path", &common::LIBRARIES]);
    }
    add(&[&AGENT]);
    list.extend(plan.agent_args.iter().map(OsString::from));
    list
}
