//! Kinds, rounds and what a reply means (behaviour 3's table; faults I-32 to I-41 and I-57).

use super::*;
use ProbeOutcome as O;

#[test]
fn the_first_probe_of_a_new_ldns_leaves_at_once() {
    let bench = Bench::with(A, pings(27));
    let (sent, request) = bench.sent[0];
    assert_eq!((sent, request.target, request.kind, request.timeout), (at(0), ip(A), Ping, secs(2)));
    assert_eq!(bench.sent.len(), 1);
}

#[test]
fn the_next_kind_is_tried_when_the_one_before_gets_no_answer_within_the_timeout() {
    let mut bench = Bench::with(A, DARK);
    bench.run(at(1999));
    assert_eq!(bench.kinds(), [Ping]);
    bench.run(at(2000));
    assert_eq!(bench.kinds(), [Ping, DnsUdp]);
    bench.run(at(3999));
    assert_eq!(bench.sent.len(), 2);
    bench.run(at(4000));
    assert_eq!(bench.kinds(), [Ping, DnsUdp, DnsTcp]);
}

#[test]
fn the_order_of_kinds_is_the_configured_one() {
    let order = vec![DnsUdp, Ping, DnsTcp];
    let mut bench = Bench::new(Settings { order, ..Settings::default() });
    bench.asks(A);
    bench.run(at(4000));
    assert_eq!(bench.kinds(), [DnsUdp, Ping, DnsTcp]);
}

#[test]
fn a_kind_that_is_not_configured_is_not_sent() {
    let mut bench = Bench::new(Settings { order: vec![DnsTcp], ..Settings::default() });
    bench.asks(A);
    bench.run(at(30_000));
    assert!(bench.kinds().iter().all(|k| *k == DnsTcp));
    assert!(bench.unreachable() > 0);
}

#[test]
fn a_round_ends_with_its_first_sample() {
    let mut bench = Bench::with(A, pings(27));
    bench.run(at(4999));
    assert_eq!(bench.samples(), [(ms(27), Ping)]);
    assert_eq!(bench.kinds(), [Ping]);
}

#[test]
fn an_ldns_that_drops_pings_is_measured_by_the_next_kinds() {
    // faults I-32: 40 from dns-udp within interval and timeout; then 60 from dns-tcp; then unreachable.
    let mut bench = Bench::with(A, gives(O::TimedOut, O::DnsAnswer(ms(40)), O::Connected(ms(60))));
    bench.manners.insert(
        ip(A),
        Manners([Manner::Silent, Manner::Gives(O::DnsAnswer(ms(40))), Manner::Gives(O::Connected(ms(60)))]),
    );
    bench.run_asked(at(7000), A);
    assert_eq!((bench.samples()[0], bench.view(A).kind), ((ms(40), DnsUdp), Some(DnsUdp)));
    bench
        .manners
        .insert(ip(A), Manners([Manner::Silent, Manner::Silent, Manner::Gives(O::Connected(ms(60)))]));
    bench.run_asked(at(20_000), A);
    assert_eq!((bench.samples().last(), bench.view(A).kind), (Some(&(ms(60), DnsTcp)), Some(DnsTcp)));
    bench.manners.insert(ip(A), DARK);
    bench.run_asked(at(50_000), A);
    assert_eq!(bench.view(A).state, LdnsState::Unreachable);
    assert!(bench.unreachable() >= 1);
}

#[test]
fn error_replies_of_the_ldns_are_samples() {
    // faults I-33.
    for (manners, sample) in [
        (gives(O::TimedOut, O::DnsAnswer(ms(40)), O::TimedOut), (ms(40), DnsUdp)),
        (gives(O::TimedOut, O::PortUnreachable(ms(41)), O::TimedOut), (ms(41), DnsUdp)),
        (gives(O::PortUnreachable(ms(42)), O::TimedOut, O::TimedOut), (ms(42), Ping)),
        (gives(O::TimedOut, O::TimedOut, O::Reset(ms(43))), (ms(43), DnsTcp)),
        (gives(O::TimedOut, O::TimedOut, O::PortUnreachable(ms(44))), (ms(44), DnsTcp)),
    ] {
        let mut bench = Bench::with(A, manners);
        bench.run(at(4900));
        assert_eq!(bench.samples(), [sample]);
    }
}

