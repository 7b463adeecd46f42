//! Values that YAML takes for something else because they stand without quotes: `*` begins an alias, `&` an anchor, `!` a tag. PURE.
//!
//! Host wildcards and expressions begin so; the parser's own words do not help who wrote one. Reads lines, not YAML: what it says
//! are hints.

use std::collections::HashSet;

use super::documents::Wanted;

/// What a sign means at the beginning of a value.
fn meaning(sign: char) -> Option<&'static str> {
    match sign {
        '*' => Some("the sign of an alias"),
        '&' => Some("the sign of an anchor"),
        '!' => Some("the sign of a tag"),
        '%' => Some("the sign of a directive"),
        '@' | '`' => Some("a reserved sign"),
        _ => None,
    }
}

/// What to write in place of the value that the parser stumbled on; line and column are counted from 1.
pub(super) fn at(text: &str, line: usize, column: usize, wanted: Wanted) -> Option<String> {
    let written = text.lines().nth(line.checked_sub(1)?)?;
    let begins = written.char_indices().nth(column.checked_sub(1)?).and_then(|(at, _)| written.get(at..));
    // In brackets a value ends at a sign of theirs.
    let listed = written.contains(['[', '{']);
    let word = begins.and_then(|rest| rest.split(|c: char| listed && ",]}".contains(c)).next()).map(str::trim);
    word.into_iter().chain(values(written)).find_map(|value| match wanted {
        Wanted::Policies => said(line, value),
        Wanted::Runs => unrepeated(line, value),
    })
}

/// What YAML makes of values in a text that begin with the sign of an anchor or a tag.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unquoted {
    /// Such values that are nothing more, so that nothing stands there.
    pub empty: Vec<String>,
    /// Such values of which only what follows the first word is left.
    pub shortened: Vec<String>,
    /// Those of them that the YAML of `kubectl` cannot read at all, as `&&` is no name of an anchor there.
    pub refused: Vec<String>,
}

/// Looks for them in the lines of a text; a text in block style is passed over.
pub(super) fn find(text: &str) -> Unquoted {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<_> =
        text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.trim_start().starts_with('#')).collect();
    let aliases: HashSet<&str> = text
        .split(|c: char| c.is_whitespace() || "[]{},".contains(c))
        .filter_map(|word| word.strip_prefix('*'))
        .collect();
    let mut found = Unquoted::default();
    let mut block = None;
    for (number, (at, line)) in lines.iter().enumerate() {
        if block.is_some_and(|outer| indent(line) > outer) {
            continue;
        }
        let last = line.split(" #").next().and_then(|line| line.split_whitespace().next_back()).unwrap_or_default();
        let is_block =
            last.starts_with(['|', '>']) && last.bytes().skip(1).all(|b| b == b'-' || b == b'+' || b.is_ascii_digit());
        block = is_block.then(|| indent(line));
        // An anchor of what stands below it; a list may stand at its key's own indentation.
        let holds = lines.get(number + 1).is_some_and(|(_, next)| {
            let is_item = |line: &str| line.trim_start().starts_with("- ");
            indent(next) > indent(line) || indent(next) == indent(line) && is_item(next) && !is_item(line)
        });
        for value in values(line).filter(|value| value.starts_with(['&', '!']) && !value.starts_with("!!")) {
            match value.split_once(' ') {
                None if !holds => found.empty.extend(said(at + 1, value)),
                Some((sign, left)) if !is_block && !aliases.contains(sign.trim_start_matches('&')) => {
                    let left = left.trim();
                    let name = sign.strip_prefix('&').unwrap_or("tag");
                    let is_name =
                        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
                    let (found, what) = if is_name {
                        (&mut found.shortened, format!("without quotes it means `{left}`"))
                    } else {
                        (&mut found.refused, "kubectl cannot read it without quotes".to_owned())
                    };
                    found.extend(said(at + 1, value).map(|said| format!("{said}; {what}")));
                }
                None | Some(_) => {}
            }
        }
    }
    found
}

/// Values behind these keys that begin with the sign of an anchor or a tag; no value is repeated.
pub(super) fn behind(text: &str, keys: &[&str]) -> Vec<String> {
    let of_line = |(at, line): (usize, &str)| {
        let (key, value) = line.trim().trim_start_matches("- ").split_once(": ")?;
        let value = value.trim_start();
        let taken = keys.contains(&key) && value.starts_with(['&', '!']) && !value.starts_with("!!");
        let said = unrepeated(at + 1, value).filter(|_| taken)?;
        Some(format!("{said}; without quotes its first word is lost, or kubectl cannot read it"))
    };
    text.lines().enumerate().filter_map(of_line).collect()
}

/// What to do about a value, without the value.
fn unrepeated(line: usize, value: &str) -> Option<String> {
    let sign = value.chars().next()?;
    let meaning = meaning(sign)?;
    Some(format!("line {line}: a value begins with `{sign}`, in YAML {meaning}: write it in quotes"))
}

