//! Sprite names and pages of them. Pure: no store, no request types.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The largest page; a larger wish is clamped, as vendor clients ask for 100 where the documentation says 50.
pub(crate) const LARGEST_PAGE: usize = 100;
const DEFAULT_PAGE: usize = 50;

/// A Sprite is named by a DNS label: lower case letters, digits, inner hyphens, at most 63 bytes.
pub(crate) fn is_valid_name(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let edge = |b: Option<&u8>| b.is_some_and(|b| *b != b'-');
    let bytes = name.as_bytes();
    bytes.len() <= 63 && edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(|b| inner(*b))
}

/// One page of a sorted list of names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// The names of this page, sorted.
    pub(crate) names: Vec<String>,
    /// Where the next page starts; none on the last page, which is also what `has_more` says.
    pub(crate) next: Option<String>,
}

/// Cuts a page out of `sorted`. The token holds the last name given, so names created or deleted between two
/// pages neither repeat nor hide others. A token that is not ours is refused by `None`.
pub(crate) fn page<'a>(
    sorted: impl Iterator<Item = &'a str>,
    prefix: &str,
    limit: Option<usize>,
    token: Option<&str>,
) -> Option<Page> {
    let after = match token.filter(|t| !t.is_empty()) {
        None => None,
        Some(token) => {
            let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
            Some(String::from_utf8(bytes).ok().filter(|name| is_valid_name(name))?)
        }
    };
    let limit = limit.unwrap_or(DEFAULT_PAGE).clamp(1, LARGEST_PAGE);
    let mut names: Vec<String> = sorted
        .filter(|name| name.starts_with(prefix))
        .filter(|name| after.as_deref().is_none_or(|after| *name > after))
        .take(limit + 1)
        .map(str::to_owned)
        .collect();
    let more = names.len() > limit;
    names.truncate(limit);
    let next = names.last().filter(|_| more).map(|last| URL_SAFE_NO_PAD.encode(last));
    Some(Page { names, next })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("a", true)]
    #[case("a-1", true)]
    #[case("0", true)]
    #[case("", false)]
    #[case("-a", false)]
    #[case("a-", false)]
    #[case("A", false)]
    #[case("a.b", false)]
    #[case("a/b", false)]
    #[case("..", false)]
    #[case("é", false)]
    fn names(#[case] name: &str, #[case] valid: bool) {
        assert_eq!(is_valid_name(name), valid);
    }

    #[test]
    fn length_is_bounded() {
        assert!(is_valid_name(&"a".repeat(63)));
        assert!(!is_valid_name(&"a".repeat(64)));
    }

    #[test]
    fn a_full_last_page_has_no_successor() {
        let names = ["a", "b"];
        let got = page(names.into_iter(), "", Some(2), None).unwrap();
        assert_eq!(got, Page { names: vec!["a".into(), "b".into()], next: None });
    }

    #[test]
    fn foreign_tokens_are_refused() {
        assert_eq!(page(["a"].into_iter(), "", None, Some("%%")), None);
        assert_eq!(page(["a"].into_iter(), "", None, Some("AAAA")), None);
    }

    proptest! {
        #[test]
        fn pages_together_are_the_whole(names in prop::collection::btree_set("[a-c]{1,4}", 0..40), limit in 0usize..7) {
            let mut seen = Vec::new();
            let mut token: Option<String> = None;
            loop {
                let got = page(names.iter().map(String::as_str), "a", Some(limit), token.as_deref()).unwrap();
                prop_assert!(got.names.len() <= limit.max(1));
                seen.extend(got.names);
                token = got.next;
                if token.is_none() { break; }
            }
            let expected: Vec<_> = names.into_iter().filter(|n| n.starts_with('a')).collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