#[test]
fn a_router_on_the_way_does_not_measure_and_the_next_kind_follows_at_once() {
    let router = gives(O::RouterError, O::RouterError, O::Connected(ms(60)));
    let settings = Settings { per_prefix: 100, ..Settings::default() };
    let mut bench = Bench::new(settings);
    bench.manners.insert(ip(A), router);
    bench.asks(A);
    bench.run(at(200));
    assert_eq!(bench.samples(), [(ms(60), DnsTcp)]);
    assert_eq!(bench.kinds(), [Ping, DnsUdp, DnsTcp]);
    assert_eq!(bench.prober.stats().router_errors, 2);
}

#[test]
fn rounds_full_of_router_errors_fail() {
    let mut bench = Bench::with(A, gives(O::RouterError, O::RouterError, O::RouterError));
    bench.run_asked(at(14_000), A);
    assert_eq!(bench.view(A).state, LdnsState::Unreachable);
}

#[test]
fn an_rtt_of_no_time_at_all_is_a_sample() {
    // faults I-37.
    let mut bench =
        Bench::with(A, gives(O::EchoReply(Rtt::from_duration(Duration::ZERO)), O::TimedOut, O::TimedOut));
    bench.run(at(10));
    assert_eq!(bench.samples(), [(Rtt::MIN, Ping)]);
}

#[test]
fn the_kind_that_worked_is_used_first_from_then_on() {
    let udp = Manners([Manner::Silent, Manner::Gives(O::DnsAnswer(ms(40))), Manner::Silent]);
    let mut bench = Bench::with(A, udp);
    bench.run_asked(at(40_000), A);
    let kinds = bench.kinds();
    assert_eq!(kinds[..2], [Ping, DnsUdp]);
    assert!(kinds.len() > 7 && kinds[2..].iter().all(|k| *k == DnsUdp), "{kinds:?}");
}

#[test]
fn the_preferred_order_is_tried_from_the_top_again_after_a_minute_and_not_before() {
    let udp = Manners([Manner::Silent, Manner::Gives(O::DnsAnswer(ms(40))), Manner::Silent]);
    let mut bench = Bench::with(A, udp);
    bench.run_asked(at(200_000), A);
    let pinged: Vec<Timestamp> = bench.sent.iter().filter(|(_, r)| r.kind == Ping).map(|(t, _)| *t).collect();
    let gaps: Vec<Duration> = pinged.windows(2).map(|w| w[1].since(w[0])).collect();
    assert_eq!(gaps.len(), 3, "{gaps:?}");
    assert!(gaps.iter().all(|g| *g >= secs(60) && *g < secs(66)), "{gaps:?}");
    // And what answers again is taken again.
    bench.manners.insert(ip(A), pings(20));
    bench.run_asked(at(270_000), A);
    assert_eq!(bench.view(A).kind, Some(Ping));
}

#[test]
fn after_the_sticky_kind_fails_the_others_follow_in_preferred_order() {
    let tcp = Manners([Manner::Silent, Manner::Silent, Manner::Gives(O::Connected(ms(60)))]);
    let mut bench = Bench::with(A, tcp);
    bench.run(at(4500));
    assert_eq!(bench.view(A).kind, Some(DnsTcp));
    bench.manners.insert(ip(A), DARK);
    bench.sent.clear();
    bench.run(at(12_000));
    assert_eq!(bench.kinds(), [DnsTcp, Ping, DnsUdp]);
}

