//! Large tables told by everybody to everybody; `cargo run --release -p sim -- scale` takes 32 nodes and 300,000 LDNS.

#![cfg(test)]

use sim::scale::Scale;
use std::time::Duration;

/// Bars R9 and R11: what is 1.5 s of chunks is known within seconds, everywhere, and by a node that starts with nothing within two.
#[test]
fn everybody_learns_a_large_table_within_seconds() {
    const ROWS: u32 = 20_000;
    let mut group = Scale::new(4, ROWS).unwrap();
    let all = group.sync_all(|_| {}).unwrap();
    println!("all: {all}");
    assert!(all.lasted <= Duration::from_secs(5), "{all}");
    // Each of the 4 tells the 3 others its column, once.
    assert_eq!((all.rows, all.resyncs), (u64::from(ROWS) * 12, 0), "{all}");
    let one = group.sync_one(2, |_| {}).unwrap();
    println!("one: {one}");
    assert!(one.lasted <= Duration::from_secs(3), "{one}");
}
