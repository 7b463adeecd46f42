//! The host's system directories as a Sprite has them: a layer of its own over what the host brings, which stays as it
//! is.
//!
//! The guest's user is one that the host knows nothing of, and could change nothing in a plain overlay of directories
//! that belong to the host's superuser. So what is below shows the superuser's files as the guest's (an id-mapped
//! mount). This happens in the mount namespace of the launching process: nothing of it outlives the guest.
//! Must not decide what a guest without layers gets.

use std::ffi::CString;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::mount::{MountFlags, mount};

/// Shows directories with another owner.
pub(crate) const IDMAP: &str = include_str!("idmap.pl");
/// What of the host a guest sees, beside the directories that are links into `/usr` on a merged host. Everybody may read
/// it: a guest has the rights of an owner there.
const DIRECTORIES: [&str; 6] =
    ["/usr", "/etc/alternatives", "/etc/ca-certificates", "/etc/ld.so.conf.d", "/etc/ssl/certs", "/etc/terminfo"];
const ROOTS: [&str; 7] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/libexec"];

/// The directories of the host that a guest sees.
pub(super) fn directories() -> Vec<&'static str> {
    let roots = ROOTS.into_iter().filter(|root| !Path::new(root).is_symlink());
    DIRECTORIES.into_iter().chain(roots).filter(|path| Path::new(path).is_dir()).collect()
}

/// The links beside them, with their targets.
pub(super) fn links() -> Vec<(&'static str, PathBuf)> {
    ROOTS.into_iter().filter_map(|root| Some((root, std::fs::read_link(root).ok()?))).collect()
}

/// The number of the system call `unshare`; none where we have not looked it up.
pub(crate) fn unshare_number() -> Option<u32> {
    match std::env::consts::ARCH {
        "x86_64" => Some(272),
        "aarch64" | "riscv64" | "loongarch64" => Some(97),
        _ => None,
    }
}

/// The layers of a Sprite on their way: what shows the host's directories as its guest's works beside us.
pub(super) struct Layers {
    directories: Vec<&'static str>,
    user: u32,
    child: Child,
    /// Where the host's directories are shown.
    below: PathBuf,
}

impl Layers {
    /// Begins, with `below` to mount at.
    pub(super) fn begin(below: PathBuf, user: u32) -> io::Result<Self> {
        let directories = directories();
        let number = unshare_number().ok_or(io::ErrorKind::Unsupported)?;
        let mut command = Command::new("perl");
        command.args(["-e", IDMAP, &number.to_string(), &user.to_string()]);
        for path in &directories {
            let shown = inside(&below, path);
            std::fs::create_dir_all(&shown)?;
            command.arg(path).arg(shown);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        Ok(Self { directories, user, child, below })
    }

    /// Mounts the directories with the Sprite's layers, which lie in `upper`, each at its own path below `at`.
    pub(super) fn mount(self, upper: &Path, at: &Path) -> io::Result<()> {
        let Self { directories, user, child, below } = self;
        for path in &directories {
            let (own, target) = (inside(upper, path), inside(at, path));
            let top = own.join("files");
            std::fs::create_dir_all(&target)?;
            if !top.exists() {
                let part = own.join("files.part");
                std::fs::create_dir_all(own.join("work"))?;
                std::fs::create_dir_all(&part)?;
                // The top of a layer is what shows: it has to look like the host's.
                std::fs::set_permissions(&part, Permissions::from_mode(std::fs::metadata(path)?.mode() & 0o777))?;
                chown(&part, Some(user), Some(user))?;
                std::fs::rename(part, &top)?;
            }
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        for path in &directories {
            let (own, target) = (inside(upper, path), inside(at, path));
            let options = format!(
                "lowerdir={},upperdir={},workdir={},index=off,metacopy=off,redirect_dir=off",
                inside(&below, path).display(),
                own.join("files").display(),
                own.join("work").display(),
            );
            let options = CString::new(options)?;
            let flags = MountFlags::NODEV | MountFlags::NOSUID;
            mount("overlay", target, "overlay", flags, Some(options.as_c_str()))?;
        }
        Ok(())
    }
}

/// The place of an absolute path in another tree.
pub(super) fn inside(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}
