//! Measurements: the UDP path beside gdnsd's, and what its parts cost.
//!
//! Absolute times differ from machine to machine and from minute to minute; what is kept are ratios of servers that took
//! turns in one run.

mod cpus;
mod failure;
mod files;
mod fixture;
mod gdnsd;
mod generator;
mod gslb;
mod http;
mod interrupt;
mod ports;
mod process;
mod proxy;
mod query;
mod report;
mod round;
mod start;

pub use cpus::{Cpus, pin};
pub use failure::Failure;
pub use files::{absolute, part};
pub use fixture::{Fixture, ldns};
pub use gdnsd::Gdnsd;
pub use generator::{Generator, Load, Tally};
pub use gslb::Gslb;
pub use interrupt::Interrupt;
pub use proxy::{Bench, Case, ProxyReport, Turn};
pub use query::{Query, query};
pub use report::Report;
pub use round::{Cost, Round};
pub use start::{Start, StartReport, Starter};

/// The addresses that the load comes from, and so the LDNS: as many sockets, each with its share of the window.
pub const SOURCES: usize = 8;

/// The name that is asked for: a GSLB domain of ours, weighted addresses of gdnsd's.
pub const NAME: &str = "www.example.com";
