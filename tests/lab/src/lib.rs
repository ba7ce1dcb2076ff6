//! A small internet on one machine, for tests: sites and resolvers, each in a network namespace of its own, joined by a
//! router that gives every pair of them its own delay, jitter, loss, rate and cuts. Pings, UDP and TCP that cross it
//! are real, over IPv4 and IPv6.
//!
//! ```no_run
//! # use {lab::Topology, std::time::Duration};
//! # fn main() -> Result<(), lab::LabError> {
//! let ms = Duration::from_millis;
//! let lab = Topology::new("example").site("fra").ldns("ldns-eu").link("fra", "ldns-eu", ms(6)).up()?;
//! let measured = lab.ping("fra", lab.v4("ldns-eu").into(), 5)?; // 12 ms
//! # Ok(()) }
//! ```
//!
//! It needs root, /dev/net/tun and `ip`; see [`can_run`]. No `tc`, no kernel module. On an idle machine a round trip is
//! 0.3 to 0.4 ms above what was set (the kernel wakes the router that late); on a busy one there are outliers, upwards:
//! compare medians, and allow 2 ms.
//!
//! `netem` is the network without I/O, `router` the thread around it, `namespace` what the kernel does, `lab` the whole.
//! [`gslb`] runs the product in it.
#![allow(clippy::panic, reason = "a laboratory for tests: the mistakes of a test end it, with a message")]

mod error;
mod firewall;
mod flood;
pub mod gslb;
mod lab;
mod link;
mod namespace;
mod netem;
mod packet;
mod ping;
mod requirements;
mod router;
mod topology;
mod unreachable;

pub use error::LabError;
pub use firewall::Rejection;
pub use flood::{Flood, FloodReport};
pub use lab::Lab;
pub use link::{Delay, Link, spread};
pub use netem::Counts;
pub use nix::sys::signal::Signal;
pub use packet::Kind;
pub use ping::ping;
pub use requirements::{can_run, faketime, missing};
pub use topology::{Role, Topology};
pub use unreachable::Unreachable;

/// The namespaces that laboratories of this process have made and that still stand.
pub fn left_behind() -> Vec<String> {
    namespace::left_behind()
}
