//! What is fuzzed, and what must hold whatever comes in: nothing panics, nothing hangs, and what comes out is understood by
//! others. The same functions are driven by libFuzzer (`targets/`) and by a plain loop (`examples/soak.rs`).
#![forbid(unsafe_code)]

pub mod checks;
pub mod config;
pub mod dns;
mod group;
pub mod mep;
pub mod pages;
pub mod zone;

/// A target: its name, what runs one input, and inputs to begin with.
pub struct Target {
    /// As `cargo fuzz run` names it.
    pub name: &'static str,
    /// Runs one input; panics if something does not hold.
    pub run: fn(&[u8]),
    /// Small inputs that reach deep.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 6] = [
    Target { name: "dns", run: dns::run, seeds: dns::seeds },
    Target { name: "mep", run: mep::run, seeds: mep::seeds },
    Target { name: "config", run: config::run, seeds: config::seeds },
    Target { name: "zone", run: zone::run, seeds: zone::seeds },
    Target { name: "pages", run: pages::run, seeds: pages::seeds },
    Target { name: "checks", run: checks::run, seeds: checks::seeds },
];
