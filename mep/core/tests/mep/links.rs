//! Who hears whom, told to everybody.

use crate::net::{Net, ms, node, secs};
use crate::refusals::{Scene, hello};
use mep_core::proto::{self, frame::Body};
use mep_core::{LinkStatus, PeerState};
use prost::Message;
use std::time::Duration;

fn trio() -> Net {
    let mut net = Net::of(&["ber/1", "fra/1", "par/1"]);
    net.run_until(secs(5), Net::is_meshed);
    net.run(secs(10));
    net
}

/// How one node says that its link to another stands, as a third knows it.
fn link(net: &Net, at: usize, of: usize, to: usize) -> LinkStatus {
    let to = net.hosts[to].id.clone();
    net.status(at, of).links.iter().find(|link| link.peer == to).unwrap().clone()
}

#[test]
fn every_node_knows_every_link_and_how_old_that_is() {
    let mut net = trio();
    for _ in 0..20 {
        net.run(ms(1_777));
        for at in 0..3 {
            for of in (0..3).filter(|of| *of != at) {
                let to = 3 - at - of;
                let seen = link(&net, at, of, to);
                assert_eq!(seen.state, PeerState::Up);
                let at_sight = net.status(at, of).links_at.unwrap();
                let since = (net.now + Duration::from_secs(1000 * at as u64)).since(at_sight);
                assert!(since <= ms(3_350), "told {since:?} ago");
                assert!(seen.word_age.unwrap() <= ms(3_400), "{seen:?}");
            }
        }
    }
}

#[test]
fn a_link_that_breaks_is_known_to_all_at_once() {
    let mut net = trio();
    net.shutdown(2);
    let took = net.run_until(ms(200), |net| link(net, 0, 1, 2).state == PeerState::Down);
    println!("known at the third node after {took:?}");
    assert!(took <= ms(120), "{took:?}");
}

/// Faults I-45: what a third node hears tells a broken link from a broken node.
#[test]
fn a_cut_shows_in_the_rows_of_both_its_ends() {
    let mut net = trio();
    net.part(0, 1);
    net.run(secs(6));
    assert_eq!(link(&net, 2, 0, 1).state, PeerState::Suspect);
    assert_eq!(link(&net, 2, 1, 0).state, PeerState::Suspect);
    net.run(secs(5));
    assert_eq!(link(&net, 2, 0, 1).state, PeerState::Down);
    assert_eq!(link(&net, 2, 1, 0).state, PeerState::Down);
    assert_eq!(link(&net, 0, 2, 1).state, PeerState::Up);
    let age = link(&net, 2, 0, 1).word_age.unwrap();
    assert!(age >= secs(10) && age <= secs(15), "{age:?}");
    net.heal();
    net.run_until(secs(15), Net::is_meshed);
    net.run(ms(200));
    assert_eq!(link(&net, 2, 0, 1).state, PeerState::Up);
}

#[test]
fn changes_of_many_links_are_told_together() {
    let names: Vec<String> = (0..12).map(|n| format!("s{n:02}/1")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut net = Net::of(&names);
    net.run_until(secs(10), Net::is_meshed);
    net.run(secs(20));
    let died = net.now;
    for n in 6..12 {
        net.shutdown(n);
    }
    net.run(secs(1));
    let told = net
        .sent
        .iter()
        .filter(|(at, from, to, frame)| *at >= died && *from == 0 && *to == 1 && is_links(frame));
    let told = told.count();
    assert!((1..=3).contains(&told), "told {told} times");
}

fn is_links(frame: &[u8]) -> bool {
    matches!(proto::Frame::decode(frame).unwrap().body, Some(Body::Links(_)))
}

fn told(name: &str, state: proto::LinkState) -> proto::Link {
    let (site, node) = name.split_once('/').unwrap();
    proto::Link { site: site.to_owned(), node: node.to_owned(), state: state as i32, word_age_ms: Some(5) }
}

#[test]
fn of_a_peers_links_those_to_nodes_of_the_group_are_kept_and_each_once() {
    let mut scene = Scene::among(&["fra/1", "par/1", "ber/1"]).with(proto::Hello { minor: 1, ..hello() });
    let (up, down) = (proto::LinkState::Up, proto::LinkState::Down);
    let links = ["par/1", "ber/1", "ber/1", "fra/1", "xyz/1"].map(|name| told(name, up));
    scene.say(Body::Links(proto::Links { links: links.to_vec() }));
    let kept: Vec<_> = scene.status().links.iter().map(|link| link.peer.clone()).collect();
    assert_eq!(kept, [node("par/1"), node("ber/1")]);
    scene.say(Body::Links(proto::Links { links: vec![told("ber/1", down)] }));
    let link = LinkStatus { peer: node("ber/1"), state: PeerState::Down, word_age: Some(ms(5)) };
    assert_eq!((scene.status().links, scene.status().violations), (vec![link].into(), 0));
}

#[test]
fn very_many_links_are_no_links() {
    let mut scene = Scene::up();
    let links = vec![told("par/1", proto::LinkState::Up); 501];
    scene.say(Body::Links(proto::Links { links }));
    assert_eq!((scene.status().links.len(), scene.status().violations), (0, 1));
}
