//! The network as a guest sees it: TCP connections made inside it, and the sockets that listen there.
//!
//! Connections leave from the guest's own namespace, so whatever binds the guest binds them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde_json::{Value, json};

use super::agent_files::failure;
use super::protocol::Answer;
use crate::errors::FileError;

/// How long a connection may take, over all addresses of its host.
const CONNECT: Duration = Duration::from_secs(8);
/// Bound on a table of sockets.
const LARGEST_TABLE: usize = 4 << 20;
/// The state of a listening socket in the kernel's tables.
const LISTEN: &str = "0A";

/// Connects to the first address of a host that answers.
pub(super) fn connect(host: &str, port: u16) -> (Answer, Option<OwnedFd>) {
    let began = Instant::now();
    let attempt = || {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "no such host");
        for address in (host, port).to_socket_addrs()? {
            let left = CONNECT.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    };
    let connected = attempt().and_then(|stream| {
        stream.set_nodelay(true)?;
        Ok((stream.peer_addr()?, stream))
    });
    match connected {
        Ok((peer, stream)) => (Answer::Connected { peer: peer.to_string() }, Some(stream.into())),
        Err(error) => {
            let target = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
            let (code, text) = match Errno::from_io_error(&error) {
                Some(Errno::CONNREFUSED) => ("ECONNREFUSED", "connection refused"),
                Some(Errno::TIMEDOUT) => ("ETIMEDOUT", "connection timed out"),
                Some(Errno::NETUNREACH) => ("ENETUNREACH", "network is unreachable"),
                Some(Errno::HOSTUNREACH) => ("EHOSTUNREACH", "no route to host"),
                Some(_) => ("EIO", "cannot connect"),
                None if error.kind() == io::ErrorKind::TimedOut => ("ETIMEDOUT", "connection timed out"),
                None => ("ENOTFOUND", "host not found"),
            };
            (Answer::Failed(FileError::new(code, text, &target)), None)
        }
    }
}

/// Writes the listening sockets into the descriptor.
pub(super) fn ports(fds: Vec<OwnedFd>) -> Answer {
    let Some(output) = fds.into_iter().next() else {
        return Answer::Gone;
    };
    match listening().and_then(|ports| File::from(output).write_all(Value::from(ports).to_string().as_bytes())) {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Failed(failure(&error, "/proc/net/tcp")),
    }
}

fn listening() -> io::Result<Vec<Value>> {
    // What belongs to another user is not a program's of the guest, but of the network made for it.
    let user = rustix::process::getuid().as_raw();
    let mut found = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        match std::fs::read(table) {
            Ok(text) => found.extend(parse(&String::from_utf8_lossy(text.get(..LARGEST_TABLE).unwrap_or(&text)), user)),
            // A kernel without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let owners = if found.is_empty() { HashMap::new() } else { owners() };
    let ports = found.into_iter().map(|(address, inode)| {
        let pid = owners.get(&inode).copied().unwrap_or(0);
        json!({ "port": address.port(), "address": address.ip().to_string(), "pid": pid })
    });
    Ok(ports.collect())
}

/// Reads a table of the kernel: address and inode of each listening socket of a user.
fn parse(table: &str, user: u32) -> Vec<(SocketAddr, u64)> {
    let line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let local = fields.nth(1)?;
        if fields.nth(1)? != LISTEN {
            return None;
        }
        if fields.nth(3)?.parse() != Ok(user) {
            return None;
        }
        let inode = fields.nth(1)?.parse().ok()?;
        let (address, port) = local.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        Some((SocketAddr::new(self::address(address)?, port), inode))
    };
    table.lines().skip(1).filter_map(line).collect()
}

/// An address as the kernel prints it: words of four bytes, each in the machine's order.
fn address(text: &str) -> Option<IpAddr> {
    let mut bytes = Vec::new();
    for at in (0..text.len()).step_by(8) {
        bytes.extend(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    }
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes.as_slice()) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    <[u8; 16]>::try_from(bytes.as_slice()).ok().map(|bytes| Ipv6Addr::from(bytes).into())
}

/// Which process holds which socket, as far as this one may look.
fn owners() -> HashMap<u64, u32> {
    let mut owners = HashMap::new();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        for descriptor in std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
            let Ok(target) = std::fs::read_link(descriptor.path()) else {
                continue;
            };
            let inode = target.to_str().and_then(|name| name.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            if let Some(inode) = inode {
                owners.entry(inode).or_insert(pid);
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_the_kernel() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0\n\
             1: 0100007F:1F91 0100007F:0001 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0\n\
             2: 00000000000000000000000000000000:0050 0:0 0A 0:0 00:0 0 1000 0 4713 1 0\n\
             3: 3500007F:0035 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65534        0 4714 1 0\n\
             nonsense\n";
        let seen = parse(table, 1000);
        assert_eq!(seen, [("127.0.0.1:8080".parse().unwrap(), 4711), ("[::]:80".parse().unwrap(), 4713)]);
    }

    #[test]
    fn a_listener_is_found_with_its_process_and_can_be_reached() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let expected = json!({ "port": port, "address": "127.0.0.1", "pid": std::process::id() });
        assert!(listening().unwrap().contains(&expected));
        let (answer, fd) = connect("localhost", port);
        assert!(matches!(answer, Answer::Connected { peer } if peer == format!("127.0.0.1:{port}")) && fd.is_some());
        drop(listener);
        let (answer, _) = connect("127.0.0.1", port);
        assert!(matches!(answer, Answer::Failed(FileError { code, .. }) if code == "ECONNREFUSED"));
    }
}
