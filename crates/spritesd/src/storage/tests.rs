//! The storage of a server with sandboxes: plain, and on an image.

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
