//! Any variables: what comes out is named once each, was allowed, and changes nobody's loader.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::environment::{Variable, check, combine};

type Pairs = Vec<(String, String)>;

fuzz_target!(|input: (Pairs, Vec<String>, Pairs)| {
    let (set, allow, run) = &input;
    fn pairs(list: &Pairs) -> Vec<Variable<'_>> {
        list.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
    let allow: Vec<&str> = allow.iter().map(String::as_str).collect();
    let Ok(combined) = combine(&pairs(set), &allow, &pairs(run)) else { return };
    for (at, (name, value)) in combined.iter().enumerate() {
        assert!(check(name, value).is_ok());
        assert!(!name.to_ascii_uppercase().starts_with("LD_"));
        let own = run.iter().any(|(n, v)| n == name && v == value) && allow.contains(&name.as_str());
        assert!(own || set.iter().any(|(n, v)| n == name && v == value), "{name} is nobody's");
        assert!(combined.iter().skip(at + 1).all(|(other, _)| other != name), "{name} stands twice");
    }
});
