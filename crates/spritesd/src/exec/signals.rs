//! Signal names. Pure.

use rustix::process::Signal;

/// The number of a signal by name, with or without `SIG`; none when it is none a client may send.
pub(crate) fn number(name: &str) -> Option<i32> {
    let name = name.to_ascii_uppercase();
    let signal = match name.strip_prefix("SIG").unwrap_or(&name) {
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "KILL" => Signal::KILL,
        "TERM" => Signal::TERM,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "STOP" => Signal::STOP,
        "CONT" => Signal::CONT,
        "TSTP" => Signal::TSTP,
        "ABRT" => Signal::ABORT,
        "ALRM" => Signal::ALARM,
        "WINCH" => Signal::WINCH,
        _ => return None,
    };
    Some(signal.as_raw())
}

/// Whether a program is asked to end by it, rather than told something. Then all of its process group is, as by the
/// keys of a terminal: a shell alone would leave what it runs behind.
pub(crate) fn ends(signal: i32) -> bool {
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::ABORT, Signal::KILL, Signal::TERM]
        .iter()
        .any(|ending| ending.as_raw() == signal)
}

/// How the name is shown.
pub(crate) fn full_name(name: &str) -> String {
    let name = name.to_ascii_uppercase();
    if name.starts_with("SIG") { name } else { format!("SIG{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings() {
        assert_eq!(number("TERM"), Some(15));
        assert_eq!(number("sigkill"), Some(9));
        assert_eq!(number("SIG"), None);
        assert_eq!(number("9"), None);
        assert_eq!(full_name("int"), "SIGINT");
    }

    #[test]
    fn those_that_end_a_program() {
        for (name, expected) in [("KILL", true), ("TERM", true), ("INT", true), ("USR1", false), ("WINCH", false)] {
            assert_eq!(number(name).map(ends), Some(expected), "{name}");
        }
    }
}
