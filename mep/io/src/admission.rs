//! From where which peer may come.

use crate::name::Subject;
use gslb_types::NodeId;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What is configured about the addresses of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerAddresses {
    /// Whose.
    pub node: NodeId,
    /// Where it listens. From there a handshake finds room even while strangers take all there is for them.
    pub address: IpAddr,
    /// Whence it may dial in; empty means from anywhere. Its certificate says who it is in any case (faults I-52).
    pub allowed: Vec<IpNet>,
}

/// The addresses of all peers.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    allowed: BTreeMap<NodeId, Vec<IpNet>>,
    known: BTreeSet<IpAddr>,
}

impl Admission {
    pub(crate) fn new(peers: &[PeerAddresses]) -> Self {
        let restricted = peers.iter().filter(|peer| !peer.allowed.is_empty());
        Admission {
            allowed: restricted.map(|peer| (peer.node.clone(), peer.allowed.clone())).collect(),
            known: peers.iter().map(|peer| peer.address.to_canonical()).collect(),
        }
    }

    /// Whether a configured peer listens at this address.
    pub(crate) fn knows(&self, address: IpAddr) -> bool {
        self.known.contains(&address.to_canonical())
    }

    /// Asks so of somebody who dials in. Where this node dials to is configured.
    pub(crate) fn admit(&self, subject: Subject, address: IpAddr) -> Result<Subject, String> {
        match self.refuses(&subject.node, address) {
            Some(reason) => Err(reason),
            None => Ok(subject),
        }
    }

    /// Why this node may not come from this address, if so.
    pub(crate) fn refuses(&self, node: &NodeId, address: IpAddr) -> Option<String> {
        let (allowed, address) = (self.allowed.get(node)?, address.to_canonical());
        if allowed.iter().any(|net| net.contains(&address)) {
            return None;
        }
        let allowed: Vec<String> = allowed.iter().map(IpNet::to_string).collect();
        Some(format!("{node} may not come from {address}: its addresses are {}", allowed.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_a_list_comes_from_there_only_and_one_without_from_anywhere() {
        let peer = |node: &str, allowed: &[&str]| PeerAddresses {
            node: node.parse().unwrap(),
            address: "192.0.2.1".parse().unwrap(),
            allowed: allowed.iter().map(|net| net.parse().unwrap()).collect(),
        };
        let admission =
            Admission::new(&[peer("fra/1", &["192.0.2.0/24", "2001:db8::/32"]), peer("ams/1", &[])]);
        let refuses =
            |node: &str, address: &str| admission.refuses(&node.parse().unwrap(), address.parse().unwrap());
        assert_eq!(refuses("fra/1", "192.0.2.255"), None);
        assert_eq!(refuses("fra/1", "::ffff:192.0.2.7"), None, "an IPv4 peer of a socket for both families");
        assert_eq!(refuses("fra/1", "2001:db8:1::1"), None);
        assert_eq!(
            refuses("fra/1", "192.0.3.0").as_deref(),
            Some("fra/1 may not come from 192.0.3.0: its addresses are 192.0.2.0/24, 2001:db8::/32")
        );
        assert_eq!(refuses("ams/1", "203.0.113.9"), None);
        assert_eq!(refuses("syd/1", "203.0.113.9"), None, "who is no peer is told so by the session");
        assert!(admission.knows("::ffff:192.0.2.1".parse().unwrap()));
        assert!(!admission.knows("192.0.2.2".parse().unwrap()));
    }
}
