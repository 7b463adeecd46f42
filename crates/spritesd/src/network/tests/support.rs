//! A world with servers, and guests that are plain processes.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream as StdTcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use crate::namespace_holder::NamespaceHolder;
use crate::network::namespace::Namespace;
use crate::network::{GuestNetwork, Host, RESOLVER, World};
use crate::policy::NetworkPolicy;

/// The environment variable with the plan of a guest.
pub(super) const PLAN: &str = "SPRITESD_TEST_LINK";
/// The environment variable that makes a daemon of the test program.
pub(super) const DAEMON: &str = "SPRITESD_TEST_DAEMON";
/// No wait of a test is longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// The port of all servers.
pub(super) const PORT: u16 = 80;

/// A policy from short rules: `+name` allows, `-name` denies, another word is a preset.
pub(super) fn policy(rules: &str) -> NetworkPolicy {
    let rule = |rule: &str| match (rule.strip_prefix('+'), rule.strip_prefix('-')) {
        (Some(domain), _) => serde_json::json!({ "domain": domain, "action": "allow" }),
        (_, Some(domain)) => serde_json::json!({ "domain": domain, "action": "deny" }),
        _ => serde_json::json!({ "include": rule }),
    };
    let rules: Vec<_> = rules.split_whitespace().map(rule).collect();
    NetworkPolicy::parse(serde_json::json!({ "rules": rules }).to_string().as_bytes()).unwrap()
}

/// Asks again until the answer is yes.
pub(super) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The test program as another process, in one of its entries.
pub(super) fn entry(name: &str, variable: &str, value: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .arg(format!("network::tests::entries::{name}"))
        .env(variable, value)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// A world.
pub(super) struct Lab {
    pub(super) holder: NamespaceHolder,
    pub(super) world: World,
    pub(super) inside: Namespace,
}

impl Lab {
    pub(super) async fn new() -> Self {
        Self::with_answer_life(Duration::from_secs(30)).await
    }

    pub(super) async fn with_answer_life(life: Duration) -> Self {
        let holder = NamespaceHolder::start(true, &[]).await.unwrap();
        let world = World::with_answer_life(&holder, life).await.unwrap();
        let inside = Namespace::open(&holder.network()).unwrap();
        Self { holder, world, inside }
    }

    /// A host with a server that greets with its address and then echoes.
    pub(super) async fn host(&self, name: Option<&str>, addr: &str) {
        let addr: IpAddr = addr.parse().unwrap();
        self.world.add(Host { name: name.map(str::to_owned), addr }).await.unwrap();
        self.serve(SocketAddr::new(addr, PORT)).await;
    }

    pub(super) async fn serve(&self, address: SocketAddr) {
        let listener = listen(&self.inside, address).await;
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.into_split();
                    write.write_all(format!("{}\n", address.ip()).as_bytes()).await?;
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
    }

    /// A host with a server that talks without end.
    pub(super) async fn chatty_host(&self, name: &str, addr: &str) {
        let addr: IpAddr = addr.parse().unwrap();
        self.world.add(Host { name: Some(name.to_owned()), addr }).await.unwrap();
        let listener = listen(&self.inside, SocketAddr::new(addr, PORT)).await;
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            loop {
                stream.write_all(b"x").await?;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            #[expect(unreachable_code, reason = "gives the task its type")]
            io::Result::Ok(())
        });
    }

    /// A guest that starts under a policy.
    pub(super) async fn guest(&self, rules: &str) -> Guest {
        let lease = self.world.lease(&policy(rules)).unwrap();
        let mut child = entry("guest", PLAN, &serde_json::to_string(&lease.plan()).unwrap());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The harness may have put its own words before it on the line.
        while !lines.next_line().await.unwrap().expect("the guest has no network").ends_with("up") {}
        let netns = PathBuf::from(format!("/proc/{}/ns/net", child.id().unwrap()));
        let inside = Namespace::open(&netns).unwrap();
        let network = GuestNetwork::attach(lease, &netns).await.unwrap();
        Guest { child, inside, network }
    }

    /// The names of the links in the world.
    pub(super) async fn links(&self) -> Vec<String> {
        let names = |dir: &Path| {
            let text = std::fs::read_to_string(dir)?;
            Ok(text.lines().skip(2).filter_map(|l| Some(l.split_once(':')?.0.trim().to_owned())).collect())
        };
        self.inside.run(move || names(Path::new("/proc/thread-self/net/dev"))).await.unwrap()
    }
}

