//! What the silence of a site does, and its end.

use super::*;

/// Faults I-43: a glitch shorter than the delay changes nothing.
#[test]
fn a_silent_site_is_down_after_the_delay_and_not_before() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    assert_eq!(h.poll_timeout(), Some(at(115)));
    h.handle_timeout(at(114));
    assert_eq!(h.services[B1].state, Up);
    h.handle_timeout(at(115));
    assert_eq!((h.services[B1].state, h.services[OFF].state), (Down, Disabled));
    assert_eq!(h.services[B1].reason, "no word from site b for 15s");
}

#[test]
fn a_session_that_comes_back_in_time_stops_the_clock() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    h.peer_up(at(0), site_b(), &node("b/1"));
    assert_eq!(h.poll_timeout(), None);
}

#[test]
fn a_site_is_silent_only_when_all_its_nodes_are() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.peer_up(at(0), site_b(), &node("b/2"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    h.handle_timeout(at(119));
    assert_eq!((h.services[B1].state, h.silent_since()), (Up, None));
    h.peer_down(at(120), site_b(), &node("b/2"));
    assert_eq!((h.poll_timeout(), h.silent_since()), (Some(at(135)), Some(at(120))));
}

#[test]
fn a_site_never_heard_is_down_after_the_delay() {
    let mut h = health();
    h.handle_timeout(at(15));
    assert_eq!(h.services[B1].state, Down);
}

/// Faults I-43: under a flapping link an answer changes at most once per hold time.
#[test]
fn a_site_that_was_taken_down_is_held_down_for_the_delay() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    assert_eq!(h.runs_until(115), Down);
    h.peer_up(at(120), site_b(), &node("b/1"));
    assert_eq!(h.says(121, "b/1", Up), Down);
    assert_eq!((h.contact(site_b()).unwrap().held_until(), h.silent_since()), (Some(at(130)), None));
    assert_eq!((h.runs_until(129), h.runs_until(130)), (Down, Up));
    assert_eq!(h.contact(site_b()).unwrap().held_until(), None);
}

#[test]
fn a_site_that_falls_silent_in_its_hold_stays_down() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(100), site_b(), &node("b/1"));
    h.runs_until(115);
    h.peer_up(at(120), site_b(), &node("b/1"));
    h.says(121, "b/1", Up);
    h.peer_down(at(125), site_b(), &node("b/1"));
    assert_eq!(h.runs_until(500), Down);
    h.peer_up(at(501), site_b(), &node("b/1"));
    assert_eq!(h.says(502, "b/1", Up), Up, "the hold is long over");
}

/// Each change of a square wave is at least the delay after the one before, whatever its period.
#[test]
fn no_square_wave_moves_an_answer_more_than_once_per_hold_time() {
    for period in 1..60_u64 {
        let mut h = health();
        let mut changed: Vec<u64> = Vec::new();
        let mut state = Learning;
        for second in 0..600 {
            if second % period == 0 {
                match second / period % 2 {
                    0 => h.peer_up(at(second), site_b(), &node("b/1")),
                    _ => h.peer_down(at(second), site_b(), &node("b/1")),
                }
            }
            if second / period % 2 == 0 {
                h.says(second, "b/1", Up);
            }
            let after = h.runs_until(second);
            if after != state {
                changed.push(second);
            }
            state = after;
        }
        assert!(changed.windows(2).all(|w| w[1] - w[0] >= 15), "period {period}: {changed:?}");
        assert_eq!(changed.len() > 1, period > 15, "period {period}: {changed:?}");
    }
}

#[test]
fn a_site_heard_for_the_first_time_is_not_held() {
    let mut h = health();
    assert_eq!(h.runs_until(15), Down);
    h.peer_up(at(16), site_b(), &node("b/1"));
    assert_eq!(h.says(16, "b/1", Up), Up);
}
