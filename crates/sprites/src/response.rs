//! From an HTTP answer that is no success to an [`Error`]. Pure: the one table of what a status means.

use jiff::Timestamp;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use super::error::{Error, LimitReason};
use super::retry_after::retry_after;
use super::sanitize::ProviderText;

/// What the service was seen to answer with 500 where it means 404, on the Sprite itself only.
const MISSING_SPRITE: [&str; 2] = ["failed to retrieve sprite", "failed to delete sprite"];

/// What was asked, where the same status means different things.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// The Sprite itself: `/v1/sprites/{name}`.
    Sprite,
    /// A file in a Sprite: bodies carry a `code`.
    File,
    /// Anything else.
    Other,
}

/// An answer, read to its end or to a bound.
pub(super) struct Answer<'a> {
    pub status: StatusCode,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
    /// Removed from all text, should the other side echo it.
    pub secret: &'a str,
}

pub(super) fn error(answer: &Answer<'_>, subject: Subject, now: Timestamp) -> Error {
    let body = Body::parse(answer.body);
    let status = answer.status.as_u16();
    let foreign = |text: &str| ProviderText::new(text, Some(answer.secret));
    let message = foreign(if is_html(answer.headers) { "an HTML page" } else { &body.message });
    let retry_after = retry_after(body.retry_after_seconds, header(answer.headers, &RETRY_AFTER), now);
    let unknown = |message| {
        // Only with 503 do these words mean "too much load for now" (RFC 9110 §15.6.4).
        let retry_after = retry_after.filter(|_| status == 503);
        Error::Unknown { status: Some(status), sent: true, retry_after, message, source: None }
    };
    // A 403 that names the file system's error is the guest's word on a file, not the service's on our token.
    let of_a_file = subject == Subject::File && body.file_code.is_some();
    match status {
        // A page of a proxy or a portal is not the API's word on what exists.
        404 if is_html(answer.headers) => unknown(message),
        401 => Error::Denied { status, message },
        403 if !of_a_file => Error::Denied { status, message },
        429 => Error::RateLimited {
            retry_after,
            reason: match body.code.as_deref() {
                Some("concurrent_sprite_limit_exceeded") => LimitReason::Capacity,
                Some("sprite_creation_rate_limited") => LimitReason::CreationRate,
                Some(_) | None => LimitReason::Other,
            },
            message,
        },
        400..=599 if of_a_file => Error::File { code: foreign(body.file_code.as_deref().unwrap_or_default()), message },
        404 => Error::Absent { message },
        500 if subject == Subject::Sprite && MISSING_SPRITE.contains(&body.message.as_str()) => {
            Error::Absent { message }
        }
        409 => Error::Busy { message },
        // "Try again", in the words of proxies; and 410, which means many things.
        408 | 410 | 421 | 425 => unknown(message),
        400..=499 => Error::Invalid { status: Some(status), message },
        _ => unknown(message),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &reqwest::header::HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn is_html(headers: &HeaderMap) -> bool {
    header(headers, &CONTENT_TYPE).is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/html"))
}

/// What the several error shapes have in common.
#[derive(Default)]
struct Body {
    /// The text for people; the whole body when it is no JSON object.
    message: String,
    /// The text for programs: `error` of a limit.
    code: Option<String>,
    /// `code` of a file error.
    file_code: Option<String>,
    retry_after_seconds: Option<f64>,
}

impl Body {
    fn parse(bytes: &[u8]) -> Self {
        let Ok(Value::Object(object)) = serde_json::from_slice(bytes) else {
            return Self { message: String::from_utf8_lossy(bytes).trim().to_owned(), ..Self::default() };
        };
        let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        let errors = object.get("errors").and_then(Value::as_array).map(|list| {
            let texts: Vec<_> = list.iter().filter_map(Value::as_str).collect();
            texts.join("; ")
        });
        let code = text("error");
        Self {
            message: text("message").or_else(|| code.clone()).or(errors).unwrap_or_default(),
            code,
            file_code: text("code").filter(|code| code.starts_with('E')),
            retry_after_seconds: object.get("retry_after_seconds").and_then(Value::as_f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;

    use super::*;

    fn map(status: u16, body: &str, subject: Subject) -> Error {
        let headers = HeaderMap::new();
        let answer = Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: &headers,
            body: body.as_bytes(),
            secret: "tok-1",
        };
        error(&answer, subject, Timestamp::UNIX_EPOCH)
    }

    #[rstest]
    #[case(404, r#"{"error":"sprite not found"}"#, Subject::Sprite, "absent", false)]
    #[case(404, "session not found: 12", Subject::Other, "absent", false)]
    #[case::old(500, r#"{"error":"failed to retrieve sprite"}"#, Subject::Sprite, "absent", false)]
    #[case::old_text(500, "failed to delete sprite\n", Subject::Sprite, "absent", false)]
    #[case::not_on_others(500, r#"{"error":"failed to retrieve sprite"}"#, Subject::Other, "unknown", true)]
    #[case::not_nearly(500, r#"{"error":"failed to retrieve sprites"}"#, Subject::Sprite, "unknown", true)]
    #[case(401, r#"{"error":"authentication failed"}"#, Subject::Sprite, "denied", false)]
    #[case(403, "", Subject::Sprite, "denied", false)]
    #[case(409, r#"{"error":"A sprite named 'X' already exists."}"#, Subject::Other, "busy", false)]
    #[case(400, r#"{"errors":["invalid sprite name format"]}"#, Subject::Other, "invalid", false)]
    #[case(422, "", Subject::Other, "invalid", false)]
    #[case(429, r#"{"error":"concurrent_sprite_limit_exceeded"}"#, Subject::Other, "capacity", false)]
    #[case(429, r#"{"error":"sprite_creation_rate_limited"}"#, Subject::Other, "rate_limited", false)]
    #[case(429, "slow down", Subject::Other, "rate_limited", false)]
    #[case(408, "", Subject::Other, "unknown", true)]
    #[case(500, "", Subject::Sprite, "unknown", true)]
    #[case(502, "<html>bad gateway</html>", Subject::Other, "unknown", true)]
    #[case::redirects_are_not_followed(302, "", Subject::Sprite, "unknown", true)]
    #[case::no_file(404, r#"{"error":"no such file","code":"ENOENT"}"#, Subject::File, "file", true)]
    #[case::a_file_that_is_refused(
        403,
        r#"{"error":"permission denied","code":"EACCES"}"#,
        Subject::File,
        "file",
        true
    )]
    #[case::a_file_call_that_is_denied(403, r#"{"error":"forbidden"}"#, Subject::File, "denied", false)]
    #[case::a_token_that_is_rejected(401, r#"{"error":"x","code":"EACCES"}"#, Subject::File, "denied", false)]
    #[case::a_files_words_elsewhere(403, r#"{"code":"EACCES"}"#, Subject::Other, "denied", false)]
    #[case::no_sprite(404, r#"{"error":"sprite not found"}"#, Subject::File, "absent", false)]
    #[case::file_code_elsewhere(404, r#"{"code":"ENOENT"}"#, Subject::Other, "absent", false)]
    fn every_status_has_one_meaning(
        #[case] status: u16,
        #[case] body: &str,
        #[case] subject: Subject,
        #[case] kind: &str,
        #[case] may_have_happened: bool,
    ) {
        let error = map(status, body, subject);
        assert_eq!((error.kind(), error.may_have_happened()), (kind, may_have_happened));
    }

    #[rstest]
    #[case::too_much_load(503, "2", Some(2))]
    #[case::without_words(503, "soon", None)]
    #[case::a_proxy_that_cannot_reach_it(502, "2", None)]
    fn only_a_503_may_ask_everyone_to_wait(#[case] status: u16, #[case] header: &str, #[case] seconds: Option<u64>) {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, header.parse().unwrap());
        let status = StatusCode::from_u16(status).unwrap();
        let answer = Answer { status, headers: &headers, body: b"", secret: "tok-1" };
        let error = error(&answer, Subject::Other, Timestamp::UNIX_EPOCH);
        assert_eq!(error.retry_after(), seconds.map(Duration::from_secs));
    }

    #[test]
    fn a_404_page_of_a_proxy_is_not_absence() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, "text/html; charset=utf-8".parse().unwrap());
        let answer = Answer { status: StatusCode::NOT_FOUND, headers: &headers, body: b"<html>", secret: "tok-1" };
        let error = error(&answer, Subject::Sprite, Timestamp::UNIX_EPOCH);
        assert_eq!(error.kind(), "unknown");
        assert!(!error.to_string().contains('<'));
    }

    #[test]
    fn the_body_of_a_limit_says_how_long() {
        let body = r#"{"error":"sprite_creation_rate_limited","message":"slow down","retry_after_seconds":30}"#;
        let error = map(429, body, Subject::Other);
        assert_eq!(error.retry_after(), Some(Duration::from_secs(30)));
        assert!(error.to_string().contains("slow down"));
    }

    #[test]
    fn an_echoed_token_and_a_long_body_are_not_shown() {
        let body = format!("bad token tok-1\r\n\u{1b}[2J{}", "x".repeat(5000));
        let error = map(400, &body, Subject::Other);
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("tok-1") && !shown.contains('\u{1b}') && !shown.contains('\n'));
        assert!(shown.len() < 1000);
    }
}
