//! What tests start and how they look at it.

pub mod cluster;
pub mod process;
pub mod tenant;

pub use tenant::Tenant;
