//! Persistence sessions: those of the whole group, at every node, within bounds.

use crate::net::{Net, secs};
use std::time::Duration;

const NODES: [&str; 3] = ["a/1", "b/1", "c/1"];

fn group() -> Net {
    let mut net = Net::of(&NODES, "");
    net.run(secs(10));
    net
}

#[test]
fn persistence_sessions_are_those_of_the_whole_group() {
    let mut net = group();
    net.use_session("a/1", 1, "web-a");
    net.use_session("b/1", 2, "web-b");
    net.run(secs(6));
    net.use_session("c/1", 1, "web-c");
    net.run(secs(6));
    for node in NODES {
        assert_eq!(net.session(node, 1).as_deref(), Some("web-c"), "{node}: the newest use wins");
        assert_eq!(net.session(node, 2).as_deref(), Some("web-b"), "{node}");
    }
    // A node that comes later gets them with the snapshot.
    net.restart("b/1");
    net.run(secs(20));
    assert_eq!(net.session("b/1", 1).as_deref(), Some("web-c"));
    net.run(secs(120));
    assert!(NODES.iter().all(|node| net.session(node, 1).is_none() && net.published(node).persistence == 0));
}

/// Behaviour 6: the same site at every node, also after the first node's death; here of one that was cut off from another until
/// then.
#[test]
fn a_session_survives_its_node_where_that_was_not_heard() {
    let mut net = group();
    net.cut("a/1", "c/1");
    net.run(secs(12));
    net.use_session("a/1", 1, "web-a");
    net.run(secs(6));
    assert_eq!((net.session("b/1", 1).as_deref(), net.session("c/1", 1)), (Some("web-a"), None));
    net.kill("a/1");
    net.run(secs(11 + 6));
    assert_eq!(net.session("c/1", 1).as_deref(), Some("web-a"), "b/1 has told it on");
}

/// Behaviour 4: told every 5 s.
#[test]
fn a_use_is_told_five_seconds_later_together_with_all_others() {
    let mut net = group();
    net.use_session("a/1", 1, "web-a");
    net.run(secs(3));
    net.use_session("a/1", 2, "web-a");
    net.run(Duration::from_millis(1990));
    assert_eq!((net.session("b/1", 1), net.session("b/1", 2)), (None, None));
    net.run(Duration::from_millis(30));
    for node in ["b/1", "c/1"] {
        for n in [1, 2] {
            assert_eq!(net.session(node, n).as_deref(), Some("web-a"), "{node} {n}");
        }
    }
}

#[test]
fn a_session_that_leads_to_no_service_is_not_kept() {
    let mut net = group();
    net.use_session("a/1", 1, "web-x");
    net.run(secs(6));
    assert!(NODES.iter().all(|node| net.session(node, 1).is_none()));
}

/// Threat T8: the table is bounded at every node, and what others used stays.
#[test]
fn a_node_with_more_sessions_than_fit_pushes_out_its_own() {
    const FLOOD: u32 = 110_000;
    let mut net = group();
    for n in 0..100 {
        net.use_session("a/1", n, "web-a");
    }
    net.run(secs(6));
    for n in 1000..1000 + FLOOD {
        net.use_session("b/1", n, "web-b");
    }
    net.run(secs(20));
    for node in NODES {
        let kept = (0..100).filter(|n| net.session(node, *n).is_some()).count();
        let known = net.published(node).persistence;
        println!("T8: {FLOOD} sessions of b/1: {node} has {known}, of those of a/1 {kept} of 100");
        assert_eq!((known, kept), (100_000, 100), "{node}");
    }
}
