//! Both carriers on real loopback sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod certificates;
mod ends;
mod frames;
mod hostile;
mod path;
mod support;
mod together;
