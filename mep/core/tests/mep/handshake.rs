//! Dials, collisions, restarts.

use crate::net::{Net, ms, node, secs, settings};
use mep_core::{DownReason, Output, PeerState};

#[test]
fn a_session_stands_when_both_hellos_have_come() {
    let mut net = Net::of(&["fra/1", "par/1"]);
    net.run_until(secs(2), |net| net.is_up(0, 1));
    net.run(secs(10));
    let (fra, par) = (net.status(0, 1), net.status(1, 0));
    assert_eq!((fra.sessions, fra.downs, par.sessions, par.downs), (1, 0, 1, 0));
    assert_eq!(fra.version.as_deref(), Some("0.1.0"));
    assert_eq!(fra.certificate_expires, Some(2_000_000_000));
    assert_eq!((fra.config_hash, fra.mismatches), (Some(5), vec![]));
    let reasons = [fra.reason.as_str(), par.reason.as_str()];
    assert!(reasons.contains(&"session established; this node dialled"), "{reasons:?}");
    assert!(reasons.contains(&"session established; this node was dialled by it"), "{reasons:?}");
    assert_eq!((fra.violations, fra.unknown, par.violations, par.unknown), (0, 0, 0, 0));
    assert_eq!(net.connections(0, 1), 1);
}

#[test]
fn the_higher_node_leaves_the_lower_one_the_first_dial() {
    let mut net = Net::of(&["fra/1", "par/1"]);
    net.run_until(secs(2), |net| net.is_up(0, 1));
    net.run(secs(40));
    let before = [net.hosts[0].dials.len(), net.hosts[1].dials.len()];
    net.cuts.extend([(0, 1), (1, 0)]);
    let down = |net: &Net, a, b| net.status(a, b).state == PeerState::Down;
    net.run_until(secs(11), |net| down(net, 0, 1) || down(net, 1, 0));
    net.heal();
    net.run_until(secs(2), |net| net.is_up(0, 1));
    assert_eq!([net.hosts[0].dials.len(), net.hosts[1].dials.len()], [before[0] + 1, before[1]]);
}

#[test]
fn the_higher_node_dials_if_the_lower_one_can_not() {
    let mut net = Net::new();
    net.add("fra/1");
    net.add("par/1");
    let mut unreachable = settings(&["fra/1", "par/1"]);
    unreachable.peers[1].address = ([127, 0, 0, 1], 9).into();
    net.start(0, unreachable);
    net.start(1, settings(&["fra/1", "par/1"]));
    net.run_until(secs(4), |net| net.is_up(0, 1));
    assert_eq!(net.status(1, 0).reason, "session established; this node dialled");
}

/// Both ends dial, at every distance in time from "the same moment" to "long after", seen from both sides: one connection
/// stands in the end, the same at both ends, and no session ever ended for it (faults I-49).
#[test]
fn a_collision_is_resolved_the_same_way_at_both_ends() {
    for (first, second) in [(0, 1), (1, 0)] {
        for apart in 0..80 {
            let mut net = Net::of(&["fra/1", "par/1"]);
            net.dial(first, second);
            net.run(ms(apart));
            net.dial(second, first);
            net.run(secs(20));
            assert!(net.is_up(0, 1), "{first} {apart}");
            for (a, b) in [(0, 1), (1, 0)] {
                let status = net.status(a, b);
                assert_eq!((status.sessions, status.downs, status.violations), (1, 0, 0), "{first} {apart}");
            }
            assert_eq!(net.connections(0, 1), 1, "{first} {apart}");
        }
    }
}

#[test]
fn a_connection_too_many_is_closed_as_a_duplicate() {
    let mut net = Net::of(&["fra/1", "par/1"]);
    net.run_until(secs(2), |net| net.is_up(0, 1));
    net.dial(0, 1);
    net.dial(1, 0);
    net.run(secs(20));
    assert_eq!((net.connections(0, 1), net.status(0, 1).sessions, net.status(1, 0).sessions), (1, 1, 1));
}