pub(super) async fn listen(inside: &Namespace, address: SocketAddr) -> TcpListener {
    let bound = inside.run(move || std::net::TcpListener::bind(address)).await.unwrap();
    bound.set_nonblocking(true).unwrap();
    TcpListener::from_std(bound).unwrap()
}

/// A guest.
pub(super) struct Guest {
    pub(super) child: Child,
    pub(super) inside: Namespace,
    pub(super) network: GuestNetwork,
}

impl Guest {
    pub(super) async fn set(&self, rules: &str) {
        self.network.set_policy(&policy(rules)).await.unwrap();
    }

    /// Connects to the server of an address, and hears its greeting.
    pub(super) async fn connect(&self, addr: &str) -> io::Result<TcpStream> {
        let address = SocketAddr::new(addr.parse().unwrap(), PORT);
        let stream = self.inside.run(move || StdTcpStream::connect_timeout(&address, PATIENCE)).await?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream)?;
        let mut greeting = vec![0; addr.len() + 1];
        tokio::time::timeout(PATIENCE, stream.read_exact(&mut greeting)).await??;
        assert_eq!(String::from_utf8(greeting).unwrap().trim(), addr);
        Ok(stream)
    }

    /// Whether an address answers. What does not answer must be refused at once, not left to time out.
    pub(super) async fn reaches(&self, addr: &str) -> bool {
        let begun = Instant::now();
        let connected = self.connect(addr).await;
        assert!(begun.elapsed() < Duration::from_secs(3), "{addr}: {connected:?} after {:?}", begun.elapsed());
        connected.is_ok()
    }

    pub(super) async fn ask(&self, name: &str, kind: RecordType) -> (ResponseCode, Vec<IpAddr>) {
        let mut question = Message::query();
        question.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
        let bytes = question.to_vec().unwrap();
        let reply = self.inside.run(move || {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            // As a resolver of a program does: a packet may be lost where a buffer is full, and is asked again.
            socket.set_read_timeout(Some(Duration::from_millis(500)))?;
            let begun = Instant::now();
            loop {
                socket.send_to(&bytes, (RESOLVER, 53))?;
                let mut buffer = [0; 2000];
                match socket.recv(&mut buffer) {
                    Ok(length) => return Ok(buffer[..length].to_vec()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && begun.elapsed() < PATIENCE => {}
                    Err(error) => return Err(error),
                }
            }
        });
        let reply = Message::from_vec(&reply.await.unwrap()).unwrap();
        assert_eq!(reply.metadata.id, question.metadata.id);
        let addresses = reply.answers.iter().map(|record| record.data.ip_addr().unwrap());
        (reply.metadata.response_code, addresses.collect())
    }

    /// The IPv4 addresses of a name that resolves.
    pub(super) async fn resolve(&self, name: &str) -> Vec<IpAddr> {
        let (code, addresses) = self.ask(name, RecordType::A).await;
        assert_eq!(code, ResponseCode::NoError, "{name}");
        addresses
    }

    /// Runs a program in the guest's namespace, and whether it succeeded.
    pub(super) async fn run(&self, argv: &[&str]) -> bool {
        let mut command = std::process::Command::new(argv[0]);
        command.args(&argv[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.inside.run(move || command.status()).await.unwrap().success()
    }
}

/// Whether a connection still carries bytes both ways.
pub(super) async fn echoes(stream: &mut TcpStream) -> bool {
    let both = async {
        stream.write_all(b"ping").await?;
        let mut buffer = [0; 4];
        stream.read_exact(&mut buffer).await?;
        io::Result::Ok(&buffer == b"ping")
    };
    tokio::time::timeout(PATIENCE, both).await.is_ok_and(|echoed| echoed.is_ok_and(|same| same))
}
