//! Files of a Sprite, by absolute path. Such calls were seen to hang on a cold Sprite: they take an [`Awake`], and a
//! cold one is woken by an exec before it gets any.

use bytes::Bytes;
use reqwest::header::RANGE;
use reqwest::{Method, StatusCode};
use serde::Deserialize;

use super::awake::Awake;
use super::call::CallKind;
use super::client::Client;
use super::error::Error;
use super::http::Call;
use super::response::Subject;

/// What is in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The last part of its path.
    pub name: String,
    /// The whole path.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// In bytes.
    pub size: u64,
    /// Octal, for example `0644`.
    pub mode: String,
}

/// What a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Anything else.
    Other,
}

#[derive(Deserialize)]
struct Listing {
    entries: Option<Vec<WireEntry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireEntry {
    name: String,
    #[serde(default)]
    path: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    is_dir: bool,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    mode: String,
}

impl From<WireEntry> for DirEntry {
    fn from(wire: WireEntry) -> Self {
        let kind = match wire.kind.as_deref() {
            Some("file") => EntryKind::File,
            Some("symlink") => EntryKind::Symlink,
            Some("directory") => EntryKind::Directory,
            Some(_) | None if wire.is_dir => EntryKind::Directory,
            Some(_) | None => EntryKind::Other,
        };
        Self { name: wire.name, path: wire.path, kind, size: wire.size, mode: wire.mode }
    }
}

impl Client {
    /// The first `max` bytes of a file. To know whether there are more, ask for one more. Nothing beyond `max` is kept, also
    /// when the service ignores the range.
    pub async fn read_file(&self, on: &Awake, path: &str, max: u64) -> Result<Bytes, Error> {
        let call = self.file_call(CallKind::FileRead, Method::GET, on, "read", path, &[])?;
        let range = format!("bytes=0-{}", max.saturating_sub(1));
        match call.header(RANGE, &range).send_capped(max).await {
            // Of all ranges only one that starts at 0 cannot be missed by a file that has a first byte.
            Err(Error::Invalid { status: Some(416), .. }) => Ok(Bytes::new()),
            Err(error) => Err(error),
            // A server that answers with a part we did not ask for must not be taken for the head of the file.
            Ok(success) if success.status == StatusCode::PARTIAL_CONTENT && !success.starts_at_zero() => {
                Err(Error::Protocol { what: "the range that was asked for" })
            }
            Ok(success) => Ok(success.body),
        }
    }

    /// Writes a whole file; directories above it are made. `mode` are permission bits, the service's default if `None`.
    pub async fn write_file(&self, on: &Awake, path: &str, mode: Option<u32>, content: Bytes) -> Result<(), Error> {
        let mode = mode.map(|mode| format!("{mode:04o}"));
        let mut pairs = vec![("mkdirParents", "true")];
        pairs.extend(mode.as_deref().map(|mode| ("mode", mode)));
        let call = self.file_call(CallKind::FileWrite, Method::PUT, on, "write", path, &pairs)?;
        call.bytes(content).send().await.map(drop)
    }

    /// The entries of a directory. Of a file: one entry, the file itself.
    pub async fn list_dir(&self, on: &Awake, path: &str) -> Result<Vec<DirEntry>, Error> {
        let call = self.file_call(CallKind::FileList, Method::GET, on, "list", path, &[])?;
        let listing: Listing = call.send_for("a directory listing").await?;
        Ok(listing.entries.unwrap_or_default().into_iter().map(DirEntry::from).collect())
    }

    /// Deletes a file; a directory only if it is empty.
    pub async fn delete_file(&self, on: &Awake, path: &str) -> Result<(), Error> {
        let call =
            self.file_call(CallKind::FileDelete, Method::DELETE, on, "delete", path, &[("recursive", "false")])?;
        call.send().await.map(drop)
    }

    fn file_call(
        &self,
        kind: CallKind,
        method: Method,
        on: &Awake,
        what: &str,
        path: &str,
        more: &[(&str, &str)],
    ) -> Result<Call<'_>, Error> {
        if !path.starts_with('/') || path.contains('\0') {
            return Err(Error::refused_here("a path in a Sprite must be absolute and hold no NUL"));
        }
        let call = self.call_in(on, kind, method, &["fs", what], Subject::File)?;
        // Clients of the vendor always send a working directory, though it means nothing beside an absolute path.
        Ok(call.query([("path", path), ("workingDir", "/")]).query(more.iter().copied()))
    }
}
