//! The `/etc` that a guest begins with. Holds nothing secret and nothing of the host but what programs need to load.

use std::io;
use std::path::Path;

/// Host files of which the guest gets a copy, if everybody may read them.
pub(super) const COPIED: [&str; 2] = ["/etc/ld.so.conf", "/etc/ssl/openssl.cnf"];

/// Writes the `/etc` that a guest begins with.
pub(crate) fn write_etc(etc: &Path, hostname: &str) -> io::Result<()> {
    std::fs::create_dir_all(etc)?;
    let file = |name: &str, text: &str| std::fs::write(etc.join(name), text);
    file(
        "passwd",
        "root:x:0:0:root:/root:/bin/bash\nsprite:x:1000:1000:sprite:/home/sprite:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
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
    if let Ok(zone) = std::fs::read_link("/etc/localtime") {
        let link = etc.join("localtime");
        if !link.is_symlink() {
            std::os::unix::fs::symlink(zone, link)?;
        }
    }
    Ok(())
}

/// Writes the files that stay the server's: whom programs ask for addresses (the resolver, or nobody), and that nothing
/// is loaded beforehand.
pub(crate) fn write_resolver(etc: &Path, server: Option<std::net::IpAddr>) -> io::Result<()> {
    let text = match server {
        Some(server) => format!("nameserver {server}\noptions timeout:2 attempts:2\n"),
        None => "# no network\n".to_owned(),
    };
    std::fs::write(etc.join("resolv.conf"), text)?;
    std::fs::write(etc.join("ld.so.preload"), "")
}
