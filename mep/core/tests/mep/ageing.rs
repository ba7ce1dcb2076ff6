//! Connections that end with the certificates they were made with, and sessions that don't (faults I-48).

use crate::net::{Net, known, ms, secs};
use gslb_types::Timestamp;
use mep_core::carrier::{CarrierEvent, ConnId, Over};
use mep_core::{Output, PeerState};

/// Tells a node that whatever connection it has grows old.
fn age(net: &mut Net, n: usize, renew: bool) {
    let now = net.now;
    for conn in 0..100 {
        net.mep(n).handle_carrier(now, CarrierEvent::Ageing { conn: ConnId(conn), renew });
    }
}

fn turns(net: &Net, since: Timestamp) -> usize {
    let is_turn = |o: &&Output| matches!(o, Output::PeerUp { .. } | Output::PeerDown { .. });
    (0..2).map(|n| net.outputs_since(n, since).filter(is_turn).count()).sum()
}

#[test]
fn a_session_goes_on_over_a_new_connection_whichever_end_makes_it() {
    for renewing in [0, 1] {
        let mut net = Net::of(&["fra/1", "par/1"]);
        net.run_until(secs(5), |net| net.is_up(0, 1) && net.is_up(1, 0));
        net.sight(0, 1);
        net.measure(0, 1, known(27));
        net.run(secs(30));
        let (before, frames) = (net.now, net.status(0, 1).frames_out);
        age(&mut net, 1 - renewing, false);
        net.run(secs(3));
        age(&mut net, renewing, true);
        for n in 2..40 {
            net.sight(0, n);
            net.measure(0, n, known(33));
            net.run(ms(7));
        }
        net.run(secs(7));
        assert_eq!(turns(&net, before), 0, "nobody noticed");
        assert!((2..40).all(|n| net.column(1, 0, n) == Some(known(33))), "and nothing was lost");
        assert_eq!(net.connections(0, 1), 1, "the old one is closed");
        for (a, b) in [(0, 1), (1, 0)] {
            let status = net.status(a, b);
            assert_eq!((status.state, status.downs, status.sessions), (PeerState::Up, 0, 1));
            assert_eq!((status.over, status.violations), (Some(Over::Quic), 0));
        }
        assert!(net.status(0, 1).frames_out > frames);
        // The new connection is as good as any, and not made anew.
        net.run(secs(300));
        assert_eq!((turns(&net, before), net.connections(0, 1)), (0, 1));
    }
}

/// Carriers agree on one end that renews; should both do so all the same, one connection comes of it.
#[test]
fn both_ends_may_renew_at_once() {
    for spread in 0..40 {
        let mut net = Net::of(&["fra/1", "par/1"]);
        net.run_until(secs(5), |net| net.is_up(0, 1) && net.is_up(1, 0));
        net.run(secs(30));
        age(&mut net, 0, true);
        net.run(ms(spread * 3));
        age(&mut net, 1, true);
        net.run(secs(10));
        assert!(net.is_up(0, 1) && net.is_up(1, 0) && net.connections(0, 1) == 1, "{spread}");
        let lost = net.status(0, 1).downs;
        assert!(lost <= 1, "{spread}");
    }
}

#[test]
fn a_peer_that_is_not_reached_anew_is_kept_while_the_old_connection_stands() {
    let mut net = Net::of(&["fra/1", "par/1"]);
    net.run_until(secs(5), |net| net.is_up(0, 1) && net.is_up(1, 0));
    net.run(secs(30));
    let before = net.now;
    net.quic_cuts.extend([(0, 1), (1, 0)]);
    age(&mut net, 0, true);
    net.run(secs(4));
    net.quic_cuts.clear();
    assert!(net.status(0, 1).last_attempt.is_some_and(|why| why.contains("failed")));
    age(&mut net, 1, false);
    age(&mut net, 0, true);
    net.run(secs(10));
    assert_eq!((turns(&net, before), net.connections(0, 1)), (0, 1));
    assert_eq!(net.status(0, 1).last_attempt, None, "it has come about");
}
