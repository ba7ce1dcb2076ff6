//! The admin API over real sockets.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod control;
mod explain;
mod failback;
mod fixture;
mod http;
mod matrix;
mod metrics;
mod node;
mod routes;
mod safety;
mod stream;
