//! Quiet peers, and the record of what state a peer was in and why.

use crate::net::{Net, ms, node, secs, settings};
use crate::refusals::{Scene, hello};
use gslb_types::Timestamp;
use mep_core::carrier::{CarrierEvent, ConnId};
use mep_core::proto::{self, frame::Body};
use mep_core::{MOST_TRANSITIONS, Output, PeerState, Transition};
use prost::Message;

fn pair() -> Net {
    let mut net = Net::of(&["fra/1", "par/1"]);
    net.run_until(secs(2), |net| net.is_up(0, 1));
    net.run(secs(40));
    net
}

fn ends(net: &Net, at: usize, since: Timestamp) -> usize {
    net.outputs_since(at, since).filter(|o| matches!(o, Output::PeerDown { .. })).count()
}

#[test]
fn a_peer_quiet_for_half_the_keepalive_is_suspect_and_its_next_word_makes_it_up() {
    let mut net = pair();
    let cut = net.now;
    net.part(0, 1);
    let took = net.run_until(ms(5_020), |net| net.status(0, 1).state == PeerState::Suspect);
    println!("suspect after {took:?}");
    let status = net.status(0, 1);
    assert_eq!((status.state.as_str(), status.reason.as_str()), ("suspect", "no word for 5s"));
    net.run(secs(2));
    net.heal();
    net.run_until(ms(30), |net| net.is_up(0, 1));
    assert_eq!(net.status(0, 1).reason, "heard again, both ways");
    assert_eq!((ends(&net, 0, cut), ends(&net, 1, cut), net.status(0, 1).downs), (0, 0, 0));
}

#[test]
fn a_peer_whose_words_come_in_time_is_never_suspect() {
    let mut net = pair();
    net.run(secs(600));
    let is_suspect = |t: &Transition| t.to == PeerState::Suspect;
    assert!(!net.status(0, 1).transitions.iter().chain(net.status(1, 0).transitions.iter()).any(is_suspect));
}

/// Faults I-45: both ends see a loss of one direction long before it ends the session.
#[test]
fn a_one_way_loss_makes_both_ends_suspect_the_other() {
    let mut net = pair();
    net.cuts.insert((1, 0));
    net.run_until(ms(5_020), |net| net.status(0, 1).state == PeerState::Suspect);
    net.run_until(secs(4), |net| net.status(1, 0).state == PeerState::Suspect);
    assert_eq!(net.status(0, 1).reason, "no word for 5s");
    let unheard = net.status(1, 0);
    assert!(unheard.reason.starts_with("it has not heard this node for"), "{}", unheard.reason);
    assert_eq!((net.status(0, 1).downs, unheard.downs), (0, 0));
}

/// Whoever shows the state of peers does not wait for its next look.
#[test]
fn a_session_in_doubt_is_told_at_once_and_so_is_the_end_of_the_doubt() {
    let mut net = pair();
    let cut = net.now;
    net.part(0, 1);
    net.run_until(ms(5_020), |net| net.status(0, 1).state == PeerState::Suspect);
    net.heal();
    net.run_until(ms(30), |net| net.is_up(0, 1));
    let turns: Vec<(Timestamp, PeerState)> = net.hosts[0]
        .outputs
        .iter()
        .filter(|(at, _)| *at >= cut)
        .filter_map(|(at, output)| match output {
            Output::PeerTurned { peer, state } if *peer == node("par/1") => Some((*at, *state)),
            _ => None,
        })
        .collect();
    let at: Vec<Timestamp> = net.status(0, 1).transitions.iter().skip(1).map(|t| t.at).collect();
    assert_eq!(turns, [(at[0], PeerState::Suspect), (at[1], PeerState::Up)]);
}

#[test]
fn a_suspect_peer_counts_as_one_with_a_session() {
    let mut net = pair();
    net.part(0, 1);
    net.run_until(secs(6), |net| net.status(0, 1).state == PeerState::Suspect);
    assert!(net.status(0, 1).state.has_session());
    assert!(net.mep(0).is_up(&node("par/1")));
    net.run_until(secs(6), |net| net.status(0, 1).state == PeerState::Down);
    assert!(!net.mep(0).is_up(&node("par/1")));
}

/// Reason and state of every change, from the first on.
fn steps(net: &Net, at: usize, of: usize) -> Vec<(&'static str, PeerState, PeerState)> {
    net.status(at, of).transitions.iter().map(|t| (t.kind, t.from, t.to)).collect()
}

