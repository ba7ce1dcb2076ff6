//! Silence, one-way loss, goodbye, coming back.

use crate::net::{Net, known, ms, node, secs, settings};
use gslb_types::Timestamp;
use mep_core::{DownReason, Output, PeerState};
use std::time::Duration;

fn pair() -> Net {
    let mut net = Net::of(&["fra/1", "par/1"]);
    net.run_until(secs(2), |net| net.is_up(0, 1));
    net.run(secs(40));
    net
}

fn down(net: &Net, at: usize, since: Timestamp) -> Option<DownReason> {
    net.outputs_since(at, since).find_map(|o| match o {
        Output::PeerDown { reason, .. } => Some(reason.clone()),
        _ => None,
    })
}

/// Faults I-44: nothing is being sent, nothing breaks, and still it is noticed.
#[test]
fn a_silent_peer_is_down_after_the_keepalive_and_not_before() {
    let mut net = pair();
    let cut = net.now;
    net.cuts.extend([(0, 1), (1, 0)]);
    net.run(ms(6_500));
    assert_eq!((down(&net, 0, cut), down(&net, 1, cut)), (None, None));
    net.run(ms(3_600));
    assert_eq!(down(&net, 0, cut), Some(DownReason::Silent(secs(10))));
    assert_eq!(down(&net, 1, cut), Some(DownReason::Silent(secs(10))));
    assert_eq!(net.status(0, 1).reason, "no word for 10s");
    net.run(secs(20));
    assert_eq!(net.status(0, 1).reason, "no word for 10s", "dials that fail do not hide why it is down");
    assert_eq!(net.status(0, 1).last_attempt.as_deref(), Some("dial failed: timed out"));
}

#[test]
fn a_peer_that_died_is_down_within_the_keepalive_whatever_the_intervals() {
    for keepalive in [1, 3, 10] {
        let mut net = Net::new();
        net.add("fra/1");
        net.add("par/1");
        for n in 0..2 {
            let mut patient = settings(&["fra/1", "par/1"]);
            patient.metrics_interval = secs(1000);
            patient.keepalive = secs(keepalive);
            net.start(n, patient);
        }
        net.run_until(secs(2), |net| net.is_up(0, 1));
        net.run(secs(100));
        assert_eq!((net.is_up(0, 1), net.status(0, 1).downs), (true, 0));
        net.kill(1);
        let took = net.run_until(secs(keepalive) + ms(20), |net| net.status(0, 1).state == PeerState::Down);
        println!("keepalive {keepalive} s: down after {took:?}");
    }
}

#[test]
fn words_are_as_frequent_as_the_less_patient_end_needs_them() {
    let mut net = Net::new();
    net.add("fra/1");
    net.add("par/1");
    for (n, keepalive) in [(0, 60), (1, 2)] {
        let mut uneven = settings(&["fra/1", "par/1"]);
        uneven.keepalive = secs(keepalive);
        net.start(n, uneven);
    }
    net.run_until(secs(2), |net| net.is_up(0, 1));
    net.run(secs(60));
    assert_eq!((net.is_up(0, 1), net.status(1, 0).downs), (true, 0));
}

/// Faults I-45: only one direction is lost. Who hears nothing closes; the other sees that it is not heard, and that this is why.
#[test]
fn a_one_way_loss_shows_at_both_ends() {
    let mut net = pair();
    let cut = net.now;
    net.cuts.insert((1, 0));
    net.run(ms(6_500));
    assert_eq!((down(&net, 0, cut), down(&net, 1, cut)), (None, None));
    let unheard = net.status(1, 0).hears_us.unwrap();
    assert!(unheard >= ms(3_200), "par is told that fra has not heard it for {unheard:?}");
    net.run(ms(3_600));
    assert_eq!(down(&net, 0, cut), Some(DownReason::Silent(secs(10))));
    let Some(DownReason::NotHeard(span)) = down(&net, 1, cut) else { panic!("{:?}", down(&net, 1, cut)) };
    println!("par is down after {span:?} in which fra has not heard it");
    assert!(span >= ms(9_990) && span <= ms(10_030), "{span:?}");
    net.run(secs(60));
    assert_eq!((net.status(0, 1).sessions, net.status(1, 0).sessions), (1, 1), "no flip-flop");
}

