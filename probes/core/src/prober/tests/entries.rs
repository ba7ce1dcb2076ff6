//! Which LDNS have an entry, and for how long (behaviour 3; faults I-42 and I-67; threats T3 and T4).

use super::*;

#[test]
fn a_query_makes_an_entry_once() {
    let mut bench = Bench::new(Settings::default());
    assert_eq!(bench.asks(A), Sighting::Admitted);
    assert_eq!(bench.asks(A), Sighting::Refreshed);
    assert_eq!(bench.events, [Output::Admitted { ldns: ldns(A), address: ip(A) }]);
    assert_eq!(bench.view(A).state, LdnsState::Pending);
}

#[test]
fn an_address_that_is_never_probed_gets_no_entry() {
    let settings = Settings { own: vec![ip("192.0.2.250")], ..Settings::default() };
    let mut bench = Bench::new(settings);
    for address in ["127.0.0.1", "224.0.0.1", "0.0.0.0", "255.255.255.255", "::1", "fe80::1", "192.0.2.250"] {
        assert_eq!(bench.asks(address), Sighting::NeverProbed);
    }
    bench.run(at(60_000));
    assert_eq!((bench.sent.len(), bench.events.len(), bench.prober.stats().ldns), (0, 0, 0));
}

#[test]
fn ipv6_ldns_are_probed_by_their_address() {
    let mut bench = Bench::new(Settings::default());
    bench.asks("2001:db8::53");
    bench.run(at(4000));
    assert_eq!(bench.kinds(), [Ping, DnsUdp, DnsTcp]);
    assert!(bench.sent.iter().all(|(_, r)| r.target == ip("2001:db8::53")));
}

#[test]
fn a_mapped_address_is_the_ipv4_address_it_is() {
    let mut bench = Bench::new(Settings::default());
    bench.asks("::ffff:192.0.2.1");
    assert_eq!(bench.asks(A), Sighting::Refreshed);
    assert_eq!(bench.sent[0].1.target, ip(A));
}

#[test]
fn an_ldns_is_removed_when_nobody_has_heard_it_for_the_idle_timeout() {
    let mut bench = Bench::with(A, pings(20));
    bench.run(at(179_999));
    assert_eq!(bench.prober.stats().ldns, 1);
    bench.run(at(180_000));
    assert_eq!(bench.events.last(), Some(&Output::Removed { ldns: ldns(A), was_idle: true }));
    let sent = bench.sent.len();
    bench.run(at(400_000));
    assert_eq!((bench.sent.len(), bench.prober.poll_timeout()), (sent, None), "probing stops");
}

/// Behaviour 3: probing ends everywhere together, so a node that has just started must not make old queries young.
#[test]
fn a_query_from_before_our_start_is_told_with_its_age() {
    let mut bench = Bench::new(Settings::default());
    bench.sees_aged(ip(A), secs(100), Origin::Peer);
    bench.run(at(7000));
    assert_eq!(bench.prober.asker(at(7000), ldns(A)), Some((ip(A), secs(107))));
    assert_eq!(bench.prober.asker(at(7000), ldns("192.0.2.77")), None);
}

#[test]
fn a_query_heard_by_a_peer_keeps_an_ldns_as_well() {
    let mut bench = Bench::with(A, pings(20));
    bench.run(at(100_000));
    bench.sees_aged(ip(A), secs(10), Origin::Peer);
    bench.run(at(269_999));
    assert_eq!(bench.prober.stats().ldns, 1);
    bench.run(at(270_000));
    assert_eq!(bench.prober.stats().ldns, 0);
}

#[test]
fn an_older_query_does_not_move_the_last_one_back() {
    let mut bench = Bench::with(A, pings(20));
    bench.run(at(100_000));
    bench.asks(A);
    bench.sees_aged(ip(A), secs(50), Origin::Peer);
    assert_eq!(bench.view(A).last_seen, at(100_000));
    bench.run(at(279_999));
    assert_eq!(bench.prober.stats().ldns, 1);
}

#[test]
fn probing_ends_together_even_where_a_node_started_later() {
    // The peer heard the query 100 s ago, we started 1 s ago: 80 s are left, not 180.
    let mut bench = Bench::new(Settings::default());
    bench.run(at(1000));
    assert_eq!(bench.sees_aged(ip(A), secs(100), Origin::Peer), Sighting::Admitted);
    bench.run(at(80_999));
    assert_eq!(bench.prober.stats().ldns, 1);
    bench.run(at(81_000));
    assert_eq!(bench.prober.stats().ldns, 0);
}