fn said(line: usize, value: &str) -> Option<String> {
    let sign = value.chars().next()?;
    let meaning = meaning(sign)?;
    let value: String = value.chars().take(80).collect();
    // In single quotes, where backslashes stand for themselves, unless there is a quote in it.
    let quoted = if value.contains('\\') || value.contains('"') {
        format!("'{}'", value.replace('\'', "''"))
    } else {
        format!("\"{value}\"")
    };
    Some(format!("line {line}: `{value}` begins with `{sign}`, in YAML {meaning}: quote it: {quoted}"))
}

/// Without the key before it.
fn behind_key(text: &str) -> &str {
    let key = text.split_once(": ").filter(|(key, _)| !key.is_empty() && !key.contains(['[', '"', '\'', ' ']));
    key.map_or(text, |(_, value)| value.trim_start())
}

/// The values of a line: behind dashes and a key, or the items of a list in brackets.
fn values(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line.trim();
    while let Some(item) = rest.strip_prefix("- ") {
        rest = item.trim_start();
    }
    let value = behind_key(rest);
    let value = value.split_once(" #").map_or(value, |(value, _)| value).trim_end();
    let is_flow = value.starts_with(['[', '{']);
    value.split(move |c: char| is_flow && "[]{},".contains(c)).map(|piece| behind_key(piece.trim()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::item(
        "    - *.example.com",
        "`*.example.com` begins with `*`, in YAML the sign of an alias: quote it: \"*.example.com\""
    )]
    #[case::list("  allow: [api.example.com, *.example.com]", "quote it: \"*.example.com\"")]
    #[case::value("region: %iad # here", "`%iad` begins with `%`, in YAML the sign of a directive: quote it: \"%iad\"")]
    #[case::backslash(r"- @\bx", r"quote it: '@\bx'")]
    #[case::backtick("- - `id`", "`, in YAML a reserved sign: quote it: \"`id`\"")]
    fn the_value_is_named_with_its_quotes(#[case] line: &str, #[case] end: &str) {
        let text = format!("first: line\n{line}\n");
        let said = at(&text, 2, 1, Wanted::Policies).unwrap();
        assert!(said.starts_with("line 2: ") && said.ends_with(end), "{said}");
        assert_eq!(at(&text, 1, 1, Wanted::Policies), None);
    }

    fn lines(said: &[String]) -> Vec<&str> {
        said.iter().map(|said| said.split(' ').nth(1).unwrap()).collect()
    }

    #[rstest]
    #[case::items("deny:\n- &&\\s*curl\n- !important\n- rm\n", &["2:", "3:"], &[])]
    #[case::a_key("base: &base\n  a: b\nother: *base\nlast: &end", &["4:"], &[])]
    #[case::in_brackets("deny: [&a, b]", &["1:"], &[])]
    #[case::a_list_at_its_keys_indentation("allow: &hosts\n- a\nb: *hosts", &[], &[])]
    #[case::a_comment_and_a_blank_line_between("allow: &hosts\n\n# those\n  - a\nb: *hosts", &[], &[])]
    #[case::block_style("script: |\n  - &a\n\n  - !b c\nx: &a", &["5:"], &[])]
    #[case::shortened("deny:\n- &a rm\n- !sudo reboot\n- '&& mv'\n", &[], &["2:", "3:"])]
    #[case::shortened_in_brackets("commands: {deny: [ &b rm, 'x' ]}\nb: [&x rm, ls]", &[], &["1:", "2:"])]
    #[case::what_yaml_is_meant("deny:\n- &known rm\n- *known\n- !!str 5\n- a && b", &[], &[])]
    fn anchors_and_tags_that_nobody_means_are_found(
        #[case] text: &str,
        #[case] empty: &[&str],
        #[case] shortened: &[&str],
    ) {
        let found = find(text);
        assert_eq!(
            (lines(&found.empty).as_slice(), lines(&found.shortened).as_slice()),
            (empty, shortened),
            "{found:?}"
        );
    }

    #[test]
    fn what_is_left_is_told() {
        let said = "line 2: `&x rm` begins with `&`, in YAML the sign of an anchor: quote it: \"&x rm\"";
        assert_eq!(find("deny:\n- &x rm").shortened, [format!("{said}; without quotes it means `rm`")]);
    }

    #[rstest]
    #[case::item("deny:\n- && rm")]
    #[case::in_brackets("a: b\ndeny: [ && rm, 'x' ]")]
    #[case::of_signs("a: b\n- &1.5 rm")]
    fn what_kubectl_cannot_read_is_refused(#[case] text: &str) {
        let found = find(text);
        assert!(
            found.shortened.is_empty() && found.refused[0].ends_with("kubectl cannot read it without quotes"),
            "{found:?}"
        );
    }
}