/// A carrier that waits for acknowledgements falls silent in the other direction, too, after a while, and its close is lost:
/// the words that came until then are enough to know that it was our direction that broke first.
#[test]
fn the_end_that_is_not_heard_says_so_although_the_close_of_the_other_is_lost() {
    let mut net = pair();
    net.cuts.insert((1, 0));
    let unheard = net.status(0, 1).last_word.unwrap();
    net.run_until(ms(8_400), |net| net.status(1, 0).state == PeerState::Suspect);
    let suspect = net.now.since(unheard);
    assert_eq!(net.status(1, 0).transitions.back().unwrap().kind, "not_heard");
    net.run(ms(500));
    net.cuts.insert((0, 1));
    net.run_until(secs(12), |net| net.status(1, 0).state == PeerState::Down);
    let took = net.now.since(unheard);
    println!("par is suspect after {suspect:?} and down after {took:?}");
    assert!(suspect >= secs(5) && suspect <= ms(8_400), "{suspect:?}");
    assert!(took >= secs(10) && took <= ms(11_300), "{took:?}");
    assert_eq!(net.status(1, 0).downs_by_reason.into_iter().collect::<Vec<_>>(), [("not_heard", 1)]);
    assert_eq!(net.status(0, 1).downs_by_reason.into_iter().collect::<Vec<_>>(), [("silent", 1)]);
}

/// Both directions at once: nobody says that he does not hear, since nobody is heard.
#[test]
fn a_cut_of_both_directions_is_silence_at_both_ends() {
    for wait in 0..20 {
        let mut net = pair();
        net.run(ms(wait * 170));
        net.part(0, 1);
        net.run(secs(12));
        for (at, of) in [(0, 1), (1, 0)] {
            let reasons = net.status(at, of).downs_by_reason;
            assert_eq!(reasons.into_iter().collect::<Vec<_>>(), [("silent", 1)], "{wait}");
        }
    }
}

/// One direction is lost for less than the keepalive: the words after it clear the doubt.
#[test]
fn a_one_way_glitch_shorter_than_the_keepalive_changes_nothing() {
    // The last word before it came up to 3.3 s earlier.
    for length in [5_000, 6_000, 6_600] {
        let mut net = pair();
        let cut = net.now;
        net.cuts.insert((1, 0));
        net.run(ms(length));
        net.heal();
        net.run(secs(20));
        assert_eq!((down(&net, 0, cut), down(&net, 1, cut)), (None, None), "{length} ms");
    }
}

#[test]
fn a_glitch_shorter_than_the_keepalive_changes_nothing() {
    let mut net = pair();
    let cut = net.now;
    net.sight(0, 1);
    net.cuts.extend([(0, 1), (1, 0)]);
    net.measure(0, 1, known(27));
    net.run(secs(3));
    net.heal();
    net.run(secs(10));
    assert_eq!((down(&net, 0, cut), down(&net, 1, cut)), (None, None));
    assert_eq!(net.column(1, 0, 1), Some(known(27)));
}

#[test]
fn after_a_cut_everything_is_told_again_within_seconds() {
    let mut worst = Duration::ZERO;
    for _ in 0..5 {
        let mut net = pair();
        net.sight(0, 1);
        net.measure(0, 1, known(27));
        net.run(secs(1));
        net.cuts.extend([(0, 1), (1, 0)]);
        net.run(secs(60));
        net.measure(0, 1, known(50));
        net.heal();
        worst = worst.max(net.run_until(secs(15), |net| net.column(1, 0, 1) == Some(known(50))));
    }
    println!("at most {worst:?} after healing");
}

#[test]
fn a_goodbye_is_down_at_once() {
    let mut net = pair();
    let stopped = net.now;
    net.shutdown(1);
    net.run(ms(11));
    assert_eq!(down(&net, 0, stopped), Some(DownReason::Goodbye("the node stops".to_owned())));
    assert_eq!(net.status(0, 1).reason, "peer closed: the node stops");
    net.start(1, settings(&["fra/1", "par/1"]));
    let took = net.run_until(secs(2), |net| net.is_up(0, 1));
    println!("back after {took:?}");
}

#[test]
fn a_machine_that_was_shut_down_does_nothing_more() {
    let mut net = pair();
    let now = net.now;
    let mep = net.mep(0);
    mep.shutdown(now);
    while mep.poll_output().is_some() {}
    assert_eq!(mep.poll_timeout(), None);
    mep.note_sighting(now, crate::net::address(1), Duration::ZERO, true);
    mep.set_metrics(now, vec![]);
    assert_eq!((mep.poll_timeout(), mep.poll_output()), (None, None));
    assert!(!mep.is_up(&node("par/1")));
}

#[test]
fn other_pairs_go_on_undisturbed() {
    let mut net = Net::of(&["ber/1", "fra/1", "par/1"]);
    net.run_until(secs(5), |net| net.is_up(0, 1) && net.is_up(0, 2) && net.is_up(1, 2));
    net.cuts.extend([(0, 1), (1, 0)]);
    net.run(secs(60));
    assert!(!net.is_up(0, 1) && net.is_up(0, 2) && net.is_up(1, 2));
    assert_eq!((net.status(0, 2).downs, net.status(1, 2).downs), (0, 0));
}
