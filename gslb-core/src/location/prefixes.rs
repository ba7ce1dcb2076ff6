//! Which configured prefix holds an address, and how far around it the same is true.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::{Prefix, PrefixMap};
use std::net::IpAddr;

/// Prefixes of both families, each with the index of what is said of it.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    v4: PrefixMap<Ipv4Net, usize>,
    v6: PrefixMap<Ipv6Net, usize>,
    starts_v4: Starts,
    starts_v6: Starts,
}

fn longest<P: Prefix>(map: &PrefixMap<P, usize>, host: P) -> (Option<usize>, u8) {
    map.get_lpm(&host).map_or((None, 0), |(prefix, index)| (Some(*index), prefix.prefix_len()))
}

impl Prefixes {
    /// Of two values for one prefix the later counts; configuration refuses them.
    pub(super) fn insert(&mut self, prefix: IpNet, index: usize) {
        let (starts, start) = match prefix {
            IpNet::V4(prefix) => {
                self.v4.insert(prefix.trunc(), index);
                (&mut self.starts_v4, u128::from(prefix.network().to_bits()) << 96)
            }
            IpNet::V6(prefix) => {
                self.v6.insert(prefix.trunc(), index);
                (&mut self.starts_v6, prefix.network().to_bits())
            }
        };
        let entry = (start, prefix.prefix_len());
        if let Err(place) = starts.binary_search(&entry) {
            starts.insert(place, entry);
        }
    }

    /// The value of the longest prefix that holds the address, if one does, and the length of the widest prefix around the
    /// address within which that is the answer for all.
    pub(super) fn find(&self, address: IpAddr) -> (Option<usize>, u8) {
        match address {
            IpAddr::V4(address) => {
                let (index, outer) = longest(&self.v4, Ipv4Net::from(address));
                (index, covered(&self.starts_v4, u128::from(address.to_bits()) << 96, outer, 32))
            }
            IpAddr::V6(address) => {
                let (index, outer) = longest(&self.v6, Ipv6Net::from(address));
                (index, covered(&self.starts_v6, address.to_bits(), outer, 128))
            }
        }
    }
}

/// Where prefixes begin, the bits at the top, and how long they are: in order, to look around an address.
type Starts = Vec<(u128, u8)>;

/// The length of the widest prefix around an address, no wider than `outer`, the prefix that has the word there, within which no
/// other prefix begins: those have a word of their own.
fn covered(starts: &Starts, address: u128, outer: u8, longest: u8) -> u8 {
    let common =
        |other: u128| u8::try_from((address ^ other).leading_zeros()).unwrap_or(longest).min(longest);
    let place = starts.partition_point(|(start, _)| *start <= address);
    let (before, after) = starts.split_at_checked(place).unwrap_or_default();
    // The nearest on either side share the most bits with it. What holds the address itself is no other.
    let is_other = |(start, len): &&(u128, u8)| *len > outer && common(*start) < *len;
    let is_near = |(start, _): &&(u128, u8)| common(*start) >= outer;
    let before = before.iter().rev().take_while(is_near).find(is_other);
    let after = after.iter().take_while(is_near).find(is_other);
    let shared = before.into_iter().chain(after).map(|(start, _)| common(*start)).max();
    shared.map_or(outer, |bits| bits + 1)
}
