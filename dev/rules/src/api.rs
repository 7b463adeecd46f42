//! What the rules may import of the custom resources.

#[path = "../../../src/api/names.rs"]
pub mod names;
#[path = "../../../src/api/reasons.rs"]
pub mod reasons;
#[path = "../../../src/api/values.rs"]
pub mod values;
