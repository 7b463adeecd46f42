//! What the rules may import of the custom resources.

#[path = "../../../src/api/names.rs"]
pub mod names;
#[path = "../../../src/api/reasons.rs"]
pub mod reasons;
// No rule reads it: mounted so that its parsers are fuzzed with the rules.
#[path = "../../../src/api/values.rs"]
pub mod values;
