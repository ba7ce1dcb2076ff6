//! Values that no longer hold: a snapshot tells only what there is, so their end must not get lost on the way to it.

use crate::group::Group;
use crate::net::{Net, known, ldns, ms, node, secs, settings};
use crate::refusals::Nothing;
use gslb_types::Reach;
use mep_core::carrier::{CarrierEvent, ConnId};
use mep_core::proto::{self, frame::Body};
use mep_core::{DownReason, Output, PeerState};
use std::time::Duration;

/// fra has told a value of 40 LDNS.
fn pair() -> Net {
    let mut net = Net::of(&["fra/1", "par/1"]);
    net.run_until(secs(5), |net| net.is_up(0, 1) && net.is_up(1, 0));
    for n in 0..40 {
        net.sight(0, n);
        net.measure(0, n, known(27));
    }
    net.run(secs(30));
    assert!((0..40).all(|n| net.column(1, 0, n) == Some(known(27))));
    net
}

fn move_session(net: &mut Net) {
    let now = net.now;
    for conn in 0..100 {
        let event = |renew| CarrierEvent::Ageing { conn: ConnId(conn), renew };
        net.mep(1).handle_carrier(now + secs(1_000), event(false));
        net.mep(0).handle_carrier(now, event(true));
    }
}

#[test]
fn a_withdrawal_that_waits_while_the_session_moves_is_told() {
    let mut net = pair();
    // A change, after which others wait for five seconds.
    net.measure(0, 39, known(50));
    net.run(ms(100));
    for n in 0..20 {
        net.withdraw(0, n);
    }
    net.push_out(0, 20);
    move_session(&mut net);
    net.run(secs(8));
    assert_eq!((net.status(1, 0).sessions, net.status(1, 0).downs, net.connections(0, 1)), (1, 0, 1));
    assert!((0..=20).all(|n| net.column(1, 0, n) == Some(Reach::Pending)), "withdrawn");
    assert!((21..39).all(|n| net.column(1, 0, n) == Some(known(27))), "the others stand");
}

/// Frames under way on the old connection come to an end that does not listen to it any longer.
#[test]
fn a_withdrawal_under_way_when_the_session_moves_is_told_again() {
    let mut net = pair();
    // A change, after which others wait for five seconds.
    net.measure(0, 39, known(50));
    net.run(ms(100));
    for n in 0..20 {
        net.withdraw(0, n);
    }
    net.run(ms(4_800));
    net.slow.insert((0, 1), 5_000);
    for n in 1_000..7_000 {
        net.sight(0, n);
    }
    net.run(ms(300));
    assert_eq!(net.column(1, 0, 0), Some(known(27)), "the withdrawal is on its way");
    net.slow.clear();
    move_session(&mut net);
    net.run(secs(3));
    assert_eq!((net.status(1, 0).sessions, net.status(1, 0).downs, net.status(1, 0).violations), (1, 0, 0));
    assert!((0..20).all(|n| net.column(1, 0, n) == Some(Reach::Pending)), "withdrawn");
}

#[test]
fn a_withdrawal_that_waits_when_a_snapshot_begins_anew_is_told() {
    let mut net = Net::new();
    for (n, id) in ["fra/1", "par/1"].iter().enumerate() {
        net.add(id);
        net.start(n, mep_core::Settings { outbox_cap: 5_000, ..settings(&["fra/1", "par/1"]) });
    }
    net.run_until(secs(5), |net| net.is_up(0, 1) && net.is_up(1, 0));
    for n in 0..4_500 {
        net.sight(0, n);
        net.measure(0, n, known(27));
        net.run(ms(2));
    }
    net.run(secs(30));
    // Nothing passes for a moment, and much changes.
    net.cuts.insert((0, 1));
    net.cuts.insert((1, 0));
    for n in 0..20 {
        net.withdraw(0, n);
    }
    net.push_out(0, 20);
    let mut n = 21;
    while net.status(0, 1).resyncs == 0 {
        net.fill(0, 10_000 + n, known(33));
        let now = net.now;
        net.mep(0).note_rtt(now, ldns(10_000 + n), true);
        n += 1;
        assert!(n < 20_000);
    }
    net.heal();
    net.run(secs(10));
    assert_eq!((net.status(0, 1).state, net.status(0, 1).resyncs), (PeerState::Up, 1));
    assert!((0..=20).all(|n| net.column(1, 0, n) == Some(Reach::Pending)), "withdrawn");
}

