//! Storms over some seeds; `cargo run --release -p sim -- storms` runs more of them.

#![cfg(test)]

use sim::storm::{self, Options};

/// Some seconds of a debug build.
const SEEDS: u64 = 40;

/// Bar R21.
#[test]
fn no_storm_breaks_an_invariant_and_all_agree_after_it() {
    let mut failed = Vec::new();
    let mut compared = 0;
    for seed in 0..SEEDS {
        match storm::run(seed, &Options { nodes: 3..=9 }) {
            Ok(survived) => compared += survived.compared,
            Err(failure) => {
                println!("{failure}\n");
                failed.push(format!("{seed}: {}", failure.violation));
            }
        }
    }
    assert!(failed.is_empty(), "{} of {SEEDS} seeds failed:\n{}", failed.len(), failed.join("\n"));
    assert!(compared > 20, "only {compared} LDNS could be compared soon after a reunion");
}

/// Bar R21: a seed is a run. The fingerprint is a hash over everything that happened: every wake, frame, probe, reply, query and
/// answer, with its time.
#[test]
fn equal_seeds_give_equal_histories() {
    let mut seen = Vec::new();
    for (seed, nodes) in [(7, 3..=3), (8, 3..=32), (9, 4..=12), (10, 12..=12)] {
        let run =
            || storm::run(seed, &Options { nodes: nodes.clone() }).map_err(|failure| failure.to_string());
        let (one, same) = (run().unwrap(), run().unwrap());
        assert_eq!(one, same, "seed {seed}");
        assert!(one.fingerprint.0 > 1_000, "{one:?}");
        assert!(!seen.contains(&one.fingerprint), "{one:?}");
        seen.push(one.fingerprint);
    }
}