#[test]
fn a_single_lost_probe_changes_nothing() {
    // faults I-39: every other ping is lost, and nothing else answers.
    let mut bench = Bench::with(A, pings(20));
    for round in 0..40_u64 {
        bench.manners.insert(ip(A), if round % 2 == 0 { pings(20) } else { DARK });
        let sent = bench.sent.len();
        while bench.sent.len() == sent {
            bench.asks(A);
            bench.run(bench.now + Duration::from_millis(100));
        }
    }
    assert_eq!(bench.unreachable(), 0);
    assert_eq!(bench.view(A).state, LdnsState::Known);
}

#[test]
fn three_failed_rounds_in_a_row_make_unreachable_and_two_do_not() {
    let mut bench = Bench::with(A, pings(20));
    bench.run(at(100));
    bench.manners.insert(ip(A), DARK);
    while bench.view(A).failed_rounds < 2 {
        bench.run(bench.now + secs(1));
        bench.asks(A);
    }
    assert_eq!((bench.unreachable(), bench.view(A).state), (0, LdnsState::Known));
    while bench.view(A).failed_rounds < 3 {
        bench.run(bench.now + secs(1));
        bench.asks(A);
    }
    assert_eq!((bench.unreachable(), bench.view(A).state), (1, LdnsState::Unreachable));
    // The next sample makes it known again.
    bench.manners.insert(ip(A), pings(21));
    bench.run_asked(bench.now + secs(12), A);
    assert_eq!((bench.samples().last(), bench.view(A).failed_rounds), (Some(&(ms(21), Ping)), 0));
    assert_eq!(bench.view(A).state, LdnsState::Known);
}

#[test]
fn a_success_between_failed_rounds_starts_their_count_anew() {
    let mut bench = Bench::with(A, pings(20));
    for _ in 0..5 {
        bench.manners.insert(ip(A), DARK);
        while bench.view(A).failed_rounds < 2 {
            bench.run(bench.now + secs(1));
            bench.asks(A);
        }
        bench.manners.insert(ip(A), pings(20));
        while bench.view(A).failed_rounds > 0 {
            bench.run(bench.now + secs(1));
            bench.asks(A);
        }
    }
    assert_eq!(bench.unreachable(), 0);
}

#[test]
fn a_silent_ldns_is_probed_ever_more_seldom_up_to_every_45_s() {
    let mut bench = Bench::with(A, DARK);
    bench.run_asked(at(600_000), A);
    let rounds: Vec<Timestamp> = bench.sent.iter().filter(|(_, r)| r.kind == Ping).map(|(t, _)| *t).collect();
    let gaps: Vec<u64> = rounds.windows(2).map(|w| w[1].since(w[0]).as_secs()).collect();
    // A round of three timeouts lasts 6 s, so the second and third begin at the second slot.
    assert!((10..=10).contains(&gaps[0]) && (10..=11).contains(&gaps[2]), "{gaps:?}");
    assert!(gaps[3] >= 20 && gaps[4] >= 40 && gaps[5] >= 45, "{gaps:?}");
    assert!(gaps[6..].iter().all(|g| (45..=48).contains(g)), "{gaps:?}");
}

#[test]
fn no_round_begins_sooner_than_an_interval_after_the_one_before() {
    let mut bench = Bench::with(A, pings(20));
    bench.run_asked(at(600_000), A);
    let gaps: Vec<Duration> = bench.sent.windows(2).map(|w| w[1].0.since(w[0].0)).collect();
    // After the first sample the rounds are moved away from those of the other sites.
    assert!((5000..=7760).contains(&gaps[0].as_millis()), "{gaps:?}");
    assert!(gaps[1..].iter().all(|g| (5000..=5260).contains(&g.as_millis())), "{gaps:?}");
    assert!(gaps[1..].iter().any(|g| g.as_millis() > 5150), "no jitter");
}

