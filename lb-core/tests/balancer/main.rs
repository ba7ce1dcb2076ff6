//! One LB virtual server played through: what it is told, whom it picks.

#![allow(
    clippy::unwrap_used,
    reason = "an integration test is all test: what cannot be unwrapped must fail it"
)]

#[path = "../common/mod.rs"]
mod common;
mod cost;
mod drain;
mod fixture;
mod limits;
mod persistence;
mod properties;
mod ramp;
mod reconfigure;
mod startup;
mod tables;
mod ties;
mod unavailable;