#[test]
fn a_restarted_peer_takes_its_place_at_once() {
    let mut net = Net::of(&["fra/1", "par/1", "ber/1"]);
    net.run_until(secs(5), |net| net.is_up(0, 1) && net.is_up(1, 2) && net.is_up(0, 2));
    let (died, first) = (net.now, net.status(0, 1).boot);
    net.kill(1);
    net.start(1, settings(&["fra/1", "par/1", "ber/1"]));
    let took = net.run_until(secs(2), |net| {
        [0, 2]
            .iter()
            .all(|n| net.outputs_since(*n, died).any(|o| *o == Output::PeerUp { peer: node("par/1") }))
            && net.is_up(0, 1)
            && net.is_up(2, 1)
    });
    println!("back after {took:?}");
    let happened: Vec<&Output> = net
        .outputs_since(0, died)
        .filter(|o| matches!(o, Output::PeerUp { .. } | Output::PeerDown { .. }))
        .collect();
    let down = Output::PeerDown { peer: node("par/1"), reason: DownReason::Restarted };
    assert_eq!(happened, [&down, &Output::PeerUp { peer: node("par/1") }]);
    assert_ne!(net.status(0, 1).boot, first);
    net.run(secs(30));
    assert_eq!((net.status(0, 1).sessions, net.status(0, 1).downs), (2, 1));
}

/// Faults I-52: the later of two processes with one certificate has the session; the earlier one is told why, and does
/// not fight for it; when the later one is gone, the earlier one is let in again.
#[test]
fn of_two_processes_with_one_identity_the_later_has_it() {
    let mut net = Net::new();
    for id in ["fra/1", "par/1", "par/1"] {
        net.add(id);
    }
    net.start(0, settings(&["fra/1", "par/1"]));
    net.start(1, settings(&["fra/1", "par/1"]));
    net.run_until(secs(2), |net| net.is_up(0, 1));
    net.start(2, settings(&["fra/1"]));
    let boot = |net: &Net| net.status(0, 1).boot;
    let first = boot(&net);
    net.run_until(secs(10), |net| net.status(0, 1).sessions == 2);
    let second = boot(&net);
    assert_ne!(first, second);
    net.run(secs(300));
    assert_eq!((boot(&net), net.status(0, 1).sessions), (second, 2));
    assert!(net.status(0, 1).refusals > 3);
    let told = net.status(1, 0);
    assert_eq!(told.state, PeerState::Down);
    assert!(told.reason.contains("duplicate identity"), "{}", told.reason);
    net.kill(2);
    net.run_until(secs(60), |net| net.is_up(0, 1) && net.status(0, 1).boot == first);
}

#[test]
fn settings_that_differ_are_named_at_both_ends_and_the_session_goes_on() {
    let mut net = Net::new();
    net.add("fra/1");
    net.add("par/1");
    let mut other = settings(&["fra/1", "par/1"]);
    other.must_match = vec![("rtt_tolerance".to_owned(), 50), ("domains".to_owned(), 1)];
    net.start(0, settings(&["fra/1", "par/1"]));
    net.start(1, other);
    net.run_until(secs(2), |net| net.is_up(0, 1));
    net.run(secs(30));
    assert!(net.is_up(0, 1));
    assert_eq!(net.status(0, 1).mismatches, ["rtt_tolerance", "domains"]);
    assert_eq!(net.status(1, 0).mismatches, ["domains", "rtt_tolerance"]);
}

/// Faults I-49: when one node of sixteen is gone, its peers come back spread over time, less and less often; and all
/// sessions stand again when it is back.
#[test]
fn peers_of_a_dead_node_spread_their_dials_and_never_hammer() {
    let names: Vec<String> = (0..16).map(|n| format!("s{n:02}/1")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut net = Net::of(&names);
    let all = |net: &Net| (0..16).all(|a| (0..a).all(|b| net.is_up(a, b)));
    net.run_until(secs(10), all);
    net.run(secs(40));
    let died = net.now;
    net.shutdown(15);
    net.run(secs(60));
    let mut firsts = Vec::new();
    for host in &net.hosts[..15] {
        let dials: Vec<_> = host.dials.iter().filter(|at| **at > died).collect();
        firsts.push(dials[0].since(died));
        assert!((6..=25).contains(&dials.len()), "{} dials in a minute", dials.len());
    }
    firsts.sort();
    println!("first retries from {:?} to {:?}", firsts[0], firsts[14]);
    assert!(firsts[14] - firsts[0] > ms(600), "{firsts:?}");
    net.start(15, settings(&names));
    let took = net.run_until(secs(6), all);
    println!("all back after {took:?}");
}
