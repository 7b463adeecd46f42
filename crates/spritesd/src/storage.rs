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
        let plain = Self { root: data.join("files"), mounts: None, limit: None, layered: false };
        let mut storage = plain;
        if let (Some(mounts), Some(limit)) = (mounts, limit) {
            let disk = Self { root: data.join("disk"), mounts: Some(mounts), limit: Some(limit), layered: false };
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
        for id in self.run("list", &[]).await?.lines().filter(|id| id.starts_with("sprite-")) {
            let what = if ids.iter().any(|known| known == id) { "recover" } else { "remove" };
            self.run(what, &[id]).await?;
        }
        Ok(())
    }

    /// Makes the files of a new Sprite, owned by `user`.
    pub(crate) async fn create(&self, id: &str, user: Option<u32>) -> io::Result<()> {
        let owner = user.map_or_else(|| "none".to_owned(), |user| user.to_string());
        self.run("create", &[id, &owner]).await.map(drop)
    }

    /// Removes all of a Sprite.
    pub(crate) async fn remove(&self, id: &str) -> io::Result<()> {
        self.run("remove", &[id]).await.map(drop)
    }

    /// Copies the files as they are now.
    pub(crate) async fn snapshot(&self, id: &str, checkpoint: &str) -> io::Result<()> {
        self.run("snapshot", &[id, checkpoint]).await.map(drop)
    }

    /// Puts a copy in the place of the files. Nothing may be using them.
    pub(crate) async fn restore(&self, id: &str, checkpoint: &str) -> io::Result<()> {
        self.run("restore", &[id, checkpoint]).await.map(drop)
    }

    /// Removes a copy.
    pub(crate) async fn forget(&self, id: &str, checkpoint: &str) -> io::Result<()> {
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
mod tests {
    use super::*;
    use crate::namespace_holder::NamespaceHolder;

    async fn both() -> Vec<(Storage, tempfile::TempDir, Option<NamespaceHolder>)> {
        let mut all = Vec::new();
        for limit in [None, Some(8 << 20)] {
            let data = tempfile::tempdir().unwrap();
            let holder = match limit {
                None => None,
                Some(_) => Some(NamespaceHolder::start(false, &[]).await.unwrap()),
            };
            let mounts = holder.as_ref().map(NamespaceHolder::mounts);
            let storage = Storage::open(data.path(), mounts, limit).await.unwrap();
            assert_eq!(storage.limit, limit);
            all.push((storage, data, holder));
        }
        all
    }

    /// Runs a script in the directory of a Sprite, as the storage sees it.
    async fn sh(storage: &Storage, id: &str, script: &str) -> String {
        let mounts = storage.mounts.clone().unwrap_or_else(|| "/proc/self/ns/mnt".into());
        let script = format!("cd {} && {script}", storage.directory(id).display());
        let mount = format!("--mount={}", mounts.display());
        let output = Command::new("nsenter").args([&mount, "--", "sh", "-c", &script]).output().await.unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[tokio::test]
    async fn a_copy_is_not_touched_by_later_writes_and_comes_back() {
        for (storage, _data, _holder) in both().await {
            storage.create("sprite-1", None).await.unwrap();
            sh(&storage, "sprite-1", "echo first > fs/home/a").await;
            storage.snapshot("sprite-1", "v1").await.unwrap();
            sh(&storage, "sprite-1", "echo second > fs/home/a; echo new > fs/workspace/b").await;
            assert_eq!(sh(&storage, "sprite-1", "cat checkpoints/v1/home/a fs/home/a").await, "first\nsecond");
            storage.restore("sprite-1", "v1").await.unwrap();
            assert_eq!(sh(&storage, "sprite-1", "cat fs/home/a; ls fs/workspace; ls").await, "first\ncheckpoints\nfs");
            storage.forget("sprite-1", "v1").await.unwrap();
            assert_eq!(sh(&storage, "sprite-1", "ls checkpoints; cat fs/home/a").await, "first");
            storage.remove("sprite-1").await.unwrap();
            storage.remove("sprite-1").await.unwrap();
            assert_eq!(storage.run("list", &[]).await.unwrap(), "");
        }
    }

    #[tokio::test]
    async fn what_a_crash_left_is_completed_or_removed() {
        for (storage, _data, _holder) in both().await {
            storage.create("sprite-1", None).await.unwrap();
            storage.create("sprite-2", None).await.unwrap();
            // Died in the middle of a restore, before the new files had their name.
            sh(&storage, "sprite-1", "echo kept > fs/home/a; mv fs old").await;
            storage.recover(&["sprite-1".into()]).await.unwrap();
            assert_eq!(sh(&storage, "sprite-1", "cat fs/home/a; ls").await, "kept\ncheckpoints\nfs");
            assert_eq!(storage.run("list", &[]).await.unwrap().trim(), "sprite-1");
        }
    }

    #[tokio::test]
    async fn a_full_sprite_leaves_space_to_the_others_and_the_limit_outlives_a_restore() {
        let (storage, _data, _holder) = both().await.pop().unwrap();
        storage.create("sprite-1", None).await.unwrap();
        storage.create("sprite-2", None).await.unwrap();
        storage.snapshot("sprite-1", "v0").await.unwrap();
        storage.restore("sprite-1", "v0").await.unwrap();
        let write = "head -c 20000000 /dev/zero > fs/home/big 2>/dev/null && echo written || echo refused";
        assert_eq!(sh(&storage, "sprite-1", write).await, "refused");
        assert_eq!(sh(&storage, "sprite-2", "head -c 1000000 /dev/zero > fs/home/a && echo written").await, "written");
        assert!(storage.fill("sprite-2").await.unwrap());
        let more = "head -c 1000000 /dev/zero > fs/home/b 2>/dev/null && sync -f fs && echo written || echo refused";
        assert_eq!(sh(&storage, "sprite-2", more).await, "refused");
        storage.relieve("sprite-2").await.unwrap();
        assert_eq!(sh(&storage, "sprite-2", more).await, "written");
    }

    #[tokio::test]
    async fn files_on_the_image_are_there_again_after_the_holder_is_gone() {
        let data = tempfile::tempdir().unwrap();
        let mut holder = NamespaceHolder::start(false, &[]).await.unwrap();
        let storage = Storage::open(data.path(), Some(holder.mounts()), Some(8 << 20)).await.unwrap();
        storage.create("sprite-1", None).await.unwrap();
        sh(&storage, "sprite-1", "echo kept > fs/home/a").await;
        holder.stop().await;
        let holder = NamespaceHolder::start(false, &[]).await.unwrap();
        let storage = Storage::open(data.path(), Some(holder.mounts()), Some(8 << 20)).await.unwrap();
        storage.recover(&["sprite-1".into()]).await.unwrap();
        assert_eq!(sh(&storage, "sprite-1", "cat fs/home/a").await, "kept");
    }
}
