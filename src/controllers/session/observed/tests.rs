//! What a failed call says of a Sprite.

use std::time::Duration;

use rstest::rstest;

use super::*;
use sprites::{Error, HeldReason, TokenError};

fn denied(status: u16) -> Error {
    Error::Denied { status, message: sprites::ProviderText::new("bearer s3cr3t of another tenant", None) }
}

#[rstest]
#[case::rejected(denied(401), NoAnswer::Denied(401), SessionReason::PlatformDenied, "(401): check the Secret")]
#[case::forbidden(denied(403), NoAnswer::Denied(403), SessionReason::PlatformDenied, "(403): check which organization")]
#[case::no_token(TokenError::Empty.into(), NoAnswer::NoToken, SessionReason::PlatformDenied, "no usable token")]
#[case::late(Error::Timeout { after: Duration::from_secs(10), sent: true }, NoAnswer::Other("timeout"), SessionReason::PlatformUnavailable, "(timeout); trying again")]
#[case::held(Error::Held { reason: HeldReason::Full, retry_after: None }, NoAnswer::Other("held"), SessionReason::PlatformUnavailable, "(held); trying again")]
#[case::garbled(Error::Protocol { what: "a field" }, NoAnswer::Other("protocol"), SessionReason::PlatformUnavailable, "(protocol); trying again")]
fn an_error_is_told_without_the_platforms_own_words(
    #[case] error: Error,
    #[case] expected: NoAnswer,
    #[case] reason: SessionReason,
    #[case] message: &str,
) {
    let answer = NoAnswer::of(&error);
    assert_eq!((&answer, answer.reason()), (&expected, reason));
    assert!(answer.to_string().contains(message) && !answer.to_string().contains("s3cr3t"), "{answer}");
}
