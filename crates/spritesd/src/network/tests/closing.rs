//! What a guest can never do, what bad input comes to, and what is left in the end.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::support::{DAEMON, Guest, Lab, PATIENCE, PORT, entry, eventually, listen, policy};
use crate::network::tools::{IP, NFT};
use crate::network::{Host, NetworkError, RESOLVER, World};

#[tokio::test]
async fn guests_do_not_meet() {
    let lab = Lab::new().await;
    lab.serve("0.0.0.0:80".parse().unwrap()).await;
    let (one, two) = (lab.guest("").await, lab.guest("").await);
    let _v4 = listen(&two.inside, "0.0.0.0:80".parse().unwrap()).await;
    for addr in ["198.18.0.2", "2001:2::2", "198.19.255.254", "2001:2:0:ffff::1"] {
        assert!(!one.reaches(addr).await, "{addr}");
    }
    // Nor does the world begin a conversation with a guest.
    let to = SocketAddr::new("198.18.0.2".parse().unwrap(), PORT);
    let wait = Duration::from_millis(300);
    assert!(lab.inside.run(move || std::net::TcpStream::connect_timeout(&to, wait)).await.is_err());
}

#[tokio::test]
async fn a_forged_source_gets_nowhere() {
    let lab = Lab::new().await;
    lab.host(None, "203.0.113.1").await;
    let guest = lab.guest("").await;
    let server = lab.inside.run(|| UdpSocket::bind("203.0.113.1:99")).await.unwrap();
    // Even as the superuser of its namespace, which no guest is.
    guest
        .inside
        .feed(IP, "address add 203.0.113.50/32 dev lo\naddress add 2001:db8::50/128 dev lo\n".into())
        .await
        .unwrap();
    let send = |from: &'static str| {
        guest.inside.run(move || UdpSocket::bind((from, 0))?.send_to(from.as_bytes(), "203.0.113.1:99"))
    };
    send("203.0.113.50").await.unwrap();
    send("198.18.0.1").await.unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 32];
    let (length, from) = server.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from.ip().to_string().as_str()), (b"198.18.0.1".as_slice(), "198.18.0.1"));
}

#[tokio::test]
async fn a_guest_cannot_change_its_network() {
    let lab = Lab::new().await;
    let guest = lab.guest("-*").await;
    let setpriv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
    let user = |argv: &[&'static str]| [setpriv.as_slice(), argv].concat();
    assert!(guest.run(&user(&["true"])).await);
    for argv in [
        ["nft", "flush", "ruleset"].as_slice(),
        &["nft", "list", "ruleset"],
        &["ip", "link", "set", "eth0", "down"],
        &["ip", "route", "del", "default"],
        &["unshare", "--user", "--map-root-user", "nft", "flush", "ruleset"],
    ] {
        assert!(!guest.run(&user(argv)).await, "{argv:?}");
    }
    assert!(guest.run(&["nft", "list", "table", "inet", "sprite"]).await);
}

#[tokio::test]
async fn rules_that_cannot_be_put_in_force_leave_the_guest_shut() {
    let lab = Lab::new().await;
    lab.host(Some("a.example"), "203.0.113.1").await;
    let guest = lab.guest("").await;
    guest.resolve("a.example").await;
    let control = &guest.network.control;
    let result = control.try_nonsense(&policy("")).await;
    assert!(matches!(result, Err(NetworkError::Shut(_))), "{result:?}");
    assert!(!guest.reaches("203.0.113.1").await);
    assert_eq!(guest.ask("a.example", RecordType::A).await.0, ResponseCode::Refused);
    guest.set("+a.example").await;
    guest.resolve("a.example").await;
    assert!(guest.reaches("203.0.113.1").await);
}

#[tokio::test]
async fn a_guest_that_cannot_be_shut_is_reported_as_such() {
    let lab = Lab::new().await;
    lab.host(Some("a.example"), "203.0.113.1").await;
    let guest = lab.guest("+a.example").await;
    // A table that belongs to a living process cannot be replaced by another.
    guest.inside.feed(NFT, "delete table inet sprite\n".into()).await.unwrap();
    let mut owner = std::process::Command::new("nft");
    owner.arg("-i").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    let mut owner = guest.inside.run(move || owner.spawn()).await.unwrap();
    let mut stdin = owner.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"add table inet sprite { flags owner; }\n").unwrap();
    eventually("the table is there", || guest.run(&["nft", "list", "table", "inet", "sprite"])).await;
    let result = guest.network.set_policy(&policy("-*")).await;
    assert!(matches!(result, Err(NetworkError::Loose(_))), "{result:?}");
    assert_eq!(guest.ask("a.example", RecordType::A).await.0, ResponseCode::Refused);
    drop(stdin);
    owner.wait().unwrap();
    guest.set("+a.example").await;
    guest.resolve("a.example").await;
}

#[tokio::test]
async fn hosts_that_cannot_be_are_refused_and_the_same_host_twice_is_one() {
    let lab = Lab::new().await;
    let host = |name: &str, addr: &str| Host { name: Some(name.into()), addr: addr.parse().unwrap() };
    for (name, addr) in [("a b", "203.0.113.1"), ("a.example", "127.0.0.1"), ("a.example", "198.18.0.1")] {
        assert!(lab.world.add(host(name, addr)).await.is_err(), "{name} {addr}");
    }
    for name in ["a.example", "A.example.", "b.example"] {
        lab.world.add(host(name, "203.0.113.1")).await.unwrap();
    }
    assert_eq!(lab.world.hosts(), [host("a.example", "203.0.113.1"), host("b.example", "203.0.113.1")]);
}

