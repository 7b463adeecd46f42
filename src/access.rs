//! Who asks and may they: the switch and the tenants. Identity and access reviews come later.
//!
//! Must not start or stop anything.

pub mod switch;
pub mod tenant;
