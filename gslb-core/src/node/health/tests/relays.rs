//! Sites that are heard by way of another.

use super::*;

fn relayed(h: &mut Health, now: u64, state: ServiceState) -> ServiceState {
    h.hears(now, "b/1", B1, state, None, true);
    h.services[B1].state
}

/// Faults I-45: a site that another hears is not down.
#[test]
fn a_relay_in_time_stops_the_clock_and_its_words_count() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    h.relay_up(at(102), site_b(), &node("c/1"));
    assert_eq!((h.runs_until(400), h.silent_since()), (Up, None));
    assert_eq!(relayed(&mut h, 401, Down), Down);
    assert_eq!(h.services[B1].reason, "said by b/1, relayed by c/1");
    assert_eq!(relayed(&mut h, 402, Up), Up);
    h.relay_down(at(500), site_b());
    assert_eq!((h.runs_until(514), h.runs_until(515)), (Up, Down));
}

#[test]
fn a_relay_brings_a_site_back_after_the_hold() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    h.runs_until(115);
    h.relay_up(at(118), site_b(), &node("c/1"));
    assert_eq!(relayed(&mut h, 118, Up), Down);
    assert_eq!((h.runs_until(129), h.runs_until(130)), (Down, Up));
}

#[test]
fn a_relay_of_a_node_that_was_just_started_does_not_take_back_its_last_word() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    h.relay_up(at(101), site_b(), &node("c/1"));
    assert_eq!((relayed(&mut h, 102, Learning), relayed(&mut h, 115, Learning)), (Up, Up));
    assert_eq!(relayed(&mut h, 117, Learning), Learning);
}

/// The same by way of a relay, which does not say that it has lost one of the two.
#[test]
fn of_two_relayed_nodes_the_one_that_is_spoken_of_no_longer_is_forgotten() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.peer_down(at(100), site_b(), &node("b/1"));
    h.relay_up(at(101), site_b(), &node("c/1"));
    let said = |h: &mut Health, now: u64, node_: &str, state| {
        h.hears(now, node_, B1, state, None, true);
        h.runs_until(now)
    };
    said(&mut h, 102, "b/1", Up);
    let states: Vec<ServiceState> = (103..125).map(|now| said(&mut h, now, "b/2", Down)).collect();
    // 15 s, and three times the metrics interval.
    let stood = states.iter().filter(|state| **state == Up).count();
    assert_eq!((stood, states.last()), (17, Some(&Down)), "{states:?}");
}