#[test]
fn changes_of_state_are_kept_with_their_reasons() {
    use PeerState::{Connecting, Down, Suspect, Up};
    let mut net = pair();
    net.part(0, 1);
    net.run(secs(15));
    net.heal();
    net.run_until(secs(15), |net| net.is_up(0, 1));
    net.shutdown(1);
    net.run(ms(20));
    let expected = [
        ("established", Connecting, Up),
        ("quiet", Up, Suspect),
        ("silent", Suspect, Down),
        ("established", Down, Up),
        ("goodbye", Up, Down),
    ];
    assert_eq!(steps(&net, 0, 1), expected);
    let status = net.status(0, 1);
    let last = status.transitions.back().unwrap();
    assert_eq!((last.reason.as_str(), last.number), ("peer closed: the node stops", 5));
    assert_eq!(status.downs_by_reason.into_iter().collect::<Vec<_>>(), [("goodbye", 1), ("silent", 1)]);
    let turns =
        [((Up, "established"), 2), ((Suspect, "quiet"), 1), ((Down, "goodbye"), 1), ((Down, "silent"), 1)];
    assert_eq!(status.turns.into_iter().collect::<Vec<_>>(), turns);
}

#[test]
fn the_last_changes_are_kept_and_their_numbers_rise_over_all_peers() {
    let mut net = Net::of(&["ber/1", "fra/1", "par/1"]);
    net.run_until(secs(5), Net::is_meshed);
    for _ in 0..30 {
        net.part(0, 1);
        net.run(secs(7));
        net.heal();
        net.run(secs(2));
    }
    let (fra, par) = (net.status(0, 1), net.status(0, 2));
    assert_eq!((fra.transitions.len(), par.transitions.len()), (MOST_TRANSITIONS, 1));
    let numbers: Vec<u64> = fra.transitions.iter().map(|t| t.number).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    assert!(!numbers.contains(&par.transitions[0].number));
    // The totals forget none. Of the words that come late some say how long ago this node was heard when they were sent.
    let turns = [
        ((PeerState::Up, "established"), 1),
        ((PeerState::Up, "heard"), 60),
        ((PeerState::Suspect, "not_heard"), 30),
        ((PeerState::Suspect, "quiet"), 30),
    ];
    assert_eq!(fra.turns.into_iter().collect::<Vec<_>>(), turns);
    assert!(numbers.last() > Some(&60), "{numbers:?}");
}

fn kinds(scene: &Scene) -> Vec<(&'static str, u64)> {
    scene.status().downs_by_reason.into_iter().collect()
}

#[test]
fn every_way_to_lose_a_session_is_counted_by_its_kind() {
    let mut scene = Scene::up();
    scene.wait(secs(1));
    scene.now += secs(10);
    scene.turn();
    assert_eq!(kinds(&scene), [("silent", 1)]);

    let mut scene = Scene::up();
    let body = Some(Body::Keepalive(proto::Keepalive {}));
    scene.frame(proto::Frame { seq: 2, ack: 0, heard_ms: Some(10_000), body }.encode_to_vec());
    assert_eq!(kinds(&scene), [("not_heard", 1)]);

    let mut scene = Scene::up();
    scene.event(CarrierEvent::Closed { conn: ConnId(1), reason: "reset".to_owned() });
    assert_eq!(kinds(&scene), [("closed", 1)]);

    for (boot, kind) in [(78, "restarted"), (77, "superseded")] {
        let mut scene = Scene::up();
        scene.conn = ConnId(2);
        scene.connect("fra/1");
        scene.say(Body::Hello(proto::Hello { boot, number: 2, ..hello() }));
        assert_eq!(kinds(&scene), [(kind, 1)]);
        assert_eq!(scene.status().state, PeerState::Up);
    }

    let mut scene = Scene::up();
    scene.seq = 7;
    scene.say(Body::Keepalive(proto::Keepalive {}));
    assert_eq!(kinds(&scene), [("misbehaved", 1)]);

    let mut scene = Scene::up();
    let now = scene.now;
    scene.mep.shutdown(now);
    assert_eq!(kinds(&scene), [("shutdown", 1)]);
}

#[test]
fn a_process_that_starts_anew_is_up_at_once_and_no_state_is_left_out() {
    let mut net = pair();
    net.kill(1);
    net.start(1, settings(&["fra/1", "par/1"]));
    net.run_until(secs(3), |net| net.is_up(0, 1) && net.status(0, 1).sessions == 2);
    let states: Vec<PeerState> = net.status(0, 1).transitions.iter().map(|t| t.to).collect();
    assert_eq!(states, [PeerState::Up, PeerState::Down, PeerState::Up]);
}
