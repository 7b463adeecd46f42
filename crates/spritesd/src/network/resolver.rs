//! The resolver of one guest: sockets inside its namespace, served by the daemon. It knows the world's names only,
//! and never asks anybody else.
//!
//! A guest can keep only its own resolver busy: questions are answered one after another, a bounded number waits
//! here and the rest in the buffers of the guest's own sockets.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener as StdTcpListener, UdpSocket as StdUdpSocket};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::control::Control;
use super::dns::{self, Packet};
use super::namespace::Namespace;

/// Where it listens, as in every guest's `/etc/resolv.conf`.
pub(crate) const RESOLVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 53);
const PORT: u16 = 53;

/// Questions by UDP that wait at once.
const MOST_QUESTIONS: usize = 64;
/// Open TCP connections.
const MOST_CONNECTIONS: usize = 16;
/// The largest question.
const LARGEST: usize = 4096;
/// How long a connection may be silent, and a client may leave an answer unread.
const SILENCE: Duration = Duration::from_secs(5);
/// After an error of a socket, so that one which lasts does not keep the processor busy.
const PAUSE: Duration = Duration::from_millis(50);

/// The bound sockets.
#[derive(Debug)]
pub(super) struct Sockets {
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Sockets {
    /// Binds them inside `guest`.
    pub(super) async fn bind(guest: &Namespace) -> io::Result<Self> {
        let address = SocketAddrV4::new(RESOLVER, PORT);
        let bound = guest.run(move || Ok((StdUdpSocket::bind(address)?, StdTcpListener::bind(address)?)));
        let (udp, tcp) = bound.await?;
        udp.set_nonblocking(true)?;
        tcp.set_nonblocking(true)?;
        Ok(Self { udp: UdpSocket::from_std(udp)?, tcp: TcpListener::from_std(tcp)? })
    }

    /// Serves until `stop`; then the sockets close, which the guest's namespace needs in order to go.
    pub(super) fn serve(self, control: &Arc<Control>, stop: &CancellationToken) {
        let Self { udp, tcp } = self;
        let datagrams = datagrams(Arc::new(udp), Arc::clone(control), stop.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(datagrams));
        let connections = connections(tcp, Arc::clone(control), stop.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(connections));
    }
}

async fn datagrams(socket: Arc<UdpSocket>, control: Arc<Control>, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(MOST_QUESTIONS));
    let mut buffer = vec![0; LARGEST];
    // The semaphore is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let (length, client) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                debug!(%error, "a resolver cannot receive");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let packet = dns::read(buffer.get(..length).unwrap_or_default());
        let (socket, control) = (Arc::clone(&socket), Arc::clone(&control));
        let reply = async move {
            let _place: OwnedSemaphorePermit = place;
            if let Some(reply) = answer(packet, &control, true).await {
                drop(timeout(SILENCE, socket.send_to(&reply, client)).await);
            }
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(reply));
    }
}

async fn connections(listener: TcpListener, control: Arc<Control>, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let control = Arc::clone(&control);
                let serve = async move {
                    let _place: OwnedSemaphorePermit = place;
                    if let Err(error) = connection(stream, &control).await {
                        debug!(%error, "a resolver's connection ended");
                    }
                };
                tokio::spawn(stop.clone().run_until_cancelled_owned(serve));
            }
            Err(error) => {
                debug!(%error, "a resolver cannot accept");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(mut stream: TcpStream, control: &Control) -> io::Result<()> {
    let mut buffer = vec![0; LARGEST];
    loop {
        let length = usize::from(timeout(SILENCE, stream.read_u16()).await??);
        let Some(question) = buffer.get_mut(..length) else {
            return Err(io::Error::other("the question is too long"));
        };
        timeout(SILENCE, stream.read_exact(question)).await??;
        let Some(reply) = answer(dns::read(question), control, false).await else { return Ok(()) };
        let length = u16::try_from(reply.len()).map_err(io::Error::other)?;
        let mut framed = length.to_be_bytes().to_vec();
        framed.extend(reply);
        timeout(SILENCE, stream.write_all(&framed)).await??;
    }
}

async fn answer(packet: Packet, control: &Control, udp: bool) -> Option<Vec<u8>> {
    match packet {
        Packet::Noise => None,
        Packet::Answered(reply) => Some(reply),
        Packet::Question(question) => {
            let outcome = control.answer(&question.name, question.family).await;
            question.answer(&outcome, control.answer_life(), udp)
        }
    }
}
