//! Values that YAML takes for something else because they stand without quotes: `*` begins an alias, `&` an anchor, `!` a tag. PURE.
//!
//! Host wildcards and expressions begin so; the parser's own words do not help who wrote one.

/// What a sign means at the beginning of a value.
fn meaning(sign: char) -> Option<&'static str> {
    match sign {
        '*' => Some("an alias"),
        '&' => Some("an anchor, which leaves no value"),
        '!' => Some("a tag, which leaves no value"),
        '%' => Some("a directive"),
        '@' | '`' => Some("a reserved sign"),
        _ => None,
    }
}

/// What to write in place of the value that the parser stumbled on; line and column are counted from 1.
pub(super) fn at(text: &str, line: usize, column: usize) -> Option<String> {
    let written = text.lines().nth(line.checked_sub(1)?)?;
    let begins = written.char_indices().nth(column.checked_sub(1)?).and_then(|(at, _)| written.get(at..));
    // In brackets a value ends at a sign of theirs.
    let listed = written.contains(['[', '{']);
    let word = begins.and_then(|rest| rest.split(|c: char| listed && ",]}".contains(c)).next()).map(str::trim);
    word.into_iter().chain(values(written)).find_map(|value| said(line, value))
}

/// The same of each value in a text that is an anchor or a tag and nothing more, so that nothing stands there.
pub(super) fn empty(text: &str) -> Vec<String> {
    let mut lines = text.lines().enumerate().peekable();
    let mut found = Vec::new();
    while let Some((at, line)) = lines.next() {
        let indent = |line: &str| line.len() - line.trim_start().len();
        // An anchor of what stands below it.
        let holds = lines.peek().is_some_and(|(_, next)| indent(next) > indent(line) && !next.trim().is_empty());
        if !holds {
            let alone = values(line).filter(|value| value.starts_with(['&', '!']) && !value.contains(' '));
            found.extend(alone.filter_map(|value| said(at + 1, value)));
        }
    }
    found
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
    Some(format!("line {line}: `{value}` begins with `{sign}`, in YAML the sign of {meaning}: quote it: {quoted}"))
}

/// The values of a line: behind dashes and a key, or the items of a list in brackets.
fn values(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line.trim();
    while let Some(item) = rest.strip_prefix("- ") {
        rest = item.trim_start();
    }
    let key = rest.split_once(": ").filter(|(key, _)| !key.is_empty() && !key.contains(['[', '"', '\'', ' ']));
    let value = key.map_or(rest, |(_, value)| value.trim_start());
    let value = value.split_once(" #").map_or(value, |(value, _)| value).trim_end();
    let listed = value.strip_prefix('[').map(|list| list.trim_end_matches(']'));
    listed.unwrap_or(value).split(if listed.is_some() { ',' } else { '\n' }).map(str::trim)
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
    #[case::backtick("- - `id`", "`, in YAML the sign of a reserved sign: quote it: \"`id`\"")]
    fn the_value_is_named_with_its_quotes(#[case] line: &str, #[case] end: &str) {
        let text = format!("first: line\n{line}\n");
        let said = at(&text, 2, 1).unwrap();
        assert!(said.starts_with("line 2: ") && said.ends_with(end), "{said}");
        assert_eq!(at(&text, 1, 1), None);
    }

    #[test]
    fn an_anchor_or_a_tag_alone_leaves_nothing_and_one_with_a_value_is_what_it_is() {
        let text =
            "deny:\n- &&\\s*curl\n- !important\n- &known rm\n- !!str 5\nbase: &base\n  a: b\nother: *base\nlast: &end";
        let lines: Vec<_> = empty(text).iter().map(|said| said.split(' ').nth(1).unwrap().to_owned()).collect();
        assert_eq!(lines, ["2:", "3:", "9:"]);
    }
}
