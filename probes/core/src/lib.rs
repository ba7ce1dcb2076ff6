//! The LDNS probe machine, the monitor machine and the machine of foreign sources. Pure.
//!
//! They decide what is sent when, and what a reply means; `probes-io` sends, stamps and reports. What passes between
//! them is in [`wire`].

mod budget;
mod chance;
pub mod monitors;
pub mod prober;
mod share;
pub mod sources;
mod stats;
pub mod wire;

pub use monitors::Monitors;
pub use prober::Prober;
pub use sources::Sources;
pub use stats::ProberStats;
