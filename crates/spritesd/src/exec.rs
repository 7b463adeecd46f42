//! Commands: sessions, their frames, their sockets. Knows guests, not Sprites or routes.

pub(crate) mod environment;
pub(crate) mod frames;
mod pump;
pub(crate) mod query;
mod replay;
pub(crate) mod session;
pub(crate) mod signals;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod texts;
mod watcher;
pub(crate) mod ws_writer;
