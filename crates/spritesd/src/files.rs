//! File operations of a Sprite, asked of the agent inside it. Nothing here opens a path itself.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures::{Stream, StreamExt as _};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::net::unix::pipe;

use super::errors::FileError;
use super::guest::protocol::{Answer, Request};
use super::guest::{Guest, GuestError};
use super::sprite::blocking;

const CHUNK: usize = 64 * 1024;
/// Bound of what the agent tells of a tree, as JSON.
const LARGEST_REPORT: u64 = 64 << 20;

/// Why a file operation failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesError {
    /// The file system said no.
    #[error("{}", .0.error)]
    File(FileError),
    /// The guest could not be asked.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// Passing the bytes failed on our side.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The client's body broke off or was too large.
    #[error("the body broke off")]
    Body,
}

/// A file opened for reading.
pub(crate) struct Opened {
    file: File,
    pub(crate) size: u64,
}

/// Opens a regular file.
pub(crate) async fn open(guest: &Guest, path: String) -> Result<Opened, FilesError> {
    match guest.ask(Request::OpenRead { path }, &[]).await? {
        (Answer::Opened { size, .. }, Some(fd)) => Ok(Opened { file: fd.into(), size }),
        (answer, _) => Err(unexpected(answer)),
    }
}

impl Opened {
    /// Streams `length` bytes from `start`, fewer if the file shrinks meanwhile. `held` is dropped at the end.
    pub(crate) fn stream<T: Send + 'static>(
        self,
        start: u64,
        length: u64,
        held: T,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send {
        let Self { mut file, .. } = self;
        let (chunks, queue) = tokio::sync::mpsc::channel(4);
        // One blocking task a transfer, ended by the client's leaving at the next chunk.
        tokio::task::spawn_blocking(move || {
            let mut left = length;
            let mut place = Some(start);
            let mut read = || {
                if let Some(start) = place.take() {
                    file.seek(SeekFrom::Start(start))?;
                }
                let mut chunk = vec![0; CHUNK.min(usize::try_from(left).unwrap_or(CHUNK))];
                let got = file.read(&mut chunk)?;
                chunk.truncate(got);
                left -= got as u64;
                Ok(Bytes::from(chunk))
            };
            loop {
                let chunk: io::Result<Bytes> = read();
                let last = chunk.as_ref().map_or(true, Bytes::is_empty);
                if chunk.as_ref().is_ok_and(Bytes::is_empty) || chunks.blocking_send(chunk).is_err() || last {
                    return;
                }
            }
        });
        futures::stream::unfold(
            (queue, held),
            |(mut queue, held)| async move { Some((queue.recv().await?, (queue, held))) },
        )
    }
}

/// Puts a body in place of a file, whole or not at all.
pub(crate) async fn write(
    guest: &Arc<Guest>,
    path: String,
    parents: bool,
    mode: Option<u32>,
    body: Body,
    largest: usize,
) -> Result<(u64, u32), FilesError> {
    let (ticket, fd) = match guest.ask(Request::BeginWrite { path, parents }, &[]).await? {
        (Answer::Opened { ticket, .. }, Some(fd)) => (ticket, fd),
        (answer, _) => {
            // A client that is still sending would see a connection that breaks, and not the answer.
            drain(body, largest).await;
            return Err(unexpected(answer));
        }
    };
    // Aborts when the client goes away in the middle, too.
    let mut abort = AbortOnDrop { guest: Some(Arc::clone(guest)), ticket };
    copy(body, fd.into(), largest).await?;
    let answer = guest.ask(Request::CommitWrite { ticket, mode }, &[]).await?;
    abort.guest = None;
    match answer {
        (Answer::Written { size, mode }, _) => Ok((size, mode)),
        (answer, _) => Err(unexpected(answer)),
    }
}

async fn drain(body: Body, largest: usize) {
    let (mut chunks, mut read) = (body.into_data_stream(), 0);
    while let Some(Ok(chunk)) = chunks.next().await {
        read += chunk.len();
        if read > largest {
            return;
        }
    }
}