#[test]
fn a_query_as_old_as_the_idle_timeout_makes_no_entry() {
    let mut bench = Bench::new(Settings::default());
    assert_eq!(bench.sees_aged(ip(A), secs(180), Origin::Peer), Sighting::TooOld);
    assert_eq!(bench.sees_aged(ip(A), Duration::from_micros(179_999_999), Origin::Peer), Sighting::Admitted);
}

#[test]
fn the_most_recent_asker_of_a_prefix_is_probed() {
    let masks = gslb_types::LdnsMasks { v4: 24, v6: 56 };
    let mut bench = Bench::new(Settings { masks, ..Settings::default() });
    bench.others = pings(20);
    bench.asks("192.0.2.1");
    bench.run(at(1000));
    assert_eq!(bench.asks("192.0.2.77"), Sighting::Refreshed);
    bench.run(at(8000));
    bench.sees_aged(ip("192.0.2.99"), secs(3), Origin::Peer);
    bench.sees_aged(ip("192.0.2.33"), secs(9), Origin::Peer);
    bench.run(at(14_000));
    let targets: Vec<IpAddr> = bench.sent.iter().map(|(_, r)| r.target).collect();
    assert_eq!(targets, [ip("192.0.2.1"), ip("192.0.2.77"), ip("192.0.2.99")]);
    assert_eq!(bench.prober.stats().ldns, 1);
}

#[test]
fn an_asker_that_is_never_probed_does_not_take_over_the_entry_of_its_prefix() {
    let masks = gslb_types::LdnsMasks { v4: 24, v6: 56 };
    let own = vec![ip("192.0.2.9")];
    let mut bench = Bench::new(Settings { masks, own, ..Settings::default() });
    bench.asks("192.0.2.1");
    bench.run(at(1000));
    assert_eq!(bench.asks("192.0.2.9"), Sighting::NeverProbed);
    let view = bench.prober.entry(Ldns::of(ip("192.0.2.1"), masks)).unwrap();
    assert_eq!((view.address, view.last_seen), (ip("192.0.2.1"), at(0)));
}

#[test]
fn a_newcomer_pushes_out_the_unproven_ldns_seen_longest_ago() {
    let mut bench = Bench::new(Settings { cap: 3, per_second: 0, ..Settings::default() });
    for (n, when) in [(1, 10), (2, 0), (3, 20)] {
        bench.now = at(when);
        bench.sees(nth(n));
    }
    bench.now = at(30);
    assert_eq!(bench.sees(nth(4)), Sighting::Admitted);
    let removed = Output::Removed { ldns: Ldns::exact(nth(2)), was_idle: false };
    assert!(bench.events.contains(&removed));
    // A refresh within the first second counts as seen, but does not prove.
    bench.now = at(40);
    bench.sees(nth(1));
    bench.now = at(50);
    bench.sees(nth(5));
    assert!(bench.prober.entry(Ldns::exact(nth(1))).is_some());
    assert!(bench.prober.entry(Ldns::exact(nth(3))).is_none());
    assert_eq!((bench.prober.stats().ldns, bench.prober.stats().evicted), (3, 2));
}

#[test]
fn an_ldns_seen_in_two_different_seconds_is_proven() {
    for (again, proven) in [(999, false), (1000, true)] {
        let mut bench = Bench::with(A, LOST);
        bench.run(at(again));
        bench.asks(A);
        assert_eq!((bench.view(A).is_proven, bench.prober.stats().proven), (proven, usize::from(proven)));
    }
}

#[test]
fn an_older_query_in_another_second_proves_as_well() {
    let mut bench = Bench::with(A, LOST);
    bench.sees_aged(ip(A), secs(1), Origin::Peer);
    assert!(bench.view(A).is_proven);
}

#[test]
fn an_ldns_with_a_sample_is_proven() {
    let mut bench = Bench::with(A, pings(20));
    assert!(!bench.view(A).is_proven);
    bench.run(at(20));
    assert!(bench.view(A).is_proven);
}

