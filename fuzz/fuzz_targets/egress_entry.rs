//! Any entries and any host: what is accepted is normal, accepted again as itself, gives the same rules in any order, and
//! never reaches the platform's own names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::egress::hostname::Pattern;
use rules::egress::matching::{Decision, decide};
use rules::egress::{Demand, Mode, ReadRule, build, compare};

fuzz_target!(|input: (Vec<String>, Vec<String>, String, bool)| {
    let (allow, deny, host, open) = input;
    for entry in allow.iter().chain(&deny) {
        if let Ok(pattern) = Pattern::parse(entry) {
            let normal = pattern.to_string();
            assert_eq!(Pattern::parse(&normal), Ok(pattern), "{entry:?} -> {normal:?}");
            assert!(normal.is_ascii() && normal.len() <= 255 && !normal.contains(char::is_whitespace));
        }
    }
    let mode = if open { Mode::Open } else { Mode::Allowlist };
    let good = |list: &[String]| list.iter().filter(|entry| Pattern::parse(entry).is_ok()).cloned().collect::<Vec<_>>();
    let _ = build(Demand { mode, allow: &allow, deny: &deny, defaults: open }, true);
    let (mut allow, mut deny) = (good(&allow), good(&deny));
    let Ok(rules) = build(Demand { mode, allow: &allow, deny: &deny, defaults: false }, true) else { return };
    allow.reverse();
    deny.reverse();
    let again = build(Demand { mode, allow: &allow, deny: &deny, defaults: false }, true).unwrap();
    assert_eq!(again.hash(), rules.hash());
    let read: Vec<_> = again.rules().iter().map(|rule| ReadRule { rule: rule.clone(), unknown: Vec::new() }).collect();
    assert!(compare(rules.rules(), &read).is_equal());
    for entry in &allow {
        let name = Pattern::parse(entry).unwrap().to_string();
        let decision = decide(rules.rules(), &name.replacen('*', "any", 1));
        // A deny may be more specific than a wildcard; the name of a literal entry is allowed.
        assert!(name.starts_with('*') || matches!(decision, Decision::Allowed { .. }), "{name}: {decision:?}");
    }
    let _ = decide(rules.rules(), &host);
    for host in ["_api.internal", "x.internal", "app.flycast", "metadata.google", "x.metadata.azure.com"] {
        assert!(matches!(decide(rules.rules(), host), Decision::Denied { .. }), "{host} can be reached");
    }
});
