//! Sends probes and checks, stamps the replies, reports. No policy.
//!
//! Requests come in by a channel, exactly one reply to each goes out by another. What a reply means (whether it is a
//! sample, whether a service is up) the pure machines of `probes-core` decide; this crate only tells apart who sent
//! what, so that a router, a stranger or a late packet is never taken for the LDNS (faults I-34 to I-36, threat T6).
//!
//! | kind | socket | begins | ends |
//! | --- | --- | --- | --- |
//! | ping | one per family, raw or unprivileged | before `sendto` | kernel stamp of the packet |
//! | DNS-UDP | one connected socket per probe | before `send` | kernel stamp of the datagram or of the ICMP error |
//! | DNS-TCP, tcp | one socket per probe, closed by RST | the kernel's own SYN | its SYN-ACK; an RST: wake-up |
//! | ssl | one connection per check | the kernel's own SYN | kernel stamp of the handshake's last bytes |
//! | http, https | one connection per check | before the request is written | kernel stamp of the response's head |
//! | http-ecv, https-ecv | the same | the same | kernel stamp of what makes the body match |
//! | tcp-ecv | one connection per check | before the text is written | kernel stamp of what makes the answer match |
//! | udp-ecv, dns | one connected socket per check | before `send` | kernel stamp of the datagram, or of the answer over TCP |
//! | ftp | one connection per check | before USER is written | kernel stamp of the reply that ends the login |
//! | user | one process group per check | before it is started | wake-up at its end |
//!
//! Linux only: ICMP errors are told from each other by `IP_RECVERR`.

mod check;
mod diag;
mod engine;
mod fetch;
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
