//! Whole machines, joined by a network without sockets or clocks.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod ageing;
mod changes;
mod contests;
mod convergence;
mod effort;
mod group;
mod handshake;
mod hostile;
mod limits;
mod links;
mod liveness;
mod net;
mod order;
mod refusals;
mod relays;
mod sessions;
mod snapshots;
mod strange_relays;
mod suspect;
mod sync;
mod table;
mod transport;
mod versions;
mod withdrawals;
