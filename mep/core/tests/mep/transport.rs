//! QUIC where it passes, gRPC where it does not, and back without anybody noticing.

use crate::net::{Net, known, ms, secs, settings};
use gslb_types::{Timestamp, Transport};
use mep_core::carrier::Over;
use mep_core::{Output, PeerState};

fn started(transport: Transport, quic_blocked: bool) -> Net {
    let mut net = Net::new();
    let nodes = ["fra/1", "par/1"];
    if quic_blocked {
        net.quic_cuts.extend([(0, 1), (1, 0)]);
    }
    for (n, id) in nodes.iter().enumerate() {
        net.add(id);
        let mut settings = settings(&nodes);
        settings.peers.iter_mut().for_each(|peer| peer.transport = transport);
        net.start(n, settings);
    }
    net
}

fn over(net: &Net) -> [Option<Over>; 2] {
    [net.status(0, 1).over, net.status(1, 0).over]
}

const QUIC: [Option<Over>; 2] = [Some(Over::Quic); 2];
const GRPC: [Option<Over>; 2] = [Some(Over::Grpc); 2];

/// Sessions that began or ended at both nodes.
fn turns(net: &Net, since: Timestamp) -> usize {
    let is_turn = |o: &&Output| matches!(o, Output::PeerUp { .. } | Output::PeerDown { .. });
    (0..2).map(|n| net.outputs_since(n, since).filter(is_turn).count()).sum()
}

#[test]
fn quic_is_taken_where_it_passes() {
    let mut net = started(Transport::Auto, false);
    net.run_until(secs(2), |net| net.is_up(0, 1));
    assert_eq!(over(&net), QUIC);
    net.run(secs(300));
    assert_eq!((over(&net), net.connections(0, 1)), (QUIC, 1));
}

#[test]
fn where_udp_is_blocked_the_session_runs_over_grpc() {
    let mut net = started(Transport::Auto, true);
    let took = net.run_until(secs(10), |net| net.is_up(0, 1));
    println!("up over gRPC after {took:?}");
    assert_eq!(over(&net), GRPC);
    net.sight(0, 1);
    net.measure(0, 1, known(27));
    net.run(secs(1));
    assert_eq!(net.column(1, 0, 1), Some(known(27)));
    net.run(secs(600));
    assert_eq!((over(&net), net.status(0, 1).downs, net.status(0, 1).sessions), (GRPC, 0, 1));
    // Why it does not run over QUIC stands beside it.
    let tried = net.status(0, 1).last_attempt.or(net.status(1, 0).last_attempt);
    assert_eq!(tried.as_deref(), Some("dial over quic failed: timed out"));
}

#[test]
fn a_session_goes_back_to_quic_without_a_gap() {
    for seed in 0..10 {
        let mut net = started(Transport::Auto, true);
        net.run_until(secs(10), |net| net.is_up(0, 1));
        net.run(secs(seed * 7));
        net.sight(0, 1);
        net.measure(0, 1, known(27));
        net.run(secs(6));
        net.quic_cuts.clear();
        let healed = net.now;
        let mut n = 2;
        let took = net.run_until(secs(90), |net| over(net) == QUIC);
        for _ in 0..20 {
            net.sight(0, n);
            net.measure(0, n, known(33));
            n += 1;
            net.run(ms(3));
        }
        net.run(secs(7));
        println!("back after {took:?}");
        assert_eq!(turns(&net, healed), 0, "nobody noticed");
        assert!((2..n).all(|n| net.column(1, 0, n) == Some(known(33))));
        assert_eq!(net.connections(0, 1), 1, "the old one is closed");
        for (a, b) in [(0, 1), (1, 0)] {
            let status = net.status(a, b);
            assert_eq!((status.state, status.downs, status.sessions), (PeerState::Up, 0, 1));
            assert_eq!((status.violations, status.transitions.len()), (0, 1));
        }
        net.run(secs(300));
        assert_eq!((over(&net), turns(&net, healed), net.connections(0, 1)), (QUIC, 0, 1));
    }
}

/// The end of the old connection must not overtake the beginning of the new one.
#[test]
fn a_session_moves_without_a_gap_over_a_slower_path_too() {
    for detour in [5, 80, 400] {
        let mut net = started(Transport::Auto, true);
        net.run_until(secs(10), |net| net.is_up(0, 1));
        net.run(secs(10));
        net.quic_cuts.clear();
        net.quic_detour = ms(detour);
        let healed = net.now;
        net.run_until(secs(90), |net| over(net) == QUIC);
        net.run(secs(60));
        assert_eq!((turns(&net, healed), net.connections(0, 1)), (0, 1), "{detour} ms");
    }
}

#[test]
fn changes_while_a_session_moves_are_not_lost() {
    let mut net = started(Transport::Auto, true);
    net.run_until(secs(10), |net| net.is_up(0, 1));
    for n in 0..50 {
        net.sight(0, n);
        net.measure(0, n, known(10));
    }
    net.run(secs(10));
    net.quic_cuts.clear();
    // Changes all the time, until it has moved and beyond.
    let mut round = 0;
    while over(&net) != QUIC || round % 50 != 0 {
        round += 1;
        assert!(round < 20_000);
        net.measure(0, round % 50, known(10 + round % 200));
        net.measure(0, (round + 25) % 50, known(11 + round % 200));
        net.run(ms(7));
    }
    let truth: Vec<_> = (0..50).map(|n| net.hosts[0].table.reach(crate::net::ldns(n))).collect();
    net.run(secs(7));
    let told: Vec<_> = (0..50).map(|n| net.column(1, 0, n)).collect();
    assert_eq!(told, truth);
}

#[test]
fn when_udp_is_blocked_later_the_pair_goes_on_over_grpc() {
    let mut net = started(Transport::Auto, false);
    net.run_until(secs(2), |net| net.is_up(0, 1));
    net.run(secs(60));
    net.quic_cuts.extend([(0, 1), (1, 0)]);
    let took = net.run_until(secs(25), |net| net.is_up(0, 1) && over(net) == GRPC);
    println!("up over gRPC {took:?} after UDP was blocked");
    // When that session is lost as well, what passed last is tried first.
    net.part(0, 1);
    net.run(secs(12));
    net.cuts.clear();
    let again = net.run_until(secs(12), |net| net.is_up(0, 1));
    println!("up again over gRPC after {again:?}");
    assert_eq!(over(&net), GRPC);
}

#[test]
fn what_the_configuration_says_is_kept_to() {
    let mut net = started(Transport::Quic, true);
    net.run(secs(120));
    assert_eq!((over(&net), net.status(0, 1).state), ([None; 2], PeerState::Connecting));
    let mut net = started(Transport::Grpc, false);
    net.run_until(secs(2), |net| net.is_up(0, 1));
    net.run(secs(600));
    assert_eq!((over(&net), net.status(0, 1).downs), (GRPC, 0));
    assert!(net.dialled.iter().all(|(_, over)| *over == Over::Grpc));
    let mut net = started(Transport::Quic, false);
    net.run_until(secs(2), |net| net.is_up(0, 1));
    assert_eq!(over(&net), QUIC);
}

/// Both ends try, one a minute each: no storm.
#[test]
fn quic_is_tried_about_once_a_minute() {
    let mut net = started(Transport::Auto, true);
    net.run_until(secs(10), |net| net.is_up(0, 1));
    let begin = net.now;
    net.run(secs(1_800));
    let tries = net.dialled.iter().filter(|(at, over)| *at > begin && *over == Over::Quic).count();
    assert!((46..=60).contains(&tries), "{tries} in half an hour, both ends together");
}
