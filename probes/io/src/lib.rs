//! Sends probes and checks, stamps the replies, reports. No policy.
//!
//! Requests come in by a channel, exactly one reply to each goes out by another. What a reply means (whether it is a
//! sample, whether a service is up) the pure machines of `probes-core` decide; this crate only tells apart who sent
//! what, so that a router, a stranger or a late packet is never taken for the LDNS (faults I-34 to I-36, threat T6).
//!
//! | kind | socket | sent | came back |
//! | --- | --- | --- | --- |
//! | ping | one per family, raw or unprivileged | before `sendto` | kernel stamp of the packet |
//! | DNS-UDP | one connected socket per probe | before `send` | kernel stamp of the datagram or of the ICMP error |
//! | DNS-TCP, tcp | one socket per probe, closed by RST | before `connect` | wake-up |
//! | http | one connection per check | before the request | response head |
//!
//! Linux only: ICMP errors are told from each other by `IP_RECVERR`.

mod check;
mod engine;
mod icmp;
mod local;
mod query;
mod receive;
mod stamp;
mod tcp;
mod udp;

pub use engine::{ProbeIo, Reply, Request, StartError};
pub use icmp::{IcmpSocket, IcmpSockets};
pub use local::Settings;
