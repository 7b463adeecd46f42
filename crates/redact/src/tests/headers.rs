//! Headers of HTTP and schemes of authorization.

use super::*;

#[rstest]
#[case("Authorization: Token hunter2x9", "Authorization: Token REDACTED")]
#[case("Authorization: hunter2x9", "Authorization: REDACTED")]
#[case("Authorization: Custom hunter2x9", "Authorization: Custom REDACTED")]
#[case("Authorization: SharedKey account:aGVsbG8xMjM0NTY3OA==", "Authorization: SharedKey REDACTED")]
#[case("{\"Authorization\": \"Custom hunter2x9\", \"n\": 1}", "{\"Authorization\": \"Custom REDACTED\", \"n\": 1}")]
#[case("{\"Authorization\": hunter2x9, \"n\": 1}", "{\"Authorization\": \"REDACTED\", \"n\": 1}")]
#[case(
    "Authorization: Digest username=\"bob\", response=hunter2x9",
    "Authorization: Digest username=\"bob\", response=REDACTED"
)]
#[case("Authorization: Bearer abc, x", "Authorization: Bearer REDACTED x")]
#[case("authorization=hunter2x9,b", "authorization=REDACTED")]
#[case("bearer  abcdefgh1", "bearer  REDACTED")]
#[case("Bearer abcdefghiJklmnopqrst x", "Bearer REDACTED x")]
#[case("Basic dXNlcjpwYXNz x", "Basic REDACTED x")]
#[case("Authorization: Digest hunter2x9abc", "Authorization: Digest REDACTED")]
#[case("Cookie: a=hunte2", "Cookie: a=REDACTED")]
#[case("Cookie: a=b; c=hunt; d=hunte2; e=f", "Cookie: a=b; c=hunt; d=REDACTED")]
#[case("Cookie: a=REDACTED; d=hunte2", "Cookie: a=REDACTED; d=REDACTED")]
#[case("Authorization: Basic:hunter2x9abcdef", "Authorization: REDACTED")]
#[case("Authorization: hunter2x9;v=1", "Authorization: REDACTED")]
#[case("authorization: Bearer abcdefgh", "authorization: Bearer REDACTED")]
#[case("{\"Authorization\": \"hunter2x9abc\"}", "{\"Authorization\": \"REDACTED\"}")]
fn what_stands_behind_a_scheme_is_masked(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(redact(text), expected);
}

#[rstest]
#[case("Authorization: see the docs for version2 of this")]
#[case("authorization: none")]
#[case("AUTHORIZATION: passthrough")]
#[case("Authorization: Odd hunter2x9 and this")]
#[case("Bearer.authenticate1Token")]
#[case("Authorization: Bearer getIt()")]
#[case("{\"Authorization\": \"passthrough\"}")]
#[case("{\"Authorization\": \"see the docs\"}")]
#[case("Authorization: Custom header")]
#[case("Bearer abcdefgh")]
#[case("Bearer abcdefghijklmnopqrst")]
#[case("Bearer ABCDEFGHIJKLMNOPQRST")]
#[case("Bearer abcdefghiJklmnopqrs")]
#[case("Bearer 1234567")]
#[case("Bearerhunter2x9abc")]
#[case("Basic dXNlcg== x")]
#[case("Basic knowledge")]
#[case("Cookie: =hunter2x9")]
#[case("Cookie: a=hunt2")]
fn what_is_too_little_for_one_is_kept(#[case] text: &str) {
    assert_eq!(redact(text), text);
}

#[test]
fn credentials_longer_than_is_decoded_are_judged_by_their_head() {
    use base64::{Engine, engine::general_purpose::STANDARD};
    for len in [380, 383, 384, 385, 386, 387, 600] {
        let encoded = STANDARD.encode(["user:", &"p".repeat(len - 5)].concat());
        assert_eq!(redact(&format!("Basic {encoded} x")), "Basic REDACTED x", "{len}");
        // What is no text is none, wherever that shows.
        let other = STANDARD.encode([b"user:".as_slice(), &vec![7; len - 5]].concat());
        assert_eq!(redact(&format!("Basic {other} x")), format!("Basic {other} x"), "{len}");
    }
}
