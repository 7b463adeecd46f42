//! The minimal `/etc` of a guest. Holds nothing secret and nothing of the host but what programs need to load.

use std::io;
use std::path::Path;

/// Host files the guest may see, read-only, besides `/usr`. None of them is secret.
pub(super) const SHARED_ETC: [&str; 6] =
    ["/etc/alternatives", "/etc/ca-certificates", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ssl", "/etc/terminfo"];
/// Writes the minimal `/etc` of a guest.
pub(crate) fn write_etc(etc: &Path, hostname: &str) -> io::Result<()> {
    std::fs::create_dir_all(etc)?;
    let file = |name: &str, text: &str| std::fs::write(etc.join(name), text);
    file(
        "passwd",
        "root:x:0:0:root:/:/usr/sbin/nologin\nsprite:x:1000:1000:sprite:/home/sprite:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    )?;
    file("group", "root:x:0:\nsprite:x:1000:\nnogroup:x:65534:\n")?;
    file("hostname", &format!("{hostname}\n"))?;
    file("hosts", &format!("127.0.0.1 localhost {hostname}\n::1 localhost {hostname}\n"))?;
    file("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")?;
    file("profile", "# nothing\n")?;
    // A copy of its own, so that opening it tells which guest does.
    match std::fs::copy("/etc/ld.so.cache", etc.join("ld.so.cache")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(_) | Err(_) => {}
    }
    write_resolver(etc, None)?;
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

/// Writes whom programs ask for addresses: the resolver, or nobody.
pub(crate) fn write_resolver(etc: &Path, server: Option<std::net::IpAddr>) -> io::Result<()> {
    let text = match server {
        Some(server) => format!("nameserver {server}\noptions timeout:2 attempts:2\n"),
        None => "# no network\n".to_owned(),
    };
    std::fs::write(etc.join("resolv.conf"), text)
}
