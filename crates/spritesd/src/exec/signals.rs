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
}
