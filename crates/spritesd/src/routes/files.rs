//! Files of a Sprite by HTTP. Paths are resolved inside the guest, by the agent, as the guest's user: there is no
//! superuser inside, so `asRoot` is accepted and changes nothing.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode, header};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tracing::error;

use self::arguments::Arguments;
pub(super) use self::arguments::absolute;
use super::{LARGEST_FILE, Shared, asleep};
use crate::errors::ApiError;
use crate::files::{self, FilesError, Report};
use crate::guest::protocol::Request;
use crate::lifecycle::Awake;

mod arguments;

/// Reads a file or a range of it.
pub(super) async fn read(
    State(app): State<Shared>,
    Path(name): Path<String>,
    RawQuery(raw): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let path = Arguments::read(raw.as_deref(), &[])?.path("path")?;
    let guest = awake(&app, &name).await?;
    let opened = files::open(&guest, path).await.map_err(refusal)?;
    let size = opened.size;
    let wanted =
        headers.get(header::RANGE).and_then(|value| value.to_str().ok()).map_or(Wanted::All, |text| range(text, size));
    let kind = (header::CONTENT_TYPE, "application/octet-stream".to_owned());
    match wanted {
        Wanted::All => Ok(([kind], Body::from_stream(opened.stream(0, u64::MAX, guest))).into_response()),
        Wanted::Nothing => {
            let extent = (header::CONTENT_RANGE, format!("bytes */{size}"));
            Ok((StatusCode::RANGE_NOT_SATISFIABLE, [extent]).into_response())
        }
        Wanted::Part(first, last) => {
            let extent = (header::CONTENT_RANGE, format!("bytes {first}-{last}/{size}"));
            let body = Body::from_stream(opened.stream(first, last - first + 1, guest));
            Ok((StatusCode::PARTIAL_CONTENT, [kind, extent], body).into_response())
        }
    }
}

/// Replaces a file.
pub(super) async fn write(
    State(app): State<Shared>,
    Path(name): Path<String>,
    RawQuery(raw): RawQuery,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let arguments = Arguments::read(raw.as_deref(), &[])?;
    let path = arguments.path("path")?;
    let mode = arguments.mode()?;
    let parents = match arguments.flag("mkdirParents")? {
        Some(parents) => parents,
        None => arguments.flag("mkdir")?.unwrap_or(true),
    };
    let guest = awake(&app, &name).await?;
    let (size, mode) = files::write(&guest, path.clone(), parents, mode, body, LARGEST_FILE).await.map_err(refusal)?;
    Ok(Json(json!({ "path": path, "size": size, "mode": format!("{mode:04o}") })))
}

#[derive(Serialize)]
pub(super) struct Listing {
    path: String,
    entries: Box<RawValue>,
    count: u64,
}

/// Lists a directory, or describes a file.
pub(super) async fn list(
    State(app): State<Shared>,
    Path(name): Path<String>,
    RawQuery(raw): RawQuery,
) -> Result<Json<Listing>, ApiError> {
    let arguments = Arguments::read(raw.as_deref(), &[])?;
    let path = arguments.path("path")?;
    let pattern = arguments.text("pattern").filter(|pattern| !pattern.is_empty());
    let request = Request::List { path: path.clone(), recursive: arguments.is_set("recursive")?, pattern };
    let Report { items, count, .. } = ask(&app, &name, request).await?;
    Ok(Json(Listing { path, entries: items, count }))
}

/// Removes a file or a tree. Arguments in the query or, as documented, in a JSON body.
pub(super) async fn delete(
    State(app): State<Shared>,
    Path(name): Path<String>,
    RawQuery(raw): RawQuery,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let arguments = Arguments::read(raw.as_deref(), &body)?;
    let path = arguments.path("path")?;
    let request = Request::Delete { path: path.clone(), recursive: arguments.is_set("recursive")? };
    files::done(&*awake(&app, &name).await?, request).await.map_err(refusal)?;
    Ok(Json(json!({ "deleted": [path], "count": 1 })))
}

/// Gives a file or directory another path.
pub(super) async fn rename(
    State(app): State<Shared>,
    Path(name): Path<String>,
    RawQuery(raw): RawQuery,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let arguments = Arguments::read(raw.as_deref(), &body)?;
    let (source, dest) = (arguments.path("source")?, arguments.path("dest")?);
    let request = Request::Rename { source: source.clone(), dest: dest.clone() };
    files::done(&*awake(&app, &name).await?, request).await.map_err(refusal)?;
    Ok(Json(json!({ "source": source, "dest": dest })))
}

#[derive(Serialize)]
pub(super) struct Copied {
    source: String,
    dest: String,
    #[serde(rename = "copied")]
    items: Box<RawValue>,
    count: u64,
    #[serde(rename = "totalBytes")]
    bytes: u64,
}

