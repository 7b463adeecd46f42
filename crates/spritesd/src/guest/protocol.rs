//! What the daemon and the agent inside a Sprite say to each other, and how it crosses the socket.
//!
//! One message is one packet of a `SOCK_SEQPACKET` pair, JSON, with the file descriptors it speaks of attached.
//! Bulk data never travels here: it goes through those descriptors, so a big file delays no signal.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::errors::FileError;

/// The largest packet; the kernel's own default bound for one packet is a little above.
pub(crate) const LARGEST_PACKET: usize = 160 * 1024;
/// Standard input, output and error are the most that travel together.
const MOST_FDS: usize = 3;

/// A request of the daemon; `id` comes back in the answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Envelope {
    pub(crate) id: u64,
    pub(crate) request: Request,
}

/// What the daemon asks of the agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Start a program. Descriptors: standard input if `stdin`, then output, then error.
    Spawn(Spawn),
    /// Open a terminal of the guest's own; the answer carries the descriptor of its master.
    OpenTerminal,
    /// Signal a process the agent started and has not reaped; with `group`, its whole process group.
    Signal { pid: u32, signal: i32, group: bool },
    /// Signal what is left of a process group that a program of the agent leads or led.
    SignalGroup { pid: u32, signal: i32 },
    /// Stop every process but the agent where it is, or let them go on.
    Pause { paused: bool },
    /// Open a regular file; the answer carries its descriptor.
    OpenRead { path: String },
    /// Make a temporary file beside `path`; the answer carries its descriptor and a ticket.
    BeginWrite { path: String, parents: bool },
    /// Give the temporary file its mode and its name.
    CommitWrite { ticket: u64, mode: Option<u32> },
    /// Remove the temporary file.
    AbortWrite { ticket: u64 },
    /// Write the entries as a JSON array into the attached descriptor. With a `pattern`, only those it fits.
    List { path: String, recursive: bool, pattern: Option<String> },
    /// Remove a file, an empty directory or, if `recursive`, a tree.
    Delete { path: String, recursive: bool },
    /// Give a file or directory another path.
    Rename { source: String, dest: String },
    /// Copy a file or, if `recursive`, a tree; what was copied goes into the attached descriptor as a JSON array.
    Copy { source: String, dest: String, recursive: bool, preserve: bool },
    /// Set permission bits; what was changed goes into the attached descriptor as a JSON array.
    Chmod { path: String, mode: u32, recursive: bool },
    /// Set user and group, each by number or name; what was changed goes into the attached descriptor.
    Chown { path: String, user: Option<String>, group: Option<String>, recursive: bool },
    /// Write what happens to `paths` into the attached descriptor, one JSON object a line, until its other end closes.
    Watch { paths: Vec<String>, recursive: bool },
    /// Connect by TCP; the answer carries the connection's descriptor.
    Connect { host: String, port: u16 },
    /// Write the listening TCP sockets into the attached descriptor as a JSON array.
    Ports,
}

/// A program to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spawn {
    /// What to execute: a path, or a name looked up on the default PATH.
    pub(crate) program: String,
    /// Arguments with the zeroth.
    pub(crate) argv: Vec<String>,
    /// Absolute working directory.
    pub(crate) dir: String,
    /// The whole environment.
    pub(crate) env: Vec<(String, String)>,
    /// Whether a descriptor for standard input is attached; else it is `/dev/null`.
    pub(crate) stdin: bool,
    /// Whether the descriptors are a terminal, which is to be the program's controlling one.
    pub(crate) terminal: bool,
}

/// What the agent says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// The agent has hardened itself and takes requests.
    Ready,
    /// The answer to one request.
    Answer { id: u64, answer: Answer },
    /// A started program ended; sent once for each `Spawned`, always after it.
    Exited { pid: u32, code: u8 },
}

/// The answer to one request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Done.
    Done,
    /// Started, with the resolved path of the program.
    Spawned { pid: u32, program: String },
    /// Not started: what a shell would say and exit with.
    NotSpawned { text: String, code: u8 },
    /// The process to signal is not there any more.
    Gone,
    /// A descriptor is attached.
    Opened { ticket: u64, size: u64 },
    /// A file was put in place.
    Written { size: u64, mode: u32 },
    /// How many things an operation on a tree met, and their bytes; they themselves are in the descriptor.
    Counted { count: u64, bytes: u64 },
    /// A connection is attached; to where, as `address:port`.
    Connected { peer: String },
    /// A file operation failed.
    Failed(FileError),
}

/// Sends one packet. `WouldBlock` when the socket is non-blocking and full; nothing was sent then.
pub(crate) fn send(socket: BorrowedFd<'_>, packet: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    sendmsg(socket, &[IoSlice::new(packet)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Encodes a message; fails when it would not fit in one packet.
pub(crate) fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let packet = serde_json::to_vec(message)?;
    if packet.len() > LARGEST_PACKET {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "message too large"));
    }
    Ok(packet)
}

/// Receives one packet; `None` at the end of the connection.
pub(crate) fn receive<T: DeserializeOwned>(
    socket: impl AsFd,
    buffer: &mut [u8],
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "packet cut short"));
    }
    let packet = buffer.get(..received.bytes).unwrap_or_default();
    Ok(Some((serde_json::from_slice(packet)?, fds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::io::{Read as _, Write as _};

    #[test]
    fn packets_keep_their_edges_and_descriptors() {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send(a.as_fd(), &encode(&Message::Ready).unwrap(), &[writer.as_fd()]).unwrap();
        send(a.as_fd(), &encode(&Message::Exited { pid: 7, code: 3 }).unwrap(), &[]).unwrap();
        drop((a, writer));

        let mut buffer = vec![0; LARGEST_PACKET];
        let (first, fds) = receive::<Message>(&b, &mut buffer).unwrap().unwrap();
        assert!(matches!(first, Message::Ready));
        let [fd]: [OwnedFd; 1] = fds.try_into().unwrap();
        std::fs::File::from(fd).write_all(b"through").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");

        let (second, fds) = receive::<Message>(&b, &mut buffer).unwrap().unwrap();
        assert!(matches!(second, Message::Exited { pid: 7, code: 3 }) && fds.is_empty());
        assert!(receive::<Message>(&b, &mut buffer).unwrap().is_none());
    }

    #[test]
    fn the_largest_packet_passes_and_a_larger_one_is_refused() {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let fitting = "x".repeat(LARGEST_PACKET - 2);
        send(a.as_fd(), &encode(&fitting).unwrap(), &[]).unwrap();
        let mut buffer = vec![0; LARGEST_PACKET];
        assert_eq!(receive::<String>(&b, &mut buffer).unwrap().unwrap().0, fitting);
        assert!(encode(&"x".repeat(LARGEST_PACKET)).is_err());
    }
}
