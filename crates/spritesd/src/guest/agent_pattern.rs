//! File name patterns as shells write them: `*`, `?`, `[a-z]`, `[!a-z]`, `\` before a plain character. Pure.
//!
//! The work is bounded by the product of both lengths, whatever the pattern.

/// Whether all of `name` fits `pattern`. An unclosed `[` stands for itself.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut place) = (0, 0);
    // Where the last star is, and how much of the name it covers so far.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let next = name.get(place).copied();
        if pattern.get(at) == Some(&'*') {
            star = Some((at, place));
            at += 1;
            continue;
        }
        match next.and_then(|character| one(&pattern, at, character)) {
            Some(after) => {
                at = after;
                place += 1;
                continue;
            }
            None if next.is_none() && at == pattern.len() => return true,
            None => {}
        }
        // Let the star cover one character more.
        match star {
            Some((stars, covered)) if covered < name.len() => {
                star = Some((stars, covered + 1));
                at = stars + 1;
                place = covered + 1;
            }
            Some(_) | None => return false,
        }
    }
}

/// Matches one character with what stands at `at`; gives what comes after that.
fn one(pattern: &[char], at: usize, character: char) -> Option<usize> {
    match *pattern.get(at)? {
        '?' => Some(at + 1),
        '\\' => match pattern.get(at + 1) {
            Some(quoted) => (*quoted == character).then_some(at + 2),
            None => (character == '\\').then_some(at + 1),
        },
        '[' => match class(pattern, at + 1, character) {
            Some((true, after)) => Some(after),
            Some((false, _)) => None,
            None => (character == '[').then_some(at + 1),
        },
        plain => (plain == character).then_some(at + 1),
    }
}

/// Reads the class that begins at `at`: whether it holds `character`, and what comes after it. None if unclosed.
fn class(pattern: &[char], mut at: usize, character: char) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(at), Some('!' | '^'));
    at += usize::from(negated);
    let first = at;
    let mut holds = false;
    loop {
        let low = *pattern.get(at)?;
        if low == ']' && at > first {
            return Some((holds != negated, at + 1));
        }
        match (pattern.get(at + 1), pattern.get(at + 2)) {
            (Some('-'), Some(high)) if *high != ']' => {
                holds |= (low..=*high).contains(&character);
                at += 3;
            }
            _ => {
                holds |= low == character;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("*.txt", "a.txt", true)]
    #[case("*.txt", "a.txt.gz", false)]
    #[case("*", "", true)]
    #[case("", "", true)]
    #[case("", "a", false)]
    #[case("a*b*c", "a-b-b-c", true)]
    #[case("a*b*c", "a-b-b-d", false)]
    #[case("?", "ä", true)]
    #[case("??", "a", false)]
    #[case("[a-c]x", "bx", true)]
    #[case("[!a-c]x", "bx", false)]
    #[case("[]]", "]", true)]
    #[case("[a", "[a", true)]
    #[case("\\*", "*", true)]
    #[case("\\*", "a", false)]
    #[case("**", "abc", true)]
    fn patterns(#[case] pattern: &str, #[case] name: &str, #[case] expected: bool) {
        assert_eq!(fits(pattern, name), expected);
    }

    proptest! {
        #[test]
        fn a_plain_name_fits_itself_only(name in "[a-z.]{0,12}", other in "[a-z.]{0,12}") {
            prop_assert!(fits(&name, &name));
            prop_assert_eq!(fits(&name, &other), name == other);
        }

        #[test]
        fn a_star_stands_for_anything(before: String, after: String, between: String) {
            let quote = |text: &str| text.chars().flat_map(|c| ['\\', c]).collect::<String>();
            let pattern = format!("{}*{}", quote(&before), quote(&after));
            let name = format!("{before}{between}{after}");
            prop_assert!(fits(&pattern, &name));
        }

        #[test]
        fn nothing_hangs_or_panics(pattern in "[*?\\[\\]!a\\\\-]{0,40}", name in "[a\\[\\]-]{0,40}") {
            let _ = fits(&pattern, &name);
        }
    }
}