#[test]
fn a_round_longer_than_the_interval_delays_the_next_to_a_later_slot() {
    let mut bench = Bench::with(A, DARK);
    bench.run(at(9999));
    assert_eq!(bench.sent.len(), 3);
    bench.run(at(10_250));
    assert_eq!(bench.sent.len(), 4);
}

#[test]
fn only_the_awaited_reply_counts() {
    // faults I-34 and I-35.
    let mut bench = Bench::with(A, LOST);
    let id = bench.sent[0].1.id;
    let reply = |id, rtt| ProbeReply { id, outcome: O::EchoReply(ms(rtt)) };
    for wrong in [id.0 ^ 1, id.0.wrapping_add(2), id.0.wrapping_sub(2), 0] {
        bench.prober.handle_reply(at(5), reply(ProbeId(wrong), 1));
    }
    bench.collect();
    assert_eq!((bench.samples(), bench.prober.stats().late), (vec![], 4));
    bench.prober.handle_reply(at(9), reply(id, 9));
    bench.prober.handle_reply(at(10), reply(id, 1));
    bench.collect();
    assert_eq!((bench.samples(), bench.prober.stats().late), (vec![(ms(9), Ping)], 5));
}

#[test]
fn a_reply_to_an_earlier_probe_is_not_paired_with_the_new_one() {
    let mut bench = Bench::with(A, LOST);
    let first = bench.sent[0].1.id;
    bench.run(at(2600));
    assert_eq!(bench.kinds(), [Ping, DnsUdp]);
    bench.prober.handle_reply(at(2600), ProbeReply { id: first, outcome: O::EchoReply(ms(1)) });
    bench.collect();
    assert_eq!((bench.samples(), bench.prober.stats().late), (vec![], 1));
    assert_eq!(bench.view(A).next_round, None, "the second probe is still out");
}

#[test]
fn an_answer_of_the_wrong_kind_does_not_measure() {
    let mut bench = Bench::with(A, gives(O::Connected(ms(1)), O::EchoReply(ms(1)), O::Connected(ms(60))));
    bench.run(at(4000));
    assert_eq!(bench.samples(), [(ms(60), DnsTcp)]);
}

#[test]
fn queries_during_a_probe_start_no_second_one() {
    // faults I-36.
    let mut bench = Bench::with(A, LOST);
    for _ in 0..1000 {
        bench.asks(A);
    }
    assert_eq!(bench.sent.len(), 1);
}

#[test]
fn a_sender_that_died_holds_no_ldns_and_is_noticed() {
    // faults I-57.
    let mut bench = Bench::with(A, LOST);
    assert_eq!(bench.prober.poll_timeout(), Some(at(2500)));
    bench.prober.handle_timeout(at(2499));
    assert_eq!(bench.prober.stats().overdue, 0);
    bench.run(at(2500));
    assert_eq!((bench.prober.stats().overdue, bench.prober.stats().timeouts), (1, 1));
    assert_eq!(bench.kinds(), [Ping, DnsUdp]);
    bench.run_asked(at(40_000), A);
    assert_eq!(bench.view(A).state, LdnsState::Unreachable);
}

#[test]
fn without_permission_to_ping_all_go_on_by_the_other_kinds() {
    // faults I-38.
    let manners = gives(O::NotPermitted, O::DnsAnswer(ms(40)), O::TimedOut);
    let mut bench = Bench::with(A, manners);
    assert_eq!(bench.prober.stats().icmp_permitted, None);
    bench.manners.insert(ip(B), manners);
    bench.run(at(40));
    assert_eq!(bench.samples(), [(ms(40), DnsUdp)]);
    assert_eq!(bench.prober.stats().icmp_permitted, Some(false));
    bench.asks(B);
    bench.run(at(80));
    assert_eq!(bench.kinds(), [Ping, DnsUdp, DnsUdp], "nobody else is pinged");
    // One of them tries again after a minute, and all ping again once it works.
    bench.sent.clear();
    bench.manners.insert(ip(A), pings(20));
    bench.manners.insert(ip(B), pings(20));
    while bench.now < at(150_000) {
        bench.asks(A);
        bench.asks(B);
        bench.run(bench.now + secs(1));
    }
    let first = bench.sent.iter().find(|(_, r)| r.kind == Ping).unwrap().0;
    assert!(first >= at(60_000), "{first:?}");
    assert_eq!(bench.prober.stats().icmp_permitted, Some(true));
    assert_eq!((bench.view(A).kind, bench.view(B).kind), (Some(Ping), Some(Ping)));
}

