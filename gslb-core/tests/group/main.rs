//! Whole nodes with the metric exchange between them: what the group does when nodes, links and sites fail (behaviour 4).
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod front;
mod local;
mod net;
mod partitions;
mod sessions;
mod sharing;
mod show;
mod sources;
#[path = "../text/mod.rs"]
mod text;
