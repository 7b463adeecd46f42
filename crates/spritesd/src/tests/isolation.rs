//! What a guest cannot see or do.

use super::support::{Lab, TOKEN, eventually, processes_with};

#[tokio::test]
async fn the_host_is_not_there() {
    let lab = Lab::with("one").await;
    let token_file = lab.data.path().join("token");
    std::fs::write(&token_file, TOKEN).unwrap();
    let token_file = token_file.to_str().unwrap().to_owned();
    let here = std::env::current_dir().unwrap();
    let script = format!(
        "for path in {token_file} {} {} /etc/shadow /etc/ssl/private /sys /boot; do test -e \"$path\" && echo \"$path\"; done; ls -A /tmp /root /var/lib /opt /srv /mnt | grep -v -e : -e '^$'; true",
        lab.data.path().display(),
        here.display(),
    );
    assert_eq!(lab.client.sh("one", &script).await, "");
    // Nothing in the file system, the environment or the memory of the processes around.
    let needle = "secret-of-the-[t]ests";
    let search = format!(
        "grep -ral '{needle}' /home /workspace /tmp /etc /run /dev/shm /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null; true"
    );
    assert_eq!(lab.client.sh("one", &search).await, "");
    lab.server.stop().await;
}

#[tokio::test]
async fn the_agent_is_closed_to_the_guest() {
    let lab = Lab::with("one").await;
    let script = "
        for part in fd mem environ maps root cwd exe; do
            (ls -L /proc/1/$part/ || cat /proc/1/$part) >/dev/null 2>&1 && echo open $part
        done
        kill -9 1; kill -STOP 1; kill -TERM 1
        readlink /proc/self/fd/* | grep -v -e pipe: -e /dev/null -e '^/proc/'
        true";
    assert_eq!(lab.client.sh("one", script).await, "");
    let attach = "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.ptrace(16, 1, 0, 0), ctypes.get_errno())";
    if lab.client.run("one", &["python3", "-c", "pass"]).await.code == Some(0) {
        assert_eq!(lab.client.run("one", &["python3", "-c", attach]).await.out(), "-1 1\n");
    }
    assert_eq!(lab.client.run("one", &["true"]).await.code, Some(0));
    lab.server.stop().await;
}

#[tokio::test]
async fn the_guest_has_no_power() {
    let lab = Lab::with("one").await;
    let script = "
        grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status | tr -s '\\t' ' '
        for path in /.sprite/x /.sprite/bin/x /.sprite/agent /etc/resolv.conf /etc/ld.so.cache /etc/ld.so.preload /proc/sys/kernel/core_pattern /proc/sysrq-trigger /dev/x/y; do
            (echo > $path) 2>/dev/null && echo wrote $path
        done
        mv /etc/ld.so.cache /etc/moved 2>/dev/null && echo moved; rm /etc/ld.so.preload 2>/dev/null && echo removed
        unshare -U true 2>/dev/null && echo user namespace
        mount -t tmpfs none /tmp 2>/dev/null && echo mount
        ls /sys/class/net /proc/sys/net/ipv4/conf 2>/dev/null | grep -e eth -e ens -e wlan
        awk 'NR>2 {print $1}' /proc/net/dev
        (exec 3<>/dev/tcp/192.0.2.1/80) 2>/dev/null && echo network
        true";
    let expected = "CapEff: 0000000000000000\nCapBnd: 0000000000000000\nNoNewPrivs: 1\neth0\nlo:\neth0:\n";
    assert_eq!(lab.client.sh("one", script).await, expected);
    lab.server.stop().await;
}

#[tokio::test]
async fn two_sprites_do_not_meet() {
    let lab = Lab::with("one").await;
    lab.client.create("two").await;
    lab.client.sh("one", "for d in ~ /workspace /tmp /dev/shm; do echo of-one > $d/of-one; done").await;
    let mut busy = lab.client.start("one", &["bash", "-c", "echo up; exec -a of-one sleep 600"], &[]).await;
    busy.until("up").await;
    // The patterns do not match themselves in the command lines of those who search.
    let script = "
        find / -xdev -name 'of-on[e]*' 2>/dev/null
        find ~ /workspace /tmp /dev/shm -name 'of-on[e]*'
        grep -la 'of-on[e]' /proc/[0-9]*/cmdline
        ls /proc | grep -c '^[0-9]'";
    let found = lab.client.sh("two", script).await;
    assert_eq!(found.lines().count(), 1, "{found}");
    assert!(found.trim().parse::<u32>().unwrap() <= 4, "{found}");

    // Not the same user outside either, and not the daemon's.
    if rustix::process::geteuid().is_root() {
        use std::os::unix::fs::MetadataExt as _;
        let mut other = lab.client.start("two", &["bash", "-c", "echo up; exec -a of-two sleep 600"], &[]).await;
        other.until("up").await;
        let owner = async |mark: &str| {
            let found = || processes_with(mark).into_iter().next();
            eventually("the process is there", async || found().is_some()).await;
            std::fs::metadata(found().unwrap()).unwrap().uid()
        };
        let (one, two) = (owner("of-one\0").await, owner("of-two\0").await);
        assert!(one != two && one >= 700_000 && two >= 700_000, "{one} {two}");
    }
    // IPC: a message queue of one is not listed in two.
    lab.client.sh("one", "ipcmk -Q >/dev/null && ipcs -q | grep -q 0x").await;
    lab.client.sh("two", "! ipcs -q | grep -q 0x").await;
    lab.server.stop().await;
}

#[tokio::test]
async fn later_commands_join_the_same_sprite() {
    let lab = Lab::with("one").await;
    let mut first =
        lab.client.start("one", &["bash", "-c", "echo $$ > /tmp/pid; echo up; read line"], &[("stdin", "true")]).await;
    let id = first.id().await;
    first.until("up").await;
    // The session's id is the process id the guest itself sees.
    assert_eq!(lab.client.sh("one", "cat /tmp/pid; kill -9 $(cat /tmp/pid)").await.trim(), id);
    assert_eq!(first.finish().await.code, Some(137));
    lab.server.stop().await;
}
