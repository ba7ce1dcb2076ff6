//! What makes answering cheap, as far as it can be told without a clock: sizes, memory, allocations.

use bench::{Fixture, NAME, Query, ldns, query};
use gslb_core::{Cell, Decision, Reason, Row};

#[test]
fn a_row_of_four_sites_fits_into_a_line_of_the_cache() {
    assert_eq!(size_of::<Cell>(), 8);
    assert_eq!(size_of::<Row>(), 48);
}

#[test]
fn a_decision_with_all_its_reasons_is_less_than_a_kilobyte() {
    assert_eq!(size_of::<Reason>(), 16);
    assert!(size_of::<Decision>() <= 1024, "{}", size_of::<Decision>());
}

/// An entry is 17 bytes of address and 48 of row; the rest is room to grow.
#[test]
fn an_ldns_costs_the_table_less_than_170_bytes() {
    const LDNS: usize = 100_000;
    let base = allocation_counter::measure(|| std::mem::forget(Fixture::new(0))).bytes_current;
    let many = allocation_counter::measure(|| std::mem::forget(Fixture::new(LDNS))).bytes_current;
    let each = (many - base) / i64::try_from(LDNS).unwrap();
    println!("{each} bytes each");
    assert!((65..170).contains(&each), "{each}");
}

#[test]
fn what_is_benchmarked_allocates_nothing() {
    let fixture = Fixture::new(8);
    let mut out = [0; 1232];
    for name in [NAME, "static.example.com", "nobody.example.com", "www.example.org"] {
        for kind in [Query::Plain, Query::Edns] {
            let request = query(name, kind);
            // The first answer of a thread pays for what every thread needs once.
            assert!(fixture.answer(&request, ldns(3), &mut out) > 0);
            let counted = allocation_counter::measure(|| {
                fixture.answer(&request, ldns(3), &mut out);
            });
            assert_eq!(counted.count_total, 0, "{name} {kind:?}");
        }
    }
}
