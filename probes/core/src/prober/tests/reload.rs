//! New settings for a prober that runs.

use super::*;

fn reload(bench: &mut Bench, settings: Settings) {
    bench.prober.set_settings(bench.now, settings);
    bench.collect();
}

#[test]
fn the_same_settings_change_nothing() {
    let mut bench = Bench::with(A, pings(20));
    bench.run(at(100));
    let before = (bench.view(A), bench.prober.poll_timeout());
    reload(&mut bench, Settings::default());
    assert_eq!((bench.view(A), bench.prober.poll_timeout()), before);
    assert_eq!(bench.sent.len(), 1);
}

#[test]
fn an_ldns_that_is_excluded_is_removed_and_its_probe_forgotten() {
    let mut bench = Bench::with(A, pings(20));
    bench.asks(B);
    reload(&mut bench, Settings { exclude: vec!["192.0.2.0/24".parse().unwrap()], ..Settings::default() });
    assert_eq!(bench.events.last(), Some(&Output::Removed { ldns: ldns(A), was_idle: false }));
    bench.run(at(100));
    assert_eq!((bench.samples(), bench.prober.stats().late), (vec![], 1));
    assert_eq!((bench.prober.stats().ldns, bench.asks(A)), (1, Sighting::NeverProbed));
}

#[test]
fn a_lower_cap_takes_the_unproven_first_and_then_the_idlest() {
    let mut bench = Bench::new(Settings::default());
    for n in 0..4 {
        bench.manners.insert(nth(n), pings(20));
        bench.sees(nth(n));
        bench.run(bench.now + secs(1));
    }
    bench.sees(nth(9));
    reload(&mut bench, Settings { cap: 3, ..Settings::default() });
    let left: Vec<u32> =
        [0, 1, 2, 3, 9].into_iter().filter(|n| bench.prober.entry(Ldns::exact(nth(*n))).is_some()).collect();
    assert_eq!(left, [1, 2, 3]);
}

#[test]
fn other_masks_regroup_the_ldns() {
    let mut bench = Bench::new(Settings::default());
    bench.asks("192.0.2.1");
    bench.asks("192.0.2.2");
    bench.asks(B);
    bench.run(at(20_000));
    bench.events.clear();
    let masks = gslb_types::LdnsMasks { v4: 24, v6: 56 };
    reload(&mut bench, Settings { masks, ..Settings::default() });
    assert_eq!(bench.prober.stats().ldns, 2);
    let removed = bench.events.iter().filter(|e| matches!(e, Output::Removed { .. })).count();
    let admitted = bench.events.iter().filter(|e| matches!(e, Output::Admitted { .. })).count();
    assert_eq!((removed, admitted), (3, 2));
    let view = bench.prober.entry(Ldns::of(ip("192.0.2.9"), masks)).unwrap();
    assert_eq!(view.last_seen, at(0));
    bench.run(at(180_000));
    assert_eq!(bench.prober.stats().ldns, 0);
}

#[test]
fn a_shorter_idle_timeout_and_interval_hold_at_once() {
    let mut bench = Bench::new(Settings { interval: secs(50), ..Settings::default() });
    bench.others = pings(20);
    bench.asks(A);
    bench.run(at(1000));
    let settings = Settings { interval: secs(5), idle_timeout: secs(30), ..Settings::default() };
    reload(&mut bench, settings);
    bench.run(at(5300));
    assert_eq!(bench.sent.len(), 2);
    bench.run(at(30_000));
    assert_eq!(bench.prober.stats().ldns, 0);
}

#[test]
fn a_longer_interval_holds_at_once() {
    let mut bench = Bench::with(A, pings(20));
    bench.run(at(1000));
    reload(&mut bench, Settings { interval: secs(50), ..Settings::default() });
    bench.run(at(49_999));
    assert_eq!(bench.sent.len(), 1);
    bench.run(at(52_500));
    assert_eq!(bench.sent.len(), 2);
}

#[test]
fn another_order_is_tried_from_its_top() {
    let all = gives(
        ProbeOutcome::EchoReply(ms(10)),
        ProbeOutcome::DnsAnswer(ms(20)),
        ProbeOutcome::Connected(ms(30)),
    );
    let mut bench = Bench::with(A, all);
    bench.run(at(1000));
    reload(&mut bench, Settings { order: vec![DnsTcp, Ping], ..Settings::default() });
    bench.run(at(8000));
    assert_eq!(bench.samples(), [(ms(10), Ping), (ms(30), DnsTcp)]);
}

#[test]
fn another_budget_holds_at_once() {
    let mut bench = Bench::new(Settings { new_per_second: 500, ..Settings::default() });
    bench.others = pings(20);
    for n in 0..2000 {
        bench.sees(nth(n));
    }
    bench.run(at(10_000));
    bench.sent.clear();
    reload(&mut bench, Settings { per_second: 50, ..Settings::default() });
    bench.run(at(20_000));
    assert!(bench.most_in_a_second(|_| true) <= 50);
    assert!(bench.sent.len() > 400);
}