#[test]
fn where_all_are_proven_the_newcomer_is_turned_away() {
    let mut bench = Bench::new(Settings { cap: 2, ..Settings::default() });
    bench.others = pings(20);
    bench.sees(nth(1));
    bench.sees(nth(2));
    bench.run(at(100));
    assert_eq!(bench.sees(nth(3)), Sighting::TurnedAway);
    assert_eq!((bench.prober.stats().turned_away, bench.prober.stats().ldns), (1, 2));
    assert_eq!(bench.events.iter().filter(|e| matches!(e, Output::Removed { .. })).count(), 0);
}

#[test]
fn an_ldns_that_never_answered_loses_its_protection_when_it_is_unreachable() {
    let mut bench = Bench::with(A, DARK);
    bench.run_asked(at(12_000), A);
    assert!(bench.view(A).is_proven);
    while bench.unreachable() == 0 {
        bench.run_asked(bench.now + secs(1), A);
    }
    assert!(!bench.view(A).is_proven);
    // One that has answered keeps it.
    let mut bench = Bench::with(A, pings(20));
    bench.run(at(100));
    bench.manners.insert(ip(A), DARK);
    bench.run_asked(at(40_000), A);
    assert_eq!((bench.view(A).state, bench.view(A).is_proven), (LdnsState::Unreachable, true));
}

#[test]
fn a_peers_old_word_does_not_push_out_a_later_query() {
    let mut bench = Bench::new(Settings { cap: 1, per_second: 0, ..Settings::default() });
    bench.now = at(100_000);
    bench.asks(A);
    assert_eq!(bench.sees_aged(ip(B), secs(5), Origin::Peer), Sighting::TurnedAway);
    assert_eq!(bench.asks(B), Sighting::Admitted);
}

#[test]
fn real_ldns_keep_their_entries_in_a_flood_of_forged_ones() {
    // faults I-67, reliability R4.
    let mut bench = Bench::new(Settings { cap: 500, per_prefix: 100, ..Settings::default() });
    for n in 0..100 {
        bench.manners.insert(nth(n), pings(20));
        bench.sees(nth(n));
    }
    bench.run(at(5000));
    for n in 0..60_000 {
        bench.sees(nth(1000 + n));
        if n % 10 == 0 {
            bench.run(bench.now + Duration::from_millis(1));
            assert!(bench.prober.stats().ldns <= 500);
        }
        if n % 2_000 == 0 {
            (0..100).for_each(|real| assert_eq!(bench.sees(nth(real)), Sighting::Refreshed));
        }
    }
    assert_eq!(bench.prober.stats().ldns, 500);
    assert!(bench.prober.stats().evicted > 50_000);
    let measured = (0..100).filter(|n| {
        let view = bench.prober.entry(Ldns::exact(nth(*n))).unwrap();
        bench.now.since(view.last_sample.unwrap()) < secs(7)
    });
    assert_eq!(measured.count(), 100, "and go on being measured");
}

#[test]
fn an_ldns_that_was_removed_and_comes_back_is_not_probed_sooner_for_it() {
    let mut bench = Bench::new(Settings { cap: 1, ..Settings::default() });
    bench.asks(A);
    for ms in (100..4900).step_by(200) {
        bench.run(at(ms));
        bench.asks(B);
        bench.run(at(ms + 100));
        bench.asks(A);
    }
    assert_eq!(bench.sent.iter().filter(|(_, r)| r.target == ip(A)).count(), 1);
    bench.run(at(5000));
    assert_eq!(bench.sent.iter().filter(|(_, r)| r.target == ip(A)).count(), 2);
}

#[test]
fn a_reply_for_an_ldns_that_is_gone_is_late() {
    let mut bench = Bench::new(Settings { cap: 1, ..Settings::default() });
    bench.manners.insert(ip(A), pings(20));
    bench.asks(A);
    bench.run(at(1));
    bench.asks(B);
    bench.run(at(100));
    assert_eq!((bench.samples(), bench.prober.stats().late), (vec![], 1));
}

#[test]
fn a_peer_that_connects_is_told_of_every_ldns_with_the_age_of_its_last_query() {
    let mut bench = Bench::new(Settings::default());
    bench.asks(A);
    bench.run(at(3000));
    bench.asks(B);
    bench.run(at(4000));
    let mut told: Vec<_> = bench.prober.sightings(bench.now).collect();
    told.sort();
    assert_eq!(told, [(ldns(A), ip(A), secs(4)), (ldns(B), ip(B), secs(1))]);
}
