//! What nodes say of services, and whose word counts.

use super::*;

#[test]
fn at_the_start_nothing_is_taken_for_up_but_what_nobody_checks() {
    assert_eq!(health().states(), [Learning, Up, Learning, Disabled, Learning]);
}

#[test]
fn the_word_of_its_site_decides() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    assert_eq!(h.says(1, "b/1", Up), Up);
    assert_eq!(h.says(2, "b/1", Down), Down);
    assert_eq!(h.take_changes().len(), 2);
    assert_eq!(h.says(3, "b/1", Down), Down);
    assert_eq!(h.take_changes(), []);
}

/// Threat T8: a peer speaks for its own site only.
#[test]
fn the_word_of_another_site_does_not() {
    let mut h = health();
    h.hears(1, "b/1", A1, Down, None, false);
    h.own_verdict(at(1), A1, Up, "all monitors pass");
    h.hears(2, "b/1", A1, Down, None, false);
    h.hears(2, "a/1", B1, Up, None, false);
    assert_eq!((h.services[A1].state, h.services[B1].state), (Up, Learning));
}

#[test]
fn one_node_of_a_site_that_sees_it_up_is_enough() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.peer_up(at(0), site_b(), &node("b/2"));
    assert_eq!(h.says(1, "b/1", Up), Up);
    assert_eq!(h.says(2, "b/2", Down), Up);
    assert_eq!(h.says(3, "b/1", Down), Down);
}

/// Behaviour 4: peers keep their last word while a node that has just started is learning.
#[test]
fn a_node_that_learns_does_not_take_back_its_last_word() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    h.peer_down(at(20), site_b(), &node("b/1"));
    h.peer_up(at(21), site_b(), &node("b/1"));
    assert_eq!(h.says(22, "b/1", Learning), Up);
    assert_eq!(h.says(35, "b/1", Learning), Up);
    assert_eq!(h.says(36, "b/1", Learning), Learning, "its checker never reports");
}

/// Behaviour 4: a node that has just been started and has not checked anything yet knows less than its neighbour.
#[test]
fn a_node_that_learns_does_not_outvote_one_that_has_checked() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.peer_up(at(0), site_b(), &node("b/2"));
    h.hears(1, "b/1", B1, Down, Some(Rtt::from_micros(7)), false);
    assert_eq!(h.says(2, "b/2", Learning), Down);
    assert_eq!(h.services[B1].response_time, Some(Rtt::from_micros(7)));
}

/// All nodes decide alike, whoever spoke last.
#[test]
fn the_response_time_of_a_site_is_the_mean_of_its_nodes_that_see_it_up() {
    let us = |n| Some(Rtt::from_micros(n));
    let mut h = health();
    for peer in ["b/1", "b/2"] {
        h.peer_up(at(0), site_b(), &node(peer));
    }
    h.hears(1, "b/1", B1, Up, us(100), false);
    h.hears(2, "b/2", B1, Up, us(300), false);
    assert_eq!(h.services[B1].response_time, us(200));
    h.hears(3, "b/1", B1, Up, us(100), false);
    assert_eq!(h.services[B1].response_time, us(200), "it spoke last");
    h.hears(4, "b/2", B1, Down, us(900), false);
    assert_eq!(h.services[B1].response_time, us(100), "it sees it down");
    h.hears(5, "b/2", B1, Up, None, false);
    assert_eq!(h.services[B1].response_time, us(100), "it measures nothing");
    h.hears(6, "b/2", B1, Up, us(300), false);
    h.peer_down(at(7), site_b(), &node("b/2"));
    h.hears(8, "b/1", B1, Up, us(100), false);
    h.runs_until(30);
    h.hears(31, "b/1", B1, Up, us(100), false);
    assert_eq!(h.services[B1].response_time, us(100), "it is gone");
}

#[test]
fn the_nodes_of_the_site_itself_take_the_same_mean() {
    let us = |n| Some(Rtt::from_micros(n));
    let mut h = health();
    h.peer_up(at(0), site_a(), &node("a/2"));
    h.own_verdict(at(1), A1, Up, "all monitors pass");
    h.own_response_time(at(1), A1, us(100));
    h.hears(2, "a/2", A1, Up, us(300), false);
    assert_eq!(h.services[A1].response_time, us(200));
    assert_eq!(h.own(A1), Some((Up, us(100))), "this is what it tells others, and its own data plane");
    h.own_verdict(at(3), A1, Down, "refused");
    assert_eq!((h.services[A1].state, h.services[A1].response_time), (Up, us(300)));
}

/// Why it is down is news although it stays so.
#[test]
fn the_reason_is_the_latest() {
    let mut h = health();
    h.own_verdict(at(1), A1, Down, "refused");
    h.own_verdict(at(2), A1, Down, "no answer within 2s");
    assert_eq!((h.services[A1].reason.as_str(), h.services[A1].since), ("no answer within 2s", at(1)));
}

/// Faults I-57: who knew, and knows no longer in the same session, has lost its checker.
#[test]
fn a_node_that_lost_its_checker_is_believed() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.says(1, "b/1", Up);
    assert_eq!(h.says(2, "b/1", Learning), Learning);
    assert_eq!(h.says(3, "b/1", Up), Up);
}

/// A mismatch of configurations must not stick.
#[test]
fn what_its_site_calls_disabled_comes_back_when_it_no_longer_does() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    assert_eq!(h.says(1, "b/1", Disabled), Disabled);
    assert_eq!(h.says(2, "b/1", Up), Up);
    h.hears(3, "b/1", OFF, Up, None, false);
    assert_eq!(h.services[OFF].state, Disabled, "this one is disabled here as well");
}

/// The word of a node that is gone stands as long as that of a site that is.
#[test]
fn of_two_nodes_the_one_that_is_gone_is_forgotten_after_the_delay() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.peer_up(at(0), site_b(), &node("b/2"));
    h.says(1, "b/1", Up);
    h.says(1, "b/2", Down);
    h.peer_down(at(100), site_b(), &node("b/1"));
    assert_eq!((h.says(101, "b/2", Down), h.runs_until(114), h.runs_until(115)), (Up, Up, Down));
}

/// All nodes of the group answer alike: what the other sites take for up, the site's own nodes do, too.
#[test]
fn a_service_of_this_site_is_up_while_a_neighbour_sees_it_up() {
    let mut h = health();
    h.peer_up(at(0), site_a(), &node("a/2"));
    h.hears(1, "a/2", A1, Up, None, false);
    assert_eq!((h.services[A1].state, h.services[A1].judge), (Up, Judge::SiteWord), "before the first check");
    h.own_verdict(at(2), A1, Down, "refused");
    assert_eq!(h.services[A1].state, Up);
    assert_eq!(h.services[A1].own.as_ref().map(|own| own.state), Some(Down), "this is what it tells others");
    h.hears(3, "a/2", A1, Down, None, false);
    assert_eq!((h.services[A1].state, h.services[A1].judge), (Down, Judge::OwnMonitors));
}

#[test]
fn the_word_of_a_neighbour_that_is_gone_stands_for_the_delay() {
    let mut h = health();
    h.peer_up(at(0), site_a(), &node("a/2"));
    h.own_verdict(at(1), A1, Down, "refused");
    h.hears(1, "a/2", A1, Up, None, false);
    h.peer_down(at(100), site_a(), &node("a/2"));
    h.runs_until(114);
    assert_eq!(h.services[A1].state, Up);
    h.runs_until(115);
    assert_eq!(h.services[A1].state, Down);
    assert_eq!(h.contact(site_a()).unwrap().silent_since(), None, "a site is not silent to itself");
}
