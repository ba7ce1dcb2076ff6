//! Which node of a site probes which LDNS: rendezvous hashing.
//!
//! Every node of the site computes the same from the same set of live nodes, without a word. When a node goes only its
//! LDNS move, to all others alike; when it comes back it gets the same ones again.

use gslb_types::{Ldns, NodeId};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::net::IpAddr;

/// The nodes that share out the LDNS of their site.
#[derive(Clone, Debug)]
pub struct Share {
    me: NodeId,
    /// In order of names, this node among them; each with the hash that begins with its name.
    nodes: Vec<(NodeId, SipHasher24)>,
}

impl Share {
    /// The share of `me` among these neighbours and itself.
    pub fn among(me: NodeId, neighbours: impl IntoIterator<Item = NodeId>) -> Self {
        let mut nodes: Vec<NodeId> = neighbours.into_iter().chain([me.clone()]).collect();
        nodes.sort();
        nodes.dedup();
        let begun = |node: NodeId| {
            let hasher = begun(&node);
            (node, hasher)
        };
        Share { me, nodes: nodes.into_iter().map(begun).collect() }
    }

    /// Who probes an LDNS.
    pub fn owner(&self, ldns: Ldns) -> &NodeId {
        match self.nodes.as_slice() {
            [] | [_] => &self.me,
            several => {
                several.iter().max_by_key(|(_, begun)| score(begun, ldns)).map_or(&self.me, |(node, _)| node)
            }
        }
    }

    /// Whether it is this node that probes it.
    pub fn is_ours(&self, ldns: Ldns) -> bool {
        *self.owner(ldns) == self.me
    }

    /// The nodes, in order of names.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeId> {
        self.nodes.iter().map(|(node, _)| node)
    }
}

/// Fixed keys, as all nodes and versions must compute the same. Who chooses addresses that fall to one node gains nothing: the
/// budgets of that node hold.
fn begun(node: &NodeId) -> SipHasher24 {
    let mut hasher = SipHasher24::new_with_keys(0x6773_6c62_2d64_6e73, 0x6c64_6e73_2d73_6861);
    hasher.write(node.to_string().as_bytes());
    hasher.write(&[0]);
    hasher
}

fn score(begun: &SipHasher24, ldns: Ldns) -> u64 {
    let mut hasher = *begun;
    match ldns.address() {
        IpAddr::V4(a) => hasher.write(&a.octets()),
        IpAddr::V6(a) => hasher.write(&a.octets()),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn node(name: &str) -> NodeId {
        name.parse().unwrap()
    }

    fn share(me: &str, others: &[&str]) -> Share {
        Share::among(node(me), others.iter().map(|name| node(name)))
    }

    fn nth(n: u32) -> Ldns {
        Ldns::exact(std::net::Ipv4Addr::from_bits(0x0b00_0000 + n * 77).into())
    }

    fn owners(share: &Share) -> Vec<NodeId> {
        (0..3000).map(|n| share.owner(nth(n)).clone()).collect()
    }

    #[test]
    fn all_nodes_of_a_site_share_out_alike_and_evenly() {
        let first = owners(&share("fra/1", &["fra/2", "fra/3"]));
        assert_eq!(first, owners(&share("fra/3", &["fra/2", "fra/1", "fra/2"])));
        let mut counts = BTreeMap::<NodeId, usize>::new();
        first.into_iter().for_each(|owner| *counts.entry(owner).or_default() += 1);
        assert!(counts.len() == 3 && counts.values().all(|n| (900..1100).contains(n)), "{counts:?}");
    }

    #[test]
    fn a_node_that_goes_moves_its_share_alone_and_to_all_others() {
        let (three, two) = (share("fra/1", &["fra/2", "fra/3"]), share("fra/1", &["fra/2"]));
        let mut taken = BTreeMap::<NodeId, usize>::new();
        for (before, after) in owners(&three).into_iter().zip(owners(&two)) {
            if before == node("fra/3") {
                *taken.entry(after).or_default() += 1;
            } else {
                assert_eq!(before, after);
            }
        }
        assert!(taken.len() == 2 && taken.values().all(|n| *n > 400), "{taken:?}");
    }

    #[test]
    fn a_lone_node_has_all() {
        let lone = share("fra/1", &[]);
        assert!((0..100).all(|n| lone.is_ours(nth(n))));
    }

    /// Nodes of different versions share out together: the owners are part of the protocol.
    #[test]
    fn the_owners_are_the_same_on_every_version() {
        let share = share("fra/1", &["fra/2"]);
        let v6 = |n: u16| Ldns::exact([0x2001, 0xdb8, 0, 0, 0, 0, 0, n].into());
        let firsts: String = (0..16)
            .map(nth)
            .chain((0..16).map(v6))
            .map(|l| if share.is_ours(l) { '1' } else { '2' })
            .collect();
        assert_eq!(firsts, "12121212112121221111222211111212");
    }
}
