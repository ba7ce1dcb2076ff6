//! Authoritative DNS: bytes in, bytes out.

mod answer;
mod zones;

pub use answer::{Answered, Transport, answer};
pub use zones::Zones;
