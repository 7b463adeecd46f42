//! Commands: sessions, their frames, their sockets. Knows guests, not Sprites or routes.

mod absence;
pub(crate) mod environment;
pub(crate) mod frames;
pub(crate) mod inputs;
mod pump;
pub(crate) mod query;
mod replay;
pub(crate) mod session;
pub(crate) mod signals;
pub(crate) mod socket;
pub(crate) mod stream;
mod streams;
pub(crate) mod texts;
mod watcher;
pub(crate) mod ws_writer;
