//! The files guests write, and copies of them: one `fs` a Sprite with home, workspace and tmp, and its checkpoints. The
//! step that starts a guest adds the rest of its tree to `fs`: `root`, and `system`, the layers over the host's files.
//!
//! On a btrfs image mounted in the holder's namespace, each `fs` is a subvolume with a size limit and a checkpoint is
//! a snapshot. Where that is not to be had they are plain directories and copies, without a limit. The daemon never
//! opens a path below the root itself: a guest may have put links there. All work is done by short scripts, which
//! leave either all of an operation or none of it, also when they are killed.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;
use tracing::{info, warn};

use super::guest::layers::{IDMAP, unshare_number};
use super::instant::trees;
use super::sprite::blocking;
use super::store::FIRST_USER;

/// Of the image, which is sparse: what is not written takes no space.
const IMAGE_BYTES: u64 = 64 << 30;

/// All operations. `$1` what to do, `$2` the root, `$3` the limit in bytes or `none` (plain directories), then the
/// Sprite's id and more.
const SCRIPT: &str = r#"
set -eu
what=$1 root=$2 limit=$3; shift 3

volume() { if [ "$limit" = none ]; then mkdir "$1"; else btrfs -q subvolume create "$1"; bound "$1"; fi; }
bound() { [ "$limit" = none ] || btrfs qgroup limit "$limit" "$1"; }
discard() {
    [ -e "$1" ] || return 0
    if [ "$limit" = none ]; then rm -rf "$1" || { find "$1" -type d ! -perm -700 -exec chmod u+rwx {} +; rm -rf "$1"; }
    else
        id=$(btrfs inspect-internal rootid "$1")
        btrfs -q subvolume delete "$1" || { rm -rf "$1"/* "$1"/.[!.]* 2>/dev/null; btrfs -q subvolume delete "$1"; }
        btrfs qgroup destroy "0/$id" "$root" 2>/dev/null || true
    fi
}
copy() { # from, to, ro|rw
    rm -rf "$2.part" 2>/dev/null || discard "$2.part"
    if [ "$limit" = none ]; then cp -a --reflink=auto "$1" "$2.part"
    elif [ "$3" = ro ]; then btrfs -q subvolume snapshot -r "$1" "$2.part"
    else btrfs -q subvolume snapshot "$1" "$2.part"; bound "$2.part"; fi
    mv -T "$2.part" "$2"
}

case $what in
layer) # system call, owner, script: whether a Sprite's directory can be layered over one of the host
    rm -rf "$root/probe"; mkdir -p "$root/probe/lower" "$root/probe/upper" "$root/probe/work" "$root/probe/all"
    unshare --mount sh -euc 'perl -e "$3" "$1" "$2" /usr "$4/lower"
        mount -t overlay -o "index=off,metacopy=off,redirect_dir=off,lowerdir=$4/lower,upperdir=$4/upper,workdir=$4/work" \
            overlay "$4/all"' sh "$1" "$2" "$3" "$root/probe" || { code=$?; rm -rf "$root/probe"; exit "$code"; }
    rm -rf "$root/probe"
    ;;
format)
    mkdir -p "$root"
    [ -e "$1" ] || { truncate -s "$2" "$1.part"; mkfs.btrfs -q "$1.part"; mv -T "$1.part" "$1"; }
    mount -o loop,noatime,nosuid,nodev "$1" "$root"
    btrfs quota enable "$root"
    ;;
create) # id, owner
    mkdir -p "$root/$1/checkpoints"
    volume "$root/$1/fs"
    cd "$root/$1/fs"
    mkdir home workspace tmp
    chmod 755 home workspace; chmod 1777 tmp
    [ "$2" = none ] || chown "$2:$2" home workspace tmp
    ;;
snapshot) copy "$root/$1/fs" "$root/$1/checkpoints/$2" ro ;;
restore)
    copy "$root/$1/checkpoints/$2" "$root/$1/new" rw
    mv -T "$root/$1/fs" "$root/$1/old"
    mv -T "$root/$1/new" "$root/$1/fs"
    discard "$root/$1/old"
    ;;
forget) discard "$root/$1/checkpoints/$2" ;;
recover)
    [ -e "$root/$1/fs" ] || mv -T "$root/$1/old" "$root/$1/fs"
    discard "$root/$1/old"; discard "$root/$1/new"; discard "$root/$1/new.part"
    for part in "$root/$1"/checkpoints/*.part; do discard "$part"; done
    ;;
remove)
    [ -e "$root/$1" ] || exit 0
    for one in "$root/$1"/checkpoints/* "$root/$1/fs" "$root/$1/old" "$root/$1/new" "$root/$1/new.part"; do discard "$one"; done
    rm -rf "$root/$1"
    ;;
list) [ ! -d "$root" ] || ls "$root" ;;
full) used=$(btrfs qgroup show --raw -f "$root/$1/fs" | awk '$1 ~ /^0\// {print $2}'); btrfs qgroup limit "$((used + 4096))" "$root/$1/fs" ;;
roomy) # asked of the root: a full subvolume has no space for its own new limit either
    btrfs qgroup limit "$limit" "0/$(btrfs inspect-internal rootid "$root/$1/fs")" "$root"
    ;;
esac
"#;

/// Where the files of all Sprites are.
#[derive(Debug)]
pub(crate) struct Storage {
    /// The files of instant Sprites, which no guest writes: no process is started for them.
    instant: bool,
    root: PathBuf,
    /// The mount namespace the root is to be looked up in, if not our own.
    mounts: Option<PathBuf>,
    /// Bytes a Sprite may have; none on plain directories.
    limit: Option<u64>,
    /// Whether the files of a Sprite can be layered over directories of the host.
    layered: bool,
}

impl Storage {
    /// Opens or makes the storage of a server: on an image if `mounts` and `limit` are given and it can be had.
    pub(crate) async fn open(data: &Path, mounts: Option<PathBuf>, limit: Option<u64>) -> io::Result<Self> {
        let image = data.join("disk.img");
        let superuser = mounts.is_some();
        let plain = Self { instant: false, root: data.join("files"), mounts: None, limit: None, layered: false };
        let mut storage = plain;
        if let (Some(mounts), Some(limit)) = (mounts, limit) {
            let (root, mounts, limit) = (data.join("disk"), Some(mounts), Some(limit));
            let disk = Self { instant: false, root, mounts, limit, layered: false };
            match disk.run("format", &[&image.to_string_lossy(), &IMAGE_BYTES.to_string()]).await {
                Ok(_) => storage = disk,
                // Files that are on the image cannot be served from elsewhere.
                Err(error) if image.exists() => return Err(error),
                Err(error) => warn!(%error, "no disk image"),
            }
        }
        if let Some(limit) = storage.limit {
            info!("disk limit: {limit} bytes a Sprite");
        } else {
            warn!("disk limit: none (it needs a superuser, loop devices and btrfs-progs)");
            std::fs::create_dir_all(&storage.root)?;
            std::fs::set_permissions(&storage.root, std::fs::Permissions::from_mode(0o755))?;
        }
        let probed = if superuser { storage.probe_layers().await } else { Err(io::ErrorKind::PermissionDenied.into()) };
        match &probed {
            Ok(()) => info!("system directories of a guest: its own to change"),
            Err(error) => warn!(%error, "system directories of a guest: read-only"),
        }
        storage.layered = probed.is_ok();
        Ok(storage)
    }

    /// Opens or makes the storage of a server with instant Sprites.
    pub(crate) async fn open_instant(data: &Path) -> io::Result<Self> {
        let root = data.join(trees::ROOT);
        let opened = root.clone();
        blocking(move || trees::open(&opened)).await?;
        Ok(Self { instant: true, root, mounts: None, limit: None, layered: false })
    }

    async fn probe_layers(&self) -> io::Result<()> {
        let number = unshare_number().ok_or(io::ErrorKind::Unsupported)?;
        self.run("layer", &[&number.to_string(), &FIRST_USER.to_string(), IDMAP]).await.map(drop)
    }

    /// Whether the files of a Sprite can be layered over directories of the host.
    pub(crate) fn layered(&self) -> bool {
        self.layered
    }

    /// Removes what belongs to no Sprite and completes what a crash has left half done.
    pub(crate) async fn recover(&self, ids: &[String]) -> io::Result<()> {
        if self.instant {
            let (root, ids) = (self.root.clone(), ids.to_vec());
            return blocking(move || trees::recover(&root, &ids)).await;
        }
        for id in self.run("list", &[]).await?.lines().filter(|id| id.starts_with("sprite-")) {
            let what = if ids.iter().any(|known| known == id) { "recover" } else { "remove" };
            self.run(what, &[id]).await?;
        }
        Ok(())
    }

    /// Makes the files of a new Sprite, owned by `user`.
    pub(crate) async fn create(&self, id: &str, user: Option<u32>) -> io::Result<()> {
        if self.instant {
            return self.tree(id, trees::create).await;
        }
        let owner = user.map_or_else(|| "none".to_owned(), |user| user.to_string());
        self.run("create", &[id, &owner]).await.map(drop)
    }

    /// Removes all of a Sprite.
    pub(crate) async fn remove(&self, id: &str) -> io::Result<()> {
        if self.instant {
            return self.tree(id, trees::remove).await;
        }
        self.run("remove", &[id]).await.map(drop)
    }

    /// Copies the files as they are now.
    pub(crate) async fn snapshot(&self, id: &str, checkpoint: &str) -> io::Result<()> {
        if self.instant {
            let checkpoint = checkpoint.to_owned();
            return self.tree(id, move |directory| trees::snapshot(directory, &checkpoint)).await;
        }
        self.run("snapshot", &[id, checkpoint]).await.map(drop)
    }

    /// Puts a copy in the place of the files. Nothing may be using them.
    pub(crate) async fn restore(&self, id: &str, checkpoint: &str) -> io::Result<()> {
        if self.instant {
            let checkpoint = checkpoint.to_owned();
            return self.tree(id, move |directory| trees::restore(directory, &checkpoint)).await;
        }
        self.run("restore", &[id, checkpoint]).await.map(drop)
    }

    /// Removes a copy.
    pub(crate) async fn forget(&self, id: &str, checkpoint: &str) -> io::Result<()> {
        if self.instant {
            let checkpoint = checkpoint.to_owned();
            return self.tree(id, move |directory| trees::forget(directory, &checkpoint)).await;
        }
        self.run("forget", &[id, checkpoint]).await.map(drop)
    }

    /// Leaves no space for more; false where there are no limits.
    pub(crate) async fn fill(&self, id: &str) -> io::Result<bool> {
        if self.limit.is_none() {
            return Ok(false);
        }
        self.run("full", &[id]).await.map(|_| true)
    }

    /// Undoes [`Storage::fill`].
    pub(crate) async fn relieve(&self, id: &str) -> io::Result<()> {
        self.run("roomy", &[id]).await.map(drop)
    }

    /// The directory of a Sprite, with `fs` and `checkpoints`, in [`Storage::mounts`].
    pub(crate) fn directory(&self, id: &str) -> PathBuf {
        self.root.join(id)
    }

    /// The mount namespace to enter before looking at a path; none when it is our own.
    pub(crate) fn mounts(&self) -> Option<&Path> {
        self.mounts.as_deref()
    }

    /// Does something with the directory of an instant Sprite.
    async fn tree(&self, id: &str, work: impl FnOnce(&Path) -> io::Result<()> + Send + 'static) -> io::Result<()> {
        let directory = self.directory(id);
        blocking(move || work(&directory)).await
    }

    async fn run(&self, what: &str, arguments: &[&str]) -> io::Result<String> {
        let limit = self.limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
        let mut command = match &self.mounts {
            Some(mounts) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--mount={}", mounts.display())).args(["--", "sh"]);
                command
            }
            None => Command::new("sh"),
        };
        command.args(["-c", SCRIPT, "storage", what]).arg(&self.root).arg(&limit).args(arguments);
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        let output = command.current_dir("/").stdin(Stdio::null()).output().await?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        // Those after the second can be long.
        let named: Vec<&str> = arguments.iter().take(2).copied().collect();
        Err(io::Error::other(format!("cannot {what} {}: {}", named.join(" "), said.trim())))
    }
}

#[cfg(test)]
mod tests;
