//! A text as it is stored: redacted whole, or what redaction changed in it. Must not judge.

use std::io::{self, Write};

use redact::Redactor;
use similar::{ChangeTag, TextDiff};

use super::print::UntilClosed;

/// Prints a text redacted, byte for byte but for its masks, or with `diff` the lines that changed; what was masked is counted on
/// `notes`.
pub fn text(bytes: &[u8], diff: bool, output: &mut impl Write, notes: &mut impl Write) -> io::Result<()> {
    let (output, notes) = (&mut UntilClosed::new(output), &mut UntilClosed::new(notes));
    let (redacted, hits) = Redactor::default().redact_bytes(bytes, false);
    if diff {
        let (before, after) = (String::from_utf8_lossy(bytes), String::from_utf8_lossy(&redacted));
        changes(output, &before, &after)?;
    } else {
        output.write_all(&redacted)?;
    }
    let by_rule: Vec<_> = hits.iter().map(|(rule, count)| format!("{} {count}", rule.as_str())).collect();
    match hits.total() {
        0 => writeln!(notes, "sprite-operator: nothing masked"),
        total => writeln!(notes, "sprite-operator: {total} masked ({})", by_rule.join(", ")),
    }
}

/// Each line that changed, with its number in the text before.
fn changes(output: &mut impl Write, before: &str, after: &str) -> io::Result<()> {
    for change in TextDiff::from_lines(before, after).iter_all_changes() {
        let (sign, line) = match change.tag() {
            ChangeTag::Equal => continue,
            ChangeTag::Delete => ('-', change.old_index()),
            ChangeTag::Insert => ('+', None),
        };
        let number = line.map_or(String::new(), |line| (line + 1).to_string());
        writeln!(output, "{number:>6} {sign}{}", change.value().trim_end_matches(['\n', '\r']))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bytes: &[u8], diff: bool) -> (Vec<u8>, String) {
        let (mut output, mut notes) = (Vec::new(), Vec::new());
        text(bytes, diff, &mut output, &mut notes).unwrap();
        (output, String::from_utf8(notes).unwrap())
    }

    #[test]
    fn a_text_comes_out_whole_however_long_its_lines_are() {
        let long = "word ".repeat(1000);
        let before = [&long, "\npassword=", "hunter2x9", "\r\nend"].concat();
        let (output, notes) = told(before.as_bytes(), false);
        assert_eq!(output, [&long, "\npassword=REDACTED\r\nend"].concat().as_bytes());
        assert_eq!(notes, "sprite-operator: 1 masked (Assignment 1)\n");
    }

    #[test]
    fn bytes_that_are_no_text_come_out_as_they_are() {
        let (output, notes) = told(b"\xff\x00plain\n", false);
        assert_eq!(output, b"\xff\x00plain\n");
        assert_eq!(notes, "sprite-operator: nothing masked\n");
    }

    #[test]
    fn the_difference_shows_each_changed_line_with_its_number() {
        let before = ["one\npassword=", "hunter2x9", "\nthree\n"].concat();
        let (output, _) = told(before.as_bytes(), true);
        let expected = ["     2 -password=", "hunter2x9", "\n       +password=REDACTED\n"].concat();
        assert_eq!(String::from_utf8(output).unwrap(), expected);
        assert_eq!(told(b"nothing\n", true).0, b"");
    }
}