/// The relay tells everything anew then, and says so: what it does not tell again its words confirm no longer.
#[test]
fn a_relay_begins_anew_when_its_session_moves_or_its_reader_falls_behind() {
    let mut net = Net::new();
    let nodes = ["ber/1", "fra/1", "par/1"];
    for (n, id) in nodes.iter().enumerate() {
        net.add(id);
        net.start(n, mep_core::Settings { outbox_cap: 5_000, ..settings(&nodes) });
    }
    net.run_until(secs(6), Net::is_meshed);
    net.part(0, 2);
    net.run_until(secs(11), |net| net.status(0, 2).relay.is_some());
    net.run(secs(1));
    let begins = |net: &Net, since| {
        let is_up = |o: &&Output| matches!(o, Output::RelayUp { .. });
        let is_down = |o: &&Output| matches!(o, Output::RelayDown { .. });
        (
            net.outputs_since(0, since).filter(is_up).count(),
            net.outputs_since(0, since).filter(is_down).count(),
        )
    };
    let since = net.now;
    for conn in 0..100 {
        let event = |renew| CarrierEvent::Ageing { conn: ConnId(conn), renew };
        net.mep(1).handle_carrier(since + secs(1_000), event(false));
        net.mep(0).handle_carrier(since, event(true));
    }
    net.run(secs(2));
    assert_eq!(begins(&net, since), (1, 0), "the session moved");
    let since = net.now;
    net.slow.insert((1, 0), 20_000);
    let mut n = 0;
    while net.status(1, 0).resyncs == 0 {
        net.fill(2, n, known(33));
        let now = net.now + secs(2_000);
        net.mep(2).note_rtt(now, ldns(n), true);
        n += 1;
        net.run(Duration::from_micros(100));
        assert!(n < 20_000);
    }
    net.slow.clear();
    net.run(secs(20));
    assert_eq!(begins(&net, since), (1, 0), "it fell behind");
}

fn withdrawn(bodies: &[Body]) -> Vec<u32> {
    let groups = bodies.iter().flat_map(|body| match body {
        Body::Rtts(rows) => rows.groups.clone(),
        _ => Vec::new(),
    });
    groups.filter(|group| group.reach == proto::Reach::Withdrawn as i32).flat_map(|group| group.v4).collect()
}

/// Twenty bytes a frame and four a row: what has been acknowledged is not told again, to a peer of either version.
#[test]
fn only_what_was_not_acknowledged_is_told_again() {
    for minor in [0, 1] {
        let mut group = Group::of(&["fra/1", "par/1"]);
        group.join("fra/1", minor, 1);
        group.wait(secs(10), &Nothing);
        let now = group.now;
        group.mep.note_withdrawn(now, ldns(1));
        let outputs = group.wait(secs(7), &Nothing);
        assert_eq!(withdrawn(&group.told("fra/1", &outputs)), [0x0A00_0002]);
        // This one is sent and never acknowledged.
        let now = group.now;
        group.mep.note_withdrawn(now, ldns(2));
        group.now += ms(10);
        let outputs = group.turn(&Nothing);
        assert_eq!(withdrawn(&group.told("fra/1", &outputs)), [0x0A00_0003]);
        group.age("fra/1");
        group.join("fra/1", minor, 2);
        let outputs = group.wait(secs(20), &Nothing);
        assert!(!outputs.iter().any(|o| matches!(o, Output::PeerDown { .. } | Output::PeerUp { .. })));
        assert_eq!(withdrawn(&group.told("fra/1", &outputs)), [0x0A00_0003], "1.{minor}");
        // Once it has been, the next move tells nothing.
        group.age("fra/1");
        group.join("fra/1", minor, 3);
        let outputs = group.wait(secs(20), &Nothing);
        assert_eq!(withdrawn(&group.told("fra/1", &outputs)), Vec::<u32>::new());
        assert_eq!((group.status("fra/1").sessions, group.status("fra/1").state), (1, PeerState::Up));
    }
}

