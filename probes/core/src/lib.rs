//! The LDNS probe machine and the monitor machine. Pure.
//!
//! Both decide what is sent when, and what a reply means; `probes-io` sends, stamps and reports. What passes between
//! them is in [`wire`].

mod budget;
mod chance;
pub mod monitors;
pub mod prober;
mod share;
mod stats;
pub mod wire;

pub use monitors::Monitors;
pub use prober::Prober;
pub use stats::ProberStats;