async fn copy(body: Body, file: File, largest: usize) -> Result<(), FilesError> {
    let mut chunks = body.into_data_stream();
    let mut written = 0;
    let mut file = Some(file);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| FilesError::Body)?;
        written += chunk.len();
        if written > largest {
            return Err(FilesError::File(FileError::new("E2BIG", "file too large", "body")));
        }
        let Some(mut target) = file.take() else { break };
        file = Some(
            blocking(move || {
                target.write_all(&chunk)?;
                Ok(target)
            })
            .await?,
        );
    }
    Ok(())
}

struct AbortOnDrop {
    guest: Option<Arc<Guest>>,
    ticket: u64,
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(guest) = self.guest.take() {
            let ticket = self.ticket;
            tokio::spawn(async move { drop(guest.ask(Request::AbortWrite { ticket }, &[]).await) });
        }
    }
}

/// What an operation on a tree met.
#[derive(Debug)]
pub(crate) struct Report {
    /// A JSON array, as the agent wrote it.
    pub(crate) items: Box<RawValue>,
    /// How many there were; more than `items` holds where that is bounded.
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

/// Asks for something that is told through a descriptor, and gives that with the answer.
async fn told(guest: &Guest, request: Request) -> Result<(Vec<u8>, Answer), FilesError> {
    let (reader, writer) = io::pipe()?;
    // Read while the agent writes: a pipe holds little.
    let reading = tokio::task::spawn_blocking(move || {
        let mut text = Vec::new();
        reader.take(LARGEST_REPORT).read_to_end(&mut text).map(|_| text)
    });
    let answer = guest.ask(request, &[writer.as_fd()]).await;
    drop(writer);
    let (answer, _) = answer?;
    Ok((reading.await.map_err(io::Error::other)??, answer))
}

/// Asks for an operation that reports: list, copy, chmod or chown.
pub(crate) async fn reported(guest: &Guest, request: Request) -> Result<Report, FilesError> {
    match told(guest, request).await? {
        (text, Answer::Counted { count, bytes }) => {
            Ok(Report { items: serde_json::from_slice(&text).map_err(io::Error::from)?, count, bytes })
        }
        (_, answer) => Err(unexpected(answer)),
    }
}

/// Asks for an operation without a report: delete or rename.
pub(crate) async fn done(guest: &Guest, request: Request) -> Result<(), FilesError> {
    match guest.ask(request, &[]).await? {
        (Answer::Done, _) => Ok(()),
        (answer, _) => Err(unexpected(answer)),
    }
}

/// The guest's listening sockets.
pub(crate) async fn ports<T: DeserializeOwned>(guest: &Guest) -> Result<Vec<T>, FilesError> {
    match told(guest, Request::Ports).await? {
        (text, Answer::Done) => Ok(serde_json::from_slice(&text).map_err(io::Error::from)?),
        (_, answer) => Err(unexpected(answer)),
    }
}

/// Watches files; gives the stream of events, one JSON object a line. The watch ends when that is dropped.
pub(crate) async fn watch(guest: &Guest, paths: Vec<String>, recursive: bool) -> Result<pipe::Receiver, FilesError> {
    let (reader, writer) = io::pipe()?;
    let request = Request::Watch { paths, recursive };
    let answer = guest.ask(request, &[writer.as_fd()]).await;
    drop(writer);
    match answer? {
        (Answer::Done, _) => Ok(pipe::Receiver::from_owned_fd(reader.into())?),
        (answer, _) => Err(unexpected(answer)),
    }
}

fn unexpected(answer: Answer) -> FilesError {
    match answer {
        Answer::Failed(error) => FilesError::File(error),
        Answer::Done
        | Answer::Spawned { .. }
        | Answer::NotSpawned { .. }
        | Answer::Gone
        | Answer::Opened { .. }
        | Answer::Written { .. }
        | Answer::Counted { .. }
        | Answer::Connected { .. } => FilesError::Guest(GuestError::Confused),
    }
}
