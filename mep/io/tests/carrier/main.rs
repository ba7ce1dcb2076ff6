//! Both carriers on real loopback sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod certificates;
mod crowds;
mod ends;
mod frames;
mod grpc_hostile;
mod path;
mod quic_hostile;
mod renewal;
mod stranger;
mod support;
mod together;
