//! Snapshots asked for: everything once more, in order with what changes, and not as often as somebody likes.

use crate::net::{Net, known, ms, node, secs, settings};
use crate::refusals::{Scene, hello};
use mep_core::carrier::CarrierCommand;
use mep_core::proto::{self, frame::Body};
use mep_core::{Output, PeerState};
use prost::Message;

fn pair() -> Net {
    let mut net = Net::of(&["fra/1", "par/1"]);
    net.run_until(secs(2), |net| net.is_up(0, 1));
    net.run(secs(10));
    net
}

fn syncs(net: &Net, at: usize, since: gslb_types::Timestamp) -> usize {
    net.outputs_since(at, since).filter(|o| matches!(o, Output::Synced { .. })).count()
}

#[test]
fn a_peer_that_is_asked_tells_all_it_knows_once_more() {
    let mut net = pair();
    for n in 0..3_500 {
        net.sight(0, n);
        net.measure(0, n, known(10 + n % 90));
    }
    net.run(secs(7));
    net.hosts[1].table.columns.clear();
    let asked = net.now;
    assert!(net.ask_snapshot(1, 0));
    let took = net.run_until(secs(1), |net| syncs(net, 1, asked) == 1);
    println!("3,500 rows again after {took:?}");
    assert!((0..3_500).all(|n| net.column(1, 0, n) == Some(known(10 + n % 90))));
    net.run(secs(20));
    assert_eq!((syncs(&net, 1, asked), net.status(0, 1).resyncs, net.status(1, 0).downs), (1, 0, 0));
    assert!(net.status(1, 0).snapshot_in.is_some() && net.status(0, 1).snapshot_out.is_some());
}

#[test]
fn who_has_no_session_can_not_be_asked() {
    let mut net = pair();
    net.shutdown(1);
    net.run(ms(50));
    assert!(!net.ask_snapshot(0, 1));
    let now = net.now;
    assert!(!net.mep(0).ask_snapshot(now, &node("xyz/1")));
}

/// Values go out as they are when they are sent, in one order: what a walk tells is never older than what was told before.
#[test]
fn changes_during_a_snapshot_are_not_undone_by_it() {
    let mut net = Net::new();
    for id in ["fra/1", "par/1"] {
        net.add(id);
    }
    for n in 0..20_000 {
        net.fill(0, n, known(10));
    }
    net.start(0, settings(&["fra/1", "par/1"]));
    net.start(1, settings(&["fra/1", "par/1"]));
    net.run_until(secs(3), |net| net.status(1, 0).rows_in >= 20_000);
    net.run(secs(10));
    net.bandwidth = Some(200_000);
    assert!(net.ask_snapshot(1, 0));
    let mut truth = vec![10; 20_000];
    let mut last = vec![0_u32; 20_000];
    for round in 0..200_u32 {
        // Values rise only: a lower one at the reader would be an older one.
        for n in [round * 97 % 20_000, 19_999 - round * 89 % 20_000, 7] {
            truth[n as usize] = 11 + round;
            net.measure(0, n, known(11 + round));
        }
        net.run(ms(50));
        for n in 0..20_000_u32 {
            let Some(gslb_types::Reach::Known(rtt)) = net.column(1, 0, n) else {
                panic!("{n} was withdrawn")
            };
            let millis = rtt.as_micros() / 1000;
            assert!(millis >= last[n as usize], "{n}: {millis} ms after {} ms", last[n as usize]);
            last[n as usize] = millis;
        }
    }
    net.run(secs(10));
    assert!((0..20_000).all(|n| net.column(1, 0, n) == Some(known(truth[n as usize]))));
}

/// The snapshots a node begins in these outputs.
fn begins(outputs: &[Output]) -> usize {
    let begins = outputs.iter().filter(|o| match o {
        Output::Carrier(CarrierCommand::Send { frame, .. }) => {
            matches!(proto::Frame::decode(frame.clone()).unwrap().body, Some(Body::SnapshotBegin(_)))
        }
        _ => false,
    });
    begins.count()
}

#[test]
fn a_peer_that_asks_without_end_gets_one_in_five_seconds() {
    let mut scene = Scene::new().with(proto::Hello { minor: 1, ..hello() });
    let mut begun = begins(&scene.wait(secs(10)));
    for _ in 0..300 {
        begun += begins(&scene.say(Body::SnapshotRequest(proto::SnapshotRequest {})));
        begun += begins(&scene.wait(ms(100)));
    }
    assert!((5..=7).contains(&begun), "{begun} in 30 s");
    assert_eq!((scene.status().state, scene.status().violations), (PeerState::Up, 0));
}
