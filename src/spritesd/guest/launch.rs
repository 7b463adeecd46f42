//! The step between the daemon and bubblewrap: a process of its own that becomes `bwrap`.
//!
//! It exists because (a) the guest must run as a host user that is not the daemon's, and that user may not be able
//! to reach the data directory by its path, so the parts of it are mounted where it can, in a mount namespace of
//! this process alone; (b) limits and identity are set on a process with one thread, never on the daemon.
//! It must not hold or pass on anything of the daemon but its standard streams.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::UnshareFlags;
use serde::{Deserialize, Serialize};

/// The environment variable that carries the plan to the launching process.
pub(crate) const PLAN: &str = "SPRITESD_LAUNCH";
/// Where the agent's program lies inside.
const AGENT: &str = "/.sprite/agent";
/// Where the parts are mounted for the guest's user to reach; hides whatever the host has there.
const STAGE: &str = "/mnt";

/// Host files the guest may see, read-only, besides `/usr`. None of them is secret.
const SHARED_ETC: [&str; 7] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ssl",
    "/etc/terminfo",
];
/// The directories beside `/usr` which are links into it on a merged host.
const ROOTS: [&str; 7] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/libexec"];

const OPEN_FILES: u64 = 65_536;
const PROCESSES: u64 = 8_192;

/// What one guest is made of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LaunchPlan {
    /// Host name inside.
    pub(crate) hostname: String,
    /// The Sprite's directory, with `home`, `workspace`, `tmp` and `etc`.
    pub(crate) directory: PathBuf,
    /// Host user to become; none when the daemon itself is no superuser.
    pub(crate) user: Option<u32>,
    /// The program to run as the first process, and its arguments.
    pub(crate) agent: PathBuf,
    pub(crate) agent_args: Vec<String>,
}

/// Becomes `bwrap`; returns only when that failed.
pub(crate) fn run() -> io::Error {
    match std::env::var(PLAN).map_err(io::Error::other).and_then(|text| Ok(serde_json::from_str(&text)?)) {
        Ok(plan) => become_guest(&plan),
        Err(error) => error,
    }
}

fn become_guest(plan: &LaunchPlan) -> io::Error {
    let staged = match plan.user {
        Some(_) => match stage(plan) {
            Ok(staged) => staged,
            Err(error) => return error,
        },
        None => plan.clone(),
    };
    if let Err(error) = limit(staged.user.is_some()) {
        return error;
    }
    let mut command = Command::new("bwrap");
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").current_dir("/").args(arguments(&staged));
    if let Some(user) = staged.user {
        // std drops all supplementary groups when it changes the user of a superuser's process.
        command.uid(user).gid(user);
    }
    command.exec()
}

/// Mounts the parts of the Sprite under `STAGE`, visible to this process and what it becomes only.
fn stage(plan: &LaunchPlan) -> io::Result<LaunchPlan> {
    #[expect(deprecated, reason = "a mount namespace does not touch descriptors, which is what the deprecation is about")]
    rustix::thread::unshare(UnshareFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("tmpfs", STAGE, "tmpfs", MountFlags::NODEV | MountFlags::NOSUID, Some(c"mode=0755,size=1m"))?;
    let stage = Path::new(STAGE);
    for part in PARTS {
        let target = stage.join(part);
        std::fs::create_dir(&target)?;
        mount_bind(&plan.directory.join(part), &target)?;
    }
    let agent = stage.join("agent");
    std::fs::File::create(&agent)?;
    mount_bind(&plan.agent, &agent)?;
    Ok(LaunchPlan { directory: stage.into(), agent, ..plan.clone() })
}

/// The directories of a Sprite that are mounted inside.
pub(crate) const PARTS: [&str; 4] = ["home", "workspace", "tmp", "etc"];

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
fn arguments(plan: &LaunchPlan) -> Vec<OsString> {
    let mut list: Vec<OsString> = Vec::new();
    let mut add = |words: &[&dyn AsRef<std::ffi::OsStr>]| list.extend(words.iter().map(|w| (*w).as_ref().to_owned()));
    for flag in ["user", "pid", "ipc", "uts", "net", "cgroup"] {
        add(&[&format!("--unshare-{flag}")]);
    }
    add(&[&"--disable-userns", &"--as-pid-1", &"--new-session", &"--die-with-parent", &"--clearenv"]);
    add(&[&"--uid", &"1000", &"--gid", &"1000", &"--hostname", &plan.hostname]);
    add(&[&"--ro-bind", &"/usr", &"/usr"]);
    for root in ROOTS {
        match std::fs::read_link(root) {
            Ok(target) => add(&[&"--symlink", &target, &root]),
            Err(_) => add(&[&"--ro-bind-try", &root, &root]),
        }
    }
    add(&[&"--ro-bind", &plan.directory.join("etc"), &"/etc"]);
    for path in SHARED_ETC {
        // A target must exist in the generated /etc, which cannot be written any more.
        if plan.directory.join("etc").join(path.trim_start_matches("/etc/")).exists() {
            add(&[&"--ro-bind-try", &path, &path]);
        }
    }
    add(&[&"--proc", &"/proc", &"--dev", &"/dev"]);
    add(&[&"--dir", &"/run", &"--dir", &"/var", &"--symlink", &"/tmp", &"/var/tmp", &"--symlink", &"/run", &"/var/run"]);
    add(&[&"--bind", &plan.directory.join("home"), &"/home/sprite"]);
    add(&[&"--bind", &plan.directory.join("workspace"), &"/workspace"]);
    add(&[&"--bind", &plan.directory.join("tmp"), &"/tmp"]);
    add(&[&"--ro-bind", &plan.agent, &AGENT]);
    // Last: what is not a mount of its own belongs to nobody inside.
    add(&[&"--remount-ro", &"/", &"--chdir", &"/", &"--", &AGENT]);
    list.extend(plan.agent_args.iter().map(OsString::from));
    list
}

/// Writes the minimal `/etc` of a guest.
pub(crate) fn write_etc(etc: &Path, hostname: &str) -> io::Result<()> {
    std::fs::create_dir_all(etc)?;
    let file = |name: &str, text: &str| std::fs::write(etc.join(name), text);
    file("passwd", "root:x:0:0:root:/:/usr/sbin/nologin\nsprite:x:1000:1000:sprite:/home/sprite:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n")?;
    file("group", "root:x:0:\nsprite:x:1000:\nnogroup:x:65534:\n")?;
    file("hostname", &format!("{hostname}\n"))?;
    file("hosts", &format!("127.0.0.1 localhost {hostname}\n::1 localhost {hostname}\n"))?;
    file("resolv.conf", "# no network\n")?;
    file("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")?;
    file("profile", "# nothing\n")?;
    for path in SHARED_ETC {
        let target = etc.join(path.trim_start_matches("/etc/"));
        match std::fs::metadata(path) {
            Ok(host) if host.is_dir() => std::fs::create_dir_all(target)?,
            Ok(_) => drop(std::fs::File::create(target)?),
            Err(_) => {}
        }
    }
    if let Ok(zone) = std::fs::read_link("/etc/localtime") {
        let link = etc.join("localtime");
        if !link.is_symlink() {
            std::os::unix::fs::symlink(zone, link)?;
        }
    }
    Ok(())
}
