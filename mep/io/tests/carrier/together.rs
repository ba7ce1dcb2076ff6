//! Many nodes at once.

use crate::support::{Node, authority, id, identity, over_both};
use mep_core::carrier::{CarrierEvent, ConnId, Over};
use mep_io::Limits;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

over_both! {
    two_nodes_that_dial_each_other_at_once_get_two_connections,
    sixteen_nodes_form_a_full_mesh_and_every_pair_talks,
    one_socket_for_both_families_speaks_both_and_says_addresses_as_people_write_them,
}

async fn two_nodes_that_dial_each_other_at_once_get_two_connections(over: Over) {
    let ca = authority();
    let (mut a, mut b) = (Node::start(over, &ca, "fra/1"), Node::start(over, &ca, "ams/1"));
    tokio::join!(a.dial("ams/1", b.address), b.dial("fra/1", a.address));
    for node in [&mut a, &mut b] {
        let mut both = BTreeSet::new();
        for _ in 0..2 {
            let CarrierEvent::Connected { dialled, .. } = node.event().await else { panic!("not connected") };
            both.insert(dialled);
        }
        assert_eq!(both, BTreeSet::from([true, false]), "which one stays is decided above");
    }
}

async fn sixteen_nodes_form_a_full_mesh_and_every_pair_talks(over: Over) {
    const COUNT: usize = 16;
    let ca = authority();
    let mut nodes: Vec<Node> = (0..COUNT).map(|n| Node::start(over, &ca, &format!("s{n}/1"))).collect();
    let addresses: Vec<_> = nodes.iter().map(|node| node.address).collect();
    for (n, node) in nodes.iter().enumerate() {
        for (peer, address) in addresses.iter().enumerate().skip(n + 1) {
            node.dial(&format!("s{peer}/1"), *address).await;
        }
    }
    for node in &mut nodes {
        let mut peers: BTreeMap<ConnId, _> = BTreeMap::new();
        for _ in 1..COUNT {
            let (conn, peer) = node.connected().await;
            peers.insert(conn, peer);
        }
        assert_eq!(peers.values().collect::<BTreeSet<_>>().len(), COUNT - 1, "{}", node.me);
        for conn in peers.keys() {
            node.send(*conn, node.me.to_string()).await;
        }
    }
    for node in &mut nodes {
        let mut heard = BTreeSet::new();
        for _ in 1..COUNT {
            heard.insert(id(std::str::from_utf8(&node.received().await).unwrap()));
        }
        assert_eq!(heard.len(), COUNT - 1, "{} heard {heard:?}", node.me);
    }
}

async fn one_socket_for_both_families_speaks_both_and_says_addresses_as_people_write_them(over: Over) {
    let ca = authority();
    let at = |me: &str, listen: &str| {
        let identity = identity(&ca.issue(&id(me)).unwrap(), me);
        Node::start_at(over, listen.parse().unwrap(), identity, Limits::default(), 64)
    };
    let mut both = at("ams/1", "[::]:0");
    let port = both.address.port();
    for (me, from, to) in [("fra/1", "127.0.0.1:0", "127.0.0.1"), ("syd/1", "[::1]:0", "::1")] {
        let mut node = at(me, from);
        node.dial("ams/1", SocketAddr::new(to.parse().unwrap(), port)).await;
        node.connected().await;
        let CarrierEvent::Connected { address, .. } = both.event().await else { panic!("not connected") };
        assert_eq!(address.ip(), node.address.ip());
        both.dial(me, node.address).await;
        let CarrierEvent::Connected { address, .. } = both.event().await else { panic!("not connected") };
        assert_eq!(address, node.address);
        node.connected().await;
        // Both connections of this node end with it.
        node.stop.cancel();
        both.closed().await;
        both.closed().await;
    }
}
