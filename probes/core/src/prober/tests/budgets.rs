//! Budgets: what a second may see, and who goes first (threat T3, faults I-39, reliability R13 and R19).

use super::*;

fn in_prefix(a: IpAddr, b: IpAddr) -> bool {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => a.to_bits() >> 8 == b.to_bits() >> 8,
        (IpAddr::V6(a), IpAddr::V6(b)) => a.to_bits() >> 72 == b.to_bits() >> 72,
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[test]
fn no_second_sees_more_probes_than_the_budget_however_many_ldns_there_are() {
    for others in [pings(20), DARK] {
        let settings = Settings { per_second: 100, new_per_second: 100, ..Settings::default() };
        let mut bench = Bench::new(settings);
        bench.others = others;
        for n in 0..3000 {
            bench.sees(nth(n));
        }
        bench.run(at(40_000));
        assert!(bench.most_in_a_second(|_| true) <= 100);
        assert!(bench.sent.len() >= 40 * 90, "{} used", bench.sent.len());
        assert!(bench.prober.stats().over_budget > 100);
    }
}

#[test]
fn within_the_budget_nothing_is_put_off() {
    let mut bench = Bench::new(Settings::default());
    bench.others = pings(20);
    for n in 0..100 {
        bench.sees(nth(n));
        bench.run(bench.now + Duration::from_millis(20));
    }
    bench.run(at(60_000));
    assert_eq!(bench.prober.stats().over_budget, 0);
}

#[test]
fn no_second_sees_more_first_probes_than_the_budget_of_newcomers() {
    let settings = Settings { new_per_second: 30, ..Settings::default() };
    let mut bench = Bench::new(settings);
    bench.others = pings(20);
    for n in 0..300 {
        assert_eq!(bench.sees(nth(n)), Sighting::Admitted, "it has its entry, and waits");
    }
    bench.run(at(4900));
    // None has had its second round yet: all are first probes.
    assert!(bench.most_in_a_second(|_| true) <= 30);
    assert!(bench.sent.len() >= 130, "{}", bench.sent.len());
    bench.run(at(15_000));
    let probed: BTreeSet<IpAddr> = bench.sent.iter().map(|(_, r)| r.target).collect();
    assert_eq!(probed.len(), 300);
}

#[test]
fn no_second_sees_more_probes_towards_one_prefix_than_its_budget() {
    // The victim prefix of threat T3.
    for (base, shift) in [("203.0.113.0", 0), ("2001:db8:7:100::", 64)] {
        let mut bench = Bench::new(Settings::default());
        let base = ip(base);
        let host = |n: u64| -> IpAddr {
            match base {
                IpAddr::V4(a) => std::net::Ipv4Addr::from_bits(a.to_bits() + n as u32).into(),
                IpAddr::V6(a) => std::net::Ipv6Addr::from_bits(a.to_bits() + (u128::from(n) << shift)).into(),
            }
        };
        for second in 0..60 {
            for n in 0..250 {
                bench.sees(host(n));
            }
            bench.run(at(second * 1000 + 1000));
        }
        let sent = bench.sent.iter().filter(|(_, r)| in_prefix(r.target, base)).count();
        assert_eq!(sent, bench.sent.len());
        assert!(bench.most_in_a_second(|_| true) <= 2);
        assert!((100..=120).contains(&sent), "{sent} in a minute");
    }
}

#[test]
fn a_crowded_prefix_does_not_hold_up_others() {
    let mut bench = Bench::new(Settings { new_per_second: 500, ..Settings::default() });
    for n in 0..250_u32 {
        bench.sees(std::net::Ipv4Addr::from_bits(0xcb00_7100 + n).into());
    }
    bench.others = pings(20);
    bench.asks(A);
    bench.run(at(100));
    assert_eq!(bench.view(A).state, LdnsState::Known);
}

#[test]
fn thousands_of_one_prefix_that_come_due_together_are_put_off_in_batches() {
    let settings = Settings { new_per_second: 500, ..Settings::default() };
    let mut bench = Bench::new(settings);
    for n in 0..5000_u128 {
        bench.sees(std::net::Ipv6Addr::from_bits((0x2001_0db8_u128 << 96) + n).into());
    }
    // Asleep until every lot has come up. The bench asserts after each step that the next one lies ahead.
    bench.step(at(100_000));
    let waiting = |b: &Bench| b.prober.queues.due(b.now, true).is_some();
    let mut batches = 1;
    while waiting(&bench) {
        bench.step(bench.next().unwrap());
        batches += 1;
    }
    assert!((4..=6).contains(&batches), "{batches}");
    assert!(bench.most_in_a_second(|_| true) <= 2);
}

#[test]
fn a_round_that_has_begun_ends_before_others_begin() {
    // 100 measured LDNS want twice the budget, so rounds wait for seconds; the second kind of one that has begun does not.
    let settings = Settings { per_second: 10, new_per_second: 10, ..Settings::default() };
    let mut bench = Bench::new(settings);
    bench.others = pings(20);
    for n in 0..100 {
        bench.sees(nth(n));
    }
    bench.run(at(50_000));
    bench.sent.clear();
    bench.others = Manners([Manner::Silent, Manner::Gives(ProbeOutcome::DnsAnswer(ms(9))), Manner::Silent]);
    bench.run(at(80_000));
    let mut begun = BTreeMap::new();
    for (t, request) in &bench.sent {
        match request.kind {
            Ping => begun.insert(request.target, *t),
            DnsUdp | DnsTcp => begun.remove(&request.target).inspect(|ping| {
                assert!(t.since(*ping) < Duration::from_millis(3500), "{} waited", request.target);
            }),
        };
    }
    assert!(bench.kinds().contains(&DnsUdp));
}

#[test]
fn nobody_in_a_crowded_prefix_is_passed_over_for_ever() {
    let mut bench = Bench::new(Settings::default());
    bench.others = pings(20);
    let hosts: Vec<IpAddr> =
        (1..=40).map(|n| std::net::Ipv4Addr::from_bits(0xcb00_7100 + n).into()).collect();
    while bench.now < at(300_000) {
        hosts.iter().for_each(|h| {
            bench.sees(*h);
        });
        bench.run(bench.now + secs(1));
    }
    for host in &hosts {
        let probes = bench.sent.iter().filter(|(_, r)| r.target == *host).count();
        assert!(probes >= 5, "{host} got {probes} of {}", bench.sent.len());
    }
    assert!(bench.sent.len() > 500, "the budget of two a second is used: {}", bench.sent.len());
}

#[test]
fn a_measured_ldns_is_not_crowded_out_by_forged_ones_of_its_prefix() {
    let mut bench = Bench::new(Settings::default());
    bench.manners.insert(ip("203.0.113.250"), pings(20));
    bench.asks("203.0.113.250");
    bench.run(at(1000));
    while bench.now < at(120_000) {
        bench.asks("203.0.113.250");
        for n in 0..240_u32 {
            bench.sees(std::net::Ipv4Addr::from_bits(0xcb00_7100 + n).into());
        }
        bench.run(bench.now + secs(1));
    }
    let probes = bench.sent.iter().filter(|(_, r)| r.target == ip("203.0.113.250")).count();
    assert!(probes >= 16, "{probes} of 24 possible");
}

#[test]
fn measured_ldns_go_before_newcomers_and_newcomers_are_not_starved() {
    // 400 measured LDNS want 80 probes a second, the whole budget; newcomers flood in.
    let settings = Settings { per_second: 80, new_per_second: 80, ..Settings::default() };
    let mut bench = Bench::new(settings);
    for n in 0..400 {
        bench.manners.insert(nth(n), pings(20));
        bench.sees(nth(n));
    }
    bench.run(at(15_000));
    bench.sent.clear();
    for second in 15..45_u64 {
        for n in 0..200 {
            bench.sees(nth(1000 + second as u32 * 200 + n));
        }
        (0..400).for_each(|n| {
            bench.sees(nth(n));
        });
        bench.run(at(second * 1000 + 1000));
    }
    let measured = bench.sent.iter().filter(|(_, r)| bench.manners.contains_key(&r.target)).count();
    let share = measured * 100 / bench.sent.len();
    assert!((70..=80).contains(&share), "{share}%");
    let newcomers: BTreeSet<IpAddr> = bench.sent.iter().map(|(_, r)| r.target).collect();
    assert!(newcomers.len() > 400 + 200, "{}", newcomers.len());
}

#[test]
fn under_pressure_those_who_ask_again_are_probed_first() {
    // The stricter admission of threat T3, under pressure only.
    let settings = Settings { new_per_second: 10, ..Settings::default() };
    let mut bench = Bench::new(settings);
    bench.others = pings(20);
    for n in 0..1000 {
        bench.sees(nth(n));
    }
    bench.run(at(1000));
    bench.sees(nth(990));
    bench.run(at(1300));
    assert!(bench.sent.iter().any(|(_, r)| r.target == nth(990)));
    assert!(bench.sent.len() < 20);
}

#[test]
fn after_a_sleep_rounds_are_spread_and_none_is_made_up_for() {
    // reliability R13.
    let settings = Settings { per_second: 500, new_per_second: 500, ..Settings::default() };
    let mut bench = Bench::new(Settings { idle_timeout: secs(100_000), ..settings });
    bench.others = pings(20);
    for n in 0..2000 {
        bench.sees(nth(n));
    }
    bench.run(at(30_000));
    bench.sent.clear();
    // Asleep: replies in flight are there at once on waking.
    bench.step(at(3_600_000));
    assert!(bench.sent.len() <= 25, "{} in one go", bench.sent.len());
    bench.run(at(3_604_900));
    assert!(bench.most_in_a_second(|_| true) <= 500);
    let mut targets: Vec<IpAddr> = bench.sent.iter().map(|(_, r)| r.target).collect();
    // A probe that was out when sleep came ended its round on waking, and has its next one later.
    assert!((1975..=2000).contains(&targets.len()), "{}", targets.len());
    let sent = targets.len();
    targets.sort();
    targets.dedup();
    assert_eq!(targets.len(), sent, "each once");
}

#[test]
fn ldns_that_came_together_drift_apart() {
    // faults I-39: no 5-s comb.
    let settings = Settings { per_second: 10_000, new_per_second: 10_000, ..Settings::default() };
    let mut bench = Bench::new(settings);
    bench.others = pings(20);
    for n in 0..500 {
        bench.sees(nth(n));
    }
    bench.run(at(170_000));
    let late = bench.sent.iter().filter(|(t, _)| *t > at(160_000));
    let mut slots = BTreeMap::<u64, usize>::new();
    late.for_each(|(t, _)| *slots.entry(t.as_micros() / 100_000).or_default() += 1);
    let busiest = slots.values().max().unwrap();
    assert!(*busiest < 120, "{busiest} of 500 in one tenth of a second");
}

#[test]
fn no_answer_to_a_flood_exceeds_five_percent_of_its_packets() {
    // threat T3: 10,000 queries a second from 65,536 forged addresses of 256 prefixes.
    let mut bench = Bench::new(Settings::default());
    let mut chance = Chance::new(3);
    let mut queries = 0;
    for tick in 0..1000_u64 {
        for _ in 0..100 {
            bench.sees(std::net::Ipv4Addr::from_bits(0x2d00_0000 + chance.up_to(0xffff)).into());
            queries += 1;
        }
        bench.run(at(tick * 10 + 10));
    }
    assert!(bench.most_in_a_second(|_| true) <= 500);
    assert!(bench.sent.len() * 20 <= queries, "{} of {queries}", bench.sent.len());
    let per_prefix =
        |p: u8| bench.most_in_a_second(|r| matches!(r.target, IpAddr::V4(a) if a.octets()[2] == p));
    assert!((0..=255).map(per_prefix).max() <= Some(2));
}

#[test]
fn settings_of_zero_stop_probing_without_harm() {
    for settings in [
        Settings { per_second: 0, ..Settings::default() },
        Settings { new_per_second: 0, ..Settings::default() },
        Settings { per_prefix: 0, ..Settings::default() },
    ] {
        let mut bench = Bench::new(settings);
        bench.asks(A);
        bench.run(at(200_000));
        assert_eq!((bench.sent.len(), bench.prober.stats().ldns), (0, 0));
    }
    let mut bench = Bench::new(Settings { cap: 0, ..Settings::default() });
    assert_eq!(bench.asks(A), Sighting::TurnedAway);
}
