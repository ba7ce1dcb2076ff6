//! Storms over many seeds. `SIM_SEEDS=10000` runs more of them, `SIM_FIRST=500` begins elsewhere.

use sim::storm;

/// Some seconds of a debug build.
const SEEDS: u64 = 40;

/// Bar R21.
#[test]
fn no_storm_breaks_an_invariant_and_all_agree_after_it() {
    let number = |name: &str, otherwise: u64| match std::env::var(name) {
        Ok(text) => text.parse().expect(name),
        Err(_) => otherwise,
    };
    let (first, seeds) = (number("SIM_FIRST", 0), number("SIM_SEEDS", SEEDS));
    let mut failed = Vec::new();
    for seed in first..first + seeds {
        if let Err(failure) = storm::run(seed) {
            println!("{failure}\n");
            failed.push(format!("{seed}: {}", failure.violation));
        }
    }
    assert!(failed.is_empty(), "{} of {seeds} seeds failed:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn a_seed_is_a_run() {
    let (one, same, other) = (storm::run(7).unwrap(), storm::run(7).unwrap(), storm::run(8).unwrap());
    assert_eq!(one, same);
    assert_ne!(one.fingerprint, other.fingerprint);
}