/// Copies a file or a tree.
pub(super) async fn copy(
    State(app): State<Shared>,
    Path(name): Path<String>,
    RawQuery(raw): RawQuery,
    body: Bytes,
) -> Result<Json<Copied>, ApiError> {
    let arguments = Arguments::read(raw.as_deref(), &body)?;
    let (source, dest) = (arguments.path("source")?, arguments.path("dest")?);
    let request = Request::Copy {
        source: source.clone(),
        dest: dest.clone(),
        recursive: arguments.is_set("recursive")?,
        preserve: arguments.is_set("preserveAttrs")?,
    };
    let Report { items, count, bytes } = ask(&app, &name, request).await?;
    Ok(Json(Copied { source, dest, items, count, bytes }))
}

#[derive(Serialize)]
pub(super) struct Affected {
    affected: Box<RawValue>,
    count: u64,
}

/// Sets permission bits.
pub(super) async fn chmod(
    State(app): State<Shared>,
    Path(name): Path<String>,
    RawQuery(raw): RawQuery,
    body: Bytes,
) -> Result<Json<Affected>, ApiError> {
    let arguments = Arguments::read(raw.as_deref(), &body)?;
    let path = arguments.path("path")?;
    let mode = arguments.mode()?.ok_or_else(|| arguments.invalid("mode"))?;
    let request = Request::Chmod { path, mode, recursive: arguments.is_set("recursive")? };
    let Report { items, count, .. } = ask(&app, &name, request).await?;
    Ok(Json(Affected { affected: items, count }))
}

/// Sets user and group.
pub(super) async fn chown(
    State(app): State<Shared>,
    Path(name): Path<String>,
    RawQuery(raw): RawQuery,
    body: Bytes,
) -> Result<Json<Affected>, ApiError> {
    let arguments = Arguments::read(raw.as_deref(), &body)?;
    let path = arguments.path("path")?;
    let (user, group) = (arguments.text("uid"), arguments.text("gid"));
    if user.is_none() && group.is_none() {
        return Err(arguments.invalid("uid").into());
    }
    let request = Request::Chown { path, user, group, recursive: arguments.is_set("recursive")? };
    let Report { items, count, .. } = ask(&app, &name, request).await?;
    Ok(Json(Affected { affected: items, count }))
}

async fn ask(app: &Shared, name: &str, request: Request) -> Result<Report, ApiError> {
    files::reported(&*awake(app, name).await?, request).await.map_err(refusal)
}

/// The guest; a cold one is woken or waited for, as chosen.
async fn awake(app: &Shared, name: &str) -> Result<Awake, ApiError> {
    let on_cold = app.registry.shared.settings.fs_on_cold;
    app.sprite(name)?.need(on_cold).await.map_err(|error| asleep(&error))
}

fn refusal(error: FilesError) -> ApiError {
    match error {
        FilesError::File(error) => error.into(),
        FilesError::Body => ApiError::bad("the body broke off"),
        FilesError::Guest(_) | FilesError::Io(_) => {
            error!(%error, "a file operation failed");
            ApiError::unavailable("the sprite did not answer")
        }
    }
}

/// Which bytes of a file a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    All,
    /// From the first to the last, both included.
    Part(u64, u64),
    /// Nothing of the file is in the range.
    Nothing,
}

/// Reads a `Range` header. One that makes no sense, or names several ranges, is ignored, as HTTP says.
fn range(text: &str, size: u64) -> Wanted {
    parse_range(text, size).unwrap_or(Wanted::All)
}

fn parse_range(text: &str, size: u64) -> Option<Wanted> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let first: Option<u64> = if first.is_empty() { None } else { Some(first.parse().ok()?) };
    let last: Option<u64> = if last.is_empty() { None } else { Some(last.parse().ok()?) };
    let (first, last) = match (first, last) {
        (None, None) => return None,
        (None, Some(0)) => return Some(Wanted::Nothing),
        (None, Some(count)) => (size.saturating_sub(count), u64::MAX),
        (Some(first), None) => (first, u64::MAX),
        (Some(first), Some(last)) if last < first => return None,
        (Some(first), Some(last)) => (first, last),
    };
    Some(if first < size { Wanted::Part(first, last.min(size - 1)) } else { Wanted::Nothing })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("bytes=0-3", 10, Wanted::Part(0, 3))]
    #[case("bytes=0-99", 10, Wanted::Part(0, 9))]
    #[case("bytes=4-", 10, Wanted::Part(4, 9))]
    #[case("bytes=-3", 10, Wanted::Part(7, 9))]
    #[case("bytes=-30", 10, Wanted::Part(0, 9))]
    #[case("bytes=10-", 10, Wanted::Nothing)]
    #[case("bytes=0-0", 0, Wanted::Nothing)]
    #[case("bytes=-0", 10, Wanted::Nothing)]
    #[case("bytes=5-2", 10, Wanted::All)]
    #[case("bytes=-", 10, Wanted::All)]
    #[case("bytes=0-1,3-4", 10, Wanted::All)]
    #[case("items=0-1", 10, Wanted::All)]
    fn ranges(#[case] text: &str, #[case] size: u64, #[case] expected: Wanted) {
        assert_eq!(range(text, size), expected);
    }

    proptest! {
        #[test]
        fn a_range_stays_in_the_file(first in 0u64..200, last in 0u64..200, size in 0u64..100) {
            if let Wanted::Part(a, b) = range(&format!("bytes={first}-{last}"), size) {
                prop_assert!(a <= b && b < size && a == first);
            }
        }
    }
}