async fn ask_by_tcp(stream: &mut TcpStream, name: &str) -> Message {
    let mut question = Message::query();
    question.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    let bytes = question.to_vec().unwrap();
    stream.write_u16(bytes.len().try_into().unwrap()).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    let mut reply = vec![0; timeout(PATIENCE, stream.read_u16()).await.unwrap().unwrap().into()];
    stream.read_exact(&mut reply).await.unwrap();
    Message::from_vec(&reply).unwrap()
}

async fn tcp_to_resolver(guest: &Guest) -> TcpStream {
    let stream = guest.inside.run(|| std::net::TcpStream::connect((RESOLVER, 53))).await.unwrap();
    stream.set_nonblocking(true).unwrap();
    TcpStream::from_std(stream).unwrap()
}

#[tokio::test]
async fn many_addresses_are_answered_by_tcp() {
    let lab = Lab::new().await;
    for last in 1..=60 {
        let host = Host { name: Some("many.example".into()), addr: [203, 0, 113, last].into() };
        lab.world.add(host).await.unwrap();
    }
    let guest = lab.guest("+many.example").await;
    assert_eq!(guest.resolve("many.example").await, [] as [std::net::IpAddr; 0], "cut short");
    let mut stream = tcp_to_resolver(&guest).await;
    for _ in 0..2 {
        assert_eq!(ask_by_tcp(&mut stream, "many.example").await.answers.len(), 60);
    }
    // A question that is too long ends the connection.
    stream.write_all(&[0xff; 2]).await.unwrap();
    assert!(timeout(PATIENCE, stream.read_u8()).await.unwrap().is_err());
}

#[tokio::test]
async fn a_guest_that_floods_its_resolver_harms_only_itself() {
    let lab = Lab::new().await;
    lab.host(Some("a.example"), "203.0.113.1").await;
    let (loud, quiet) = (lab.guest("+a.example").await, lab.guest("+a.example").await);
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let flooding = loud.inside.run(move || {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let mut question = Message::query();
        question.add_query(Query::query(Name::from_ascii("a.example").unwrap(), RecordType::A));
        let question = question.to_vec().unwrap();
        let mut sent = 0_u64;
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            for packet in [question.as_slice(), &question[..20], b"", &[0xff; 1000]] {
                // A full buffer is what a flood comes to.
                sent += u64::from(socket.send_to(packet, (RESOLVER, 53)).is_ok());
            }
        }
        Ok(sent)
    });
    let asking = async {
        let mut held = Vec::new();
        for _ in 0..40 {
            held.push(tcp_to_resolver(&loud).await);
        }
        let begun = Instant::now();
        for _ in 0..20 {
            assert_eq!(quiet.resolve("a.example").await.len(), 1);
        }
        let took = begun.elapsed();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        took
    };
    let (sent, took) = tokio::join!(flooding, asking);
    assert!(sent.unwrap() > 1000 && took < Duration::from_secs(5), "{took:?}");
    // And it recovers.
    assert_eq!(loud.resolve("a.example").await.len(), 1);
}

#[tokio::test]
async fn nothing_is_left_of_a_guest() {
    let mut lab = Lab::new().await;
    lab.host(Some("a.example"), "203.0.113.1").await;
    let mut guest = lab.guest("+a.example").await;
    guest.resolve("a.example").await;
    let mut links = lab.links().await;
    links.sort();
    assert_eq!(links, ["lo", "sprite1"]);
    // As a sandbox ends: its processes first.
    guest.child.kill().await.unwrap();
    drop(guest);
    eventually("the link goes", || async { lab.links().await.len() == 1 }).await;
    let again = lab.guest("").await;
    assert!(again.reaches("203.0.113.1").await);
    lab.holder.stop().await;
    assert!(!lab.holder.network().exists());
}

/// Whether any process is in one of these namespaces.
fn is_inhabited(namespaces: &[&str]) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    // Some end while we look.
    let found = processes.filter_map(|process| std::fs::read_link(process.path().join("ns/net")).ok());
    found.into_iter().any(|namespace| namespaces.contains(&namespace.to_str().unwrap()))
}

#[tokio::test]
async fn nothing_is_left_of_a_daemon_that_was_killed() {
    let mut daemon = entry("daemon", DAEMON, "1");
    let mut lines = BufReader::new(daemon.stdout.take().unwrap()).lines();
    let line = loop {
        let line = lines.next_line().await.unwrap().expect("the daemon did not start");
        if line.starts_with("net:") {
            break line;
        }
    };
    let namespaces: Vec<&str> = line.split(' ').collect();
    assert!(namespaces.len() == 2 && is_inhabited(&namespaces[..1]) && is_inhabited(&namespaces[1..]), "{line}");
    daemon.kill().await.unwrap();
    eventually("no process is left", || async { !is_inhabited(&namespaces) }).await;
    assert!(!std::fs::read_to_string("/proc/self/net/dev").unwrap().contains("sprite"));
}

#[tokio::test]
async fn a_world_needs_a_namespace_of_its_own() {
    let mut holder = crate::namespace_holder::NamespaceHolder::start(false, &[]).await.unwrap();
    let error = World::new(&holder).await.unwrap_err().to_string();
    assert!(error.contains("--network none"), "{error}");
    holder.stop().await;
}