#[test]
fn while_pings_are_denied_one_in_a_minute_tries_again() {
    // Whether the one that tries learns the same at once, or hears nothing at all.
    for again in [Manner::Gives(O::NotPermitted), Manner::Lost] {
        let mut bench = Bench::new(Settings::default());
        bench.others = gives(O::NotPermitted, O::DnsAnswer(ms(40)), O::TimedOut);
        while bench.now < at(300_000) {
            for n in 0..50 {
                bench.sees(nth(n));
            }
            bench.run(bench.now + secs(1));
            bench.others.0[0] = again;
        }
        let pings = bench.sent.iter().filter(|(t, r)| r.kind == Ping && *t > at(1000)).count();
        assert!((3..=5).contains(&pings), "{pings}");
    }
}

#[test]
fn a_refused_ipv6_ping_does_not_stop_ipv4_pings() {
    let mut bench = Bench::new(Settings::default());
    bench.manners.insert(ip("2001:db8::53"), gives(O::NotPermitted, O::DnsAnswer(ms(40)), O::TimedOut));
    bench.manners.insert(ip(A), pings(20));
    bench.asks("2001:db8::53");
    bench.run(at(100));
    bench.asks(A);
    bench.run(at(200));
    assert_eq!(bench.samples(), [(ms(40), DnsUdp), (ms(20), Ping)]);
}

#[test]
fn a_round_of_which_nothing_could_be_sent_says_nothing_about_the_ldns() {
    let mut bench = Bench::with(A, pings(20));
    bench.run(at(100));
    for outcome in [O::SendFailed, O::NotPermitted] {
        bench.manners.insert(ip(A), gives(outcome, outcome, outcome));
        bench.run_asked(bench.now + secs(60), A);
        assert_eq!((bench.view(A).failed_rounds, bench.view(A).state), (0, LdnsState::Known));
    }
    assert!(bench.prober.stats().send_failed > 30);
    assert_eq!(bench.unreachable(), 0);
}

#[test]
fn a_denied_ping_does_not_save_a_round_that_fails_otherwise() {
    let mut bench = Bench::with(A, Manners([Manner::Gives(O::NotPermitted), Manner::Silent, Manner::Silent]));
    bench.run_asked(at(20_000), A);
    assert_eq!(bench.view(A).state, LdnsState::Unreachable);
}

#[test]
fn without_any_kind_that_can_be_sent_the_machine_waits_quietly() {
    for order in [vec![], vec![Ping]] {
        let mut bench = Bench::new(Settings { order, ..Settings::default() });
        bench.others = gives(O::NotPermitted, O::NotPermitted, O::NotPermitted);
        bench.asks(A);
        bench.run_asked(at(50_000), A);
        assert!(bench.sent.len() <= 1);
        assert_eq!(bench.view(A).state, LdnsState::Pending);
    }
}

#[test]
fn an_early_timeout_does_nothing() {
    let mut bench = Bench::with(A, pings(20));
    bench.run(at(100));
    let next = bench.prober.poll_timeout().unwrap();
    bench.prober.handle_timeout(Timestamp::from_micros(next.as_micros() - 1));
    assert_eq!(bench.prober.poll_output(), None);
    assert_eq!(bench.prober.poll_timeout(), Some(next));
    bench.prober.handle_timeout(next);
    assert!(bench.prober.poll_output().is_some());
}
