//! Files of a Sprite: read, write, list, delete. Paths are resolved inside the guest, by the agent.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};
use tracing::error;

use super::{LARGEST_FILE, Shared};
use crate::spritesd::errors::{ApiError, FileError};
use crate::spritesd::exec::environment::HOME;
use crate::spritesd::files::{self, FilesError};
use crate::spritesd::guest::Guest;

type Parameters = Query<HashMap<String, String>>;

/// Reads a file or a range of it.
pub(super) async fn read(
    State(app): State<Shared>,
    Path(name): Path<String>,
    Query(query): Parameters,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let path = absolute(&query)?;
    let opened = files::open(&*awake(&app, &name).await?, path).await.map_err(refusal)?;
    let size = opened.size;
    let wanted =
        headers.get(header::RANGE).and_then(|value| value.to_str().ok()).map_or(Wanted::All, |text| range(text, size));
    let kind = (header::CONTENT_TYPE, "application/octet-stream".to_owned());
    match wanted {
        Wanted::All => Ok(([kind], Body::from_stream(opened.stream(0, u64::MAX))).into_response()),
        Wanted::Nothing => {
            let extent = (header::CONTENT_RANGE, format!("bytes */{size}"));
            Ok((StatusCode::RANGE_NOT_SATISFIABLE, [extent]).into_response())
        }
        Wanted::Part(first, last) => {
            let extent = (header::CONTENT_RANGE, format!("bytes {first}-{last}/{size}"));
            let body = Body::from_stream(opened.stream(first, last - first + 1));
            Ok((StatusCode::PARTIAL_CONTENT, [kind, extent], body).into_response())
        }
    }
}

/// Replaces a file.
pub(super) async fn write(
    State(app): State<Shared>,
    Path(name): Path<String>,
    Query(query): Parameters,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let path = absolute(&query)?;
    let mode = match query.get("mode").filter(|mode| !mode.is_empty()) {
        None => None,
        Some(text) => match u32::from_str_radix(text, 8) {
            Ok(mode) if mode <= 0o7777 => Some(mode),
            Ok(_) | Err(_) => return Err(FileError::new("EINVAL", "invalid mode", &path).into()),
        },
    };
    let parents =
        query.get("mkdirParents").or_else(|| query.get("mkdir")).is_none_or(|text| text != "false" && text != "0");
    let guest = awake(&app, &name).await?;
    let (size, mode) = files::write(&guest, path.clone(), parents, mode, body, LARGEST_FILE).await.map_err(refusal)?;
    Ok(Json(json!({ "path": path, "size": size, "mode": format!("{mode:04o}") })))
}

/// Lists a directory, or describes a file.
pub(super) async fn list(
    State(app): State<Shared>,
    Path(name): Path<String>,
    Query(query): Parameters,
) -> Result<Json<Value>, ApiError> {
    let path = absolute(&query)?;
    let guest = awake(&app, &name).await?;
    let entries = files::list(&guest, path.clone(), is_set(&query, "recursive")).await.map_err(refusal)?;
    Ok(Json(json!({ "path": path, "count": entries.len(), "entries": entries })))
}

/// Removes a file or a tree. Arguments in the query or, as documented, in a JSON body.
pub(super) async fn delete(
    State(app): State<Shared>,
    Path(name): Path<String>,
    Query(mut query): Parameters,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    if let Ok(Value::Object(fields)) = serde_json::from_slice(&body) {
        for (key, value) in fields {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            query.entry(key).or_insert(text);
        }
    }
    let path = absolute(&query)?;
    let guest = awake(&app, &name).await?;
    files::delete(&guest, path.clone(), is_set(&query, "recursive")).await.map_err(refusal)?;
    Ok(Json(json!({ "deleted": [path], "count": 1 })))
}

fn is_set(query: &HashMap<String, String>, key: &str) -> bool {
    query.get(key).is_some_and(|text| text == "true" || text == "1")
}

/// The absolute path asked for; what it leads to is the guest's business.
fn absolute(query: &HashMap<String, String>) -> Result<String, ApiError> {
    let path = query.get("path").map(String::as_str).unwrap_or_default();
    if path.is_empty() || path.contains('\0') {
        return Err(FileError::new("EINVAL", "invalid path", path).into());
    }
    if path.starts_with('/') {
        return Ok(path.to_owned());
    }
    let base = query.get("workingDir").map(String::as_str).filter(|dir| dir.starts_with('/') && !dir.contains('\0'));
    Ok(format!("{}/{path}", base.unwrap_or(HOME).trim_end_matches('/')))
}

async fn awake(app: &Shared, name: &str) -> Result<Arc<Guest>, ApiError> {
    app.sprite(name)?.wake().await.map_err(|error| {
        error!(%error, "cannot wake a sprite");
        ApiError::unavailable("failed to start sprite")
    })
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

    #[test]
    fn relative_paths_begin_at_the_working_directory() {
        let path = |pairs: &[(&str, &str)]| {
            absolute(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()).ok()
        };
        assert_eq!(path(&[("path", "/a"), ("workingDir", "/b")]).as_deref(), Some("/a"));
        assert_eq!(path(&[("path", "a"), ("workingDir", "/")]).as_deref(), Some("/a"));
        assert_eq!(path(&[("path", "a")]).as_deref(), Some("/home/sprite/a"));
        assert_eq!(path(&[]), None);
        assert_eq!(path(&[("path", "a\0b")]), None);
    }
}
