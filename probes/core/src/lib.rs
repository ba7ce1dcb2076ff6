//! The LDNS probe machine and the monitor machine. Pure.

mod stats;
pub mod wire;

pub use stats::ProberStats;
