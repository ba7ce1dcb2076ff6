//! The metric exchange protocol: sessions, frames, outbox. Pure.

pub mod carrier;
mod status;

pub use status::{PeerState, PeerStatus};
