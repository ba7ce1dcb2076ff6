//! The policies of GSLB virtual servers, one file each (behaviour 6).
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod any;
mod chains;
mod fixture;
mod loads;
mod proximity;
mod spill;
mod sticky;