/// The cap of the tests.
const CAP: u32 = 100_000;

/// A peer that reads nothing does not keep the others' memory, nor theirs of what they read: its session ends, and so does what its
/// words would go on to confirm (faults I-46). Another that reads is told all, in the session it has.
#[test]
fn who_reads_nothing_loses_its_session_when_more_withdrawals_wait_than_the_cap() {
    let mut group = Group::of(&["ber/1", "fra/1", "par/1"]);
    group.join("fra/1", 1, 1);
    group.join("ber/1", 1, 1);
    group.wait(secs(1), &Nothing);
    let mut told = Vec::new();
    let (mut noted, mut downs) = (0, Vec::new());
    while downs.is_empty() {
        for _ in 0..500 {
            let now = group.now;
            group.mep.note_withdrawn(now, ldns(noted));
            noted += 1;
        }
        group.now += ms(20);
        group.acknowledge("ber/1");
        for peer in ["ber/1", "fra/1"] {
            group.take(peer, Body::Keepalive(proto::Keepalive {}));
        }
        let outputs = group.turn(&Nothing);
        told.extend(withdrawn(&group.told("ber/1", &outputs)));
        downs.extend(outputs.into_iter().filter(|output| matches!(output, Output::PeerDown { .. })));
        assert!(noted <= CAP + 500, "{noted} wait");
    }
    let behind = DownReason::Behind(CAP as usize + 1);
    assert_eq!(behind.to_string(), "too far behind: 100001 withdrawals wait");
    assert_eq!(downs, [Output::PeerDown { peer: node("fra/1"), reason: behind }]);
    assert_eq!(group.status("fra/1").downs_by_reason, [("behind", 1)].into());
    // Nothing of it shows at the other: its session stands, and nothing was left out.
    let ber = group.status("ber/1");
    assert_eq!((ber.state, ber.downs, ber.resyncs), (PeerState::Up, 0, 0));
    let now = group.now;
    group.mep.note_withdrawn(now, ldns(noted));
    let outputs = group.wait(secs(7), &Nothing);
    told.extend(withdrawn(&group.told("ber/1", &outputs)));
    assert!(told.iter().copied().eq((0..=noted).map(|n| 0x0A00_0001 + n)), "{} of {noted}", told.len());
    println!(
        "T8: {noted} withdrawals, one of two peers reads: the other's session ended at {CAP}, {} told",
        told.len()
    );
}

/// Many at once, as when the operator excludes half of the table: nobody has had a turn to be told.
#[test]
fn who_has_room_is_waited_for_until_twice_the_cap_waits() {
    let mut group = Group::of(&["fra/1", "par/1"]);
    group.join("fra/1", 1, 1);
    group.wait(secs(1), &Nothing);
    let now = group.now;
    for n in 0..2 * CAP {
        group.mep.note_withdrawn(now, ldns(n));
    }
    let status = group.status("fra/1");
    assert_eq!((status.outbox, status.state), (2 * CAP as usize, PeerState::Up));
    group.mep.note_withdrawn(now, ldns(2 * CAP));
    let status = group.status("fra/1");
    assert_eq!((status.state, status.downs_by_reason), (PeerState::Down, [("behind", 1)].into()));
}
