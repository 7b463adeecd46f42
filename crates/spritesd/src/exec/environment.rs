//! What every program of a guest starts with. Pure.

/// Where programs are looked up, whatever PATH a caller sets for the program itself.
/// The first is what a Sprite has beside its programs, the last is for names that the host may have no program of.
pub(crate) const DEFAULT_PATH: &str =
    "/.sprite/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/.sprite/aliases";
/// Home of the guest's user: the default working directory.
pub(crate) const HOME: &str = "/home/sprite";

/// The minimal environment with the caller's pairs laid over it; later pairs win.
pub(crate) fn overlay(pairs: &[(String, String)]) -> Vec<(String, String)> {
    let base =
        [("PATH", DEFAULT_PATH), ("HOME", HOME), ("USER", "sprite"), ("LANG", "C.UTF-8"), ("TERM", "xterm-256color")];
    let base = base.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut merged: Vec<(String, String)> = Vec::new();
    for (key, value) in base.chain(pairs.iter().cloned()) {
        match merged.iter_mut().find(|(known, _)| *known == key) {
            Some(found) => found.1 = value,
            None => merged.push((key, value)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_replace_and_add() {
        let pairs = [("TERM", "dumb"), ("X", "1"), ("X", "2")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let merged = overlay(&pairs);
        let get = |key: &str| merged.iter().filter(|(k, _)| k == key).map(|(_, v)| v.as_str()).collect::<Vec<_>>();
        assert_eq!(get("TERM"), ["dumb"]);
        assert_eq!(get("X"), ["2"]);
        assert_eq!(get("PATH"), [DEFAULT_PATH]);
        assert_eq!(merged.len(), 6);
    }
}
