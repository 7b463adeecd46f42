//! Any path: what is accepted is absolute, inside the workspace, without `.` and `..`, and stays what it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::path::{ROOT, directory, file};

fuzz_target!(|path: &str| {
    let Ok(found) = directory(path) else {
        assert!(file(path).is_err());
        return;
    };
    assert!(found == ROOT || found.strip_prefix(ROOT).is_some_and(|rest| rest.starts_with('/')), "{found}");
    assert!(!found.contains('\0') && found.split('/').skip(1).all(|part| !matches!(part, "" | "." | "..")), "{found}");
    assert_eq!(directory(&found), Ok(found.clone()), "from {path:?}");
    assert_eq!(file(path).is_ok(), found != ROOT);
});
