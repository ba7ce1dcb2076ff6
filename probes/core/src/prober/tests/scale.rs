//! Very many LDNS.

use super::*;

#[test]
fn three_hundred_thousand_ldns_cost_no_walk() {
    // Debug builds are slow: what is counted is work, not time. Each call hands out a bounded batch and comes back.
    let settings = Settings { cap: 300_000, per_second: 2_000, new_per_second: 2_000, ..Settings::default() };
    let mut bench = Bench::new(settings);
    bench.others = pings(20);
    for n in 0..300_000 {
        bench.sees(nth(n));
    }
    assert_eq!(bench.prober.stats().ldns, 300_000);
    assert_eq!(bench.sent.len(), 100, "a twentieth of a second's worth");
    bench.run(at(10_000));
    assert!(bench.most_in_a_second(|_| true) <= 2_000);
    assert!(bench.sent.len() > 18_000);
    // Then all fall idle together: a thousand at a time, the node breathing in between.
    bench.now = at(500_000);
    bench.events.clear();
    let mut calls = 0;
    while bench.prober.stats().ldns > 0 {
        let before = bench.events.len();
        bench.step(bench.next().unwrap());
        assert!(bench.events.len() - before <= 1_000 + 100);
        calls += 1;
    }
    assert!(calls >= 300);
    assert!(bench.now < at(501_000));
}
