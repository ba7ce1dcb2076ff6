//! Many nodes at once.

use crate::support::{Node, authority, id};
use mep_core::carrier::{CarrierEvent, ConnId};
use std::collections::{BTreeMap, BTreeSet};

#[tokio::test]
async fn two_nodes_that_dial_each_other_at_once_get_two_connections() {
    let ca = authority();
    let (mut a, mut b) = (Node::start(&ca, "fra/1"), Node::start(&ca, "ams/1"));
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

#[tokio::test]
async fn sixteen_nodes_form_a_full_mesh_and_every_pair_talks() {
    const COUNT: usize = 16;
    let ca = authority();
    let mut nodes: Vec<Node> = (0..COUNT).map(|n| Node::start(&ca, &format!("s{n}/1"))).collect();
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
