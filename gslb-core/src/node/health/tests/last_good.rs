//! What is remembered of virtual servers.

use super::*;

/// Faults I-55: told once when the last one goes and once when the first one comes.
#[test]
fn a_virtual_server_without_a_service_is_told_once() {
    let mut h = health();
    assert_eq!(h.take_turned(), []);
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.own_verdict(at(1), A1, Up, "passed");
    h.says(1, "b/1", Up);
    assert_eq!(h.take_turned(), [(0, true)]);
    h.own_verdict(at(2), A1, Down, "refused");
    assert_eq!(h.take_turned(), []);
    h.says(3, "b/1", Down);
    assert_eq!((h.take_turned(), h.take_turned()), (vec![(0, false)], vec![]));
}

/// Behaviour 6, `last_good`: the IPv6 service that is up says nothing about which IPv4 service was last.
#[test]
fn each_address_family_remembers_who_was_up_last() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.own_verdict(at(1), A1, Up, "passed");
    h.says(1, "b/1", Down);
    h.own_verdict(at(2), A6, Up, "passed");
    h.own_verdict(at(3), A1, Down, "refused");
    let last_good = h.last_good()[0].clone();
    assert_eq!(last_good, [true, false, true]);
}

#[test]
fn who_was_up_last_is_remembered_when_all_are_down() {
    let mut h = health();
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.own_verdict(at(1), A1, Down, "refused");
    h.says(2, "b/1", Up);
    h.says(3, "b/1", Down);
    assert_eq!(h.last_good()[0][..2], [false, true]);
}

/// A service bound to two virtual servers was good for each at another time.
#[test]
fn each_virtual_server_remembers_its_own_who_was_up_last() {
    let more = "[[vservers]]\nname = \"two\"\nservices = [\"a1\", \"a6\"]\n";
    let mut h = read(&(group() + more));
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.own_verdict(at(1), A1, Up, "passed");
    h.says(1, "b/1", Up);
    h.own_verdict(at(2), A1, Down, "refused");
    h.says(3, "b/1", Down);
    // Of www b1 was up last; of two it was a1.
    assert_eq!(h.last_good(), [vec![false, true, false], vec![true, false]]);
}
