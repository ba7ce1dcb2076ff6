//! Which configured prefix holds an address, and how far around it the same is true.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::{Prefix, PrefixMap};
use std::net::IpAddr;

/// Prefixes of both families, each with the index of what is said of it.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    v4: PrefixMap<Ipv4Net, usize>,
    v6: PrefixMap<Ipv6Net, usize>,
}

impl Prefixes {
    /// Of two values for one prefix the later counts; configuration refuses them.
    pub(super) fn insert(&mut self, prefix: IpNet, index: usize) {
        match prefix {
            IpNet::V4(prefix) => self.v4.insert(prefix.trunc(), index),
            IpNet::V6(prefix) => self.v6.insert(prefix.trunc(), index),
        };
    }

    /// The value of the longest prefix that holds the address, if one does, and the length of the widest prefix around the
    /// address within which that is the answer for all.
    pub(super) fn find(&self, address: IpAddr) -> (Option<usize>, u8) {
        match address {
            IpAddr::V4(address) => {
                find(&self.v4, Ipv4Net::from(address), |len| Ipv4Net::new(address, len).ok())
            }
            IpAddr::V6(address) => {
                find(&self.v6, Ipv6Net::from(address), |len| Ipv6Net::new(address, len).ok())
            }
        }
    }
}

fn find<P: Prefix>(
    map: &PrefixMap<P, usize>,
    host: P,
    around: impl Fn(u8) -> Option<P>,
) -> (Option<usize>, u8) {
    let found = map.get_lpm(&host);
    let (index, outer) = found.map_or((None, 0), |(prefix, index)| (Some(*index), prefix.prefix_len()));
    // What lies within has a word of its own, so it must be outside of what is covered.
    let longest = host.prefix_len();
    let is_whole = |len: u8| {
        around(len).is_some_and(|wide| map.children(&wide).all(|(within, _)| within.prefix_len() <= outer))
    };
    (index, (outer..longest).find(|len| is_whole(*len)).unwrap_or(longest))
}
