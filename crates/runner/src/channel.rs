//! Messages between front and supervisor, over a socket pair that keeps them apart. It ends when either process dies.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use runner_protocol::{Cause, Record};

/// Longest message.
const MESSAGE_MAX: usize = 1024;
/// How many descriptors come with the first message: the script's stdin, stdout, stderr, and the script itself.
pub const DESCRIPTORS: usize = 4;

/// What is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Front: here are the descriptors; begin.
    Begin,
    /// Supervisor: the script was started at this boot time.
    Started(Duration),
    /// Supervisor: the script cannot be started.
    Failed(String),
    /// Front: stop the script for this reason, with time to clean up.
    Stop(Cause),
    /// Front: end it now.
    End,
    /// Supervisor: it ended so; the counts of bytes are the front's to add.
    Ended(Record),
    /// Front: the record is written.
    Recorded,
}

impl Message {
    fn text(&self) -> String {
        match self {
            Self::Begin => "begin".to_owned(),
            Self::Started(at) => format!("started {}", at.as_millis()),
            Self::Failed(why) => format!("failed {why}"),
            Self::Stop(cause) => format!("stop {}", cause.as_str()),
            Self::End => "end".to_owned(),
            Self::Ended(record) => format!("ended {record}\n"),
            Self::Recorded => "recorded".to_owned(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match word {
            "begin" => Self::Begin,
            "started" => Self::Started(Duration::from_millis(rest.parse().ok()?)),
            "failed" => Self::Failed(rest.to_owned()),
            "stop" => Self::Stop(Cause::parse(rest)?),
            "end" => Self::End,
            "ended" => Self::Ended(Record::parse(rest)?),
            "recorded" => Self::Recorded,
            _ => return None,
        })
    }
}

/// Two ends.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message. A peer that is gone is noticed by [`receive`].
pub fn send(to: impl AsFd, message: &Message) {
    let _ = rustix::net::send(to, message.text().as_bytes(), SendFlags::NOSIGNAL);
}

/// Sends [`Message::Begin`] with the descriptors.
pub fn begin(to: impl AsFd, descriptors: &[&OwnedFd; DESCRIPTORS]) -> io::Result<()> {
    let borrowed = descriptors.map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
    let text = Message::Begin.text();
    sendmsg(to, &[io::IoSlice::new(text.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message, with the descriptors that came with it; `None` when the peer is gone.
pub fn receive(from: impl AsFd) -> Option<(Message, Vec<OwnedFd>)> {
    let mut buffer = [0; MESSAGE_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(from, &mut [io::IoSliceMut::new(&mut buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let text = std::str::from_utf8(buffer.get(..received.bytes)?).ok()?;
    // No message is empty: this is the end.
    Message::parse(text).map(|message| (message, descriptors))
}
