//! DNS over the wire: what tests need to ask a running server, octet by octet, and to judge its replies.
//!
//! The server is a parameter. Without further ado it is `gslb-dns run` with zone Z of the fault catalogue ([`fixture`]);
//! `SUBJECT=127.0.0.1:5353` points the same tests at a server that runs already and serves `oracles/gslb.test.zone`.
//! Tests of what only a GSLB server does are skipped then. README.md says how to start the oracles.
//!
//! Requests are made by hand ([`packet`]), because a library refuses to make most of the wrong ones. Replies are decoded by
//! hickory-proto ([`Reply`]): what it refuses, a resolver would refuse.
#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "helpers of tests fail the test, with a message"
)]

mod client;
pub mod fixture;
pub mod mutate;
mod node;
mod oracle;
pub mod packet;
mod reply;
mod subject;

pub use client::{PATIENCE, Tcp, Udp, framed, next_message};
pub use lab::gslb::eventually;
pub use node::Node;
pub use oracle::Oracle;
pub use packet::{Packet, query};
pub use reply::Reply;
pub use subject::{Subject, ours};
