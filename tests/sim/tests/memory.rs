//! What a node takes of memory for an LDNS, counted by the allocator: no clock and no kernel has a say in it.

#![cfg(test)]

use sim::scale::Scale;

/// An eighth of 300,000: tables that grow by doubling are as full as with all of them.
const ROWS: u32 = 37_500;
const SITES: usize = 32;
const NODES: usize = 2;

/// The bar of a large group: a node takes less than twice its table.
#[test]
fn a_node_takes_less_than_twice_its_table() {
    let mut group = Scale::new(SITES, ROWS).unwrap();
    let table = held(|| std::mem::forget(group.one_table()));
    let node = held(|| group.start_full(NODES).unwrap()) / NODES as f64;
    for n in 0..NODES {
        assert_eq!(group.rows_at(n), Some(ROWS as usize));
    }
    let rows = f64::from(ROWS);
    let times = node / table;
    println!(
        "{ROWS} LDNS, {SITES} columns: table {:.0} bytes a row; node {:.0} bytes a row, {times:.2} times the table",
        table / rows,
        node / rows
    );
    assert!(times < 2.0, "{times:.2} times the table");
}

/// The bytes that are allocated meanwhile and still held in the end.
fn held(act: impl FnOnce()) -> f64 {
    allocation_counter::measure(act).bytes_current as f64
}
