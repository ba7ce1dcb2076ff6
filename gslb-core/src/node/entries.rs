//! The LDNS that have an entry, in address order, and which of them are looked at when.
//!
//! In little space, as there may be hundreds of thousands: an IPv4 address, as nearly all of them are, takes four bytes here and
//! not the seventeen of an address of either family. Looks are kept by second, so that a place holds no time of its own.

use gslb_types::Ldns;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::ops::Bound;

/// The second of the look that an entry waits for.
type Waits = Option<std::num::NonZeroU32>;

type V4 = u32;
/// In the order of the network, in which they sort as addresses do.
type V6 = [u8; 16];

/// The entries.
#[derive(Default)]
pub(super) struct Entries {
    v4: BTreeMap<V4, Waits>,
    v6: BTreeMap<V6, Waits>,
    /// The earliest first.
    looks: VecDeque<Looks>,
}

/// Those whose look was set in one second. One that was removed since is still there, and no longer waits for this.
struct Looks {
    second: u32,
    v4: Vec<V4>,
    v6: Vec<V6>,
}

impl Entries {
    /// There is an entry. One that is there stays as it is.
    pub(super) fn insert(&mut self, ldns: Ldns) {
        match ldns.address() {
            IpAddr::V4(a) => self.v4.entry(a.to_bits()).or_default(),
            IpAddr::V6(a) => self.v6.entry(a.octets()).or_default(),
        };
    }

    /// There is none any longer.
    pub(super) fn remove(&mut self, ldns: Ldns) {
        match ldns.address() {
            IpAddr::V4(a) => self.v4.remove(&a.to_bits()),
            IpAddr::V6(a) => self.v6.remove(&a.octets()),
        };
    }

    /// The entries after this one, in address order.
    pub(super) fn after(&self, after: Option<Ldns>) -> impl Iterator<Item = Ldns> + '_ {
        let (v4, v6) = match after.map(Ldns::address) {
            None => (Some(Bound::Unbounded), Bound::Unbounded),
            Some(IpAddr::V4(a)) => (Some(Bound::Excluded(a.to_bits())), Bound::Unbounded),
            Some(IpAddr::V6(a)) => (None, Bound::Excluded(a.octets())),
        };
        let v4 = v4.into_iter().flat_map(|from| self.v4.range((from, Bound::Unbounded)));
        let v6 = self.v6.range((v6, Bound::Unbounded));
        v4.map(|(bits, _)| of_v4(*bits)).chain(v6.map(|(octets, _)| of_v6(*octets)))
    }

    /// Sets a look at an entry in this second, which is none before the last one set; unless it waits for one.
    pub(super) fn look(&mut self, second: u32, ldns: Ldns) {
        let waits = match ldns.address() {
            IpAddr::V4(a) => self.v4.get_mut(&a.to_bits()),
            IpAddr::V6(a) => self.v6.get_mut(&a.octets()),
        };
        let Some(waits) = waits.filter(|waits| waits.is_none()) else { return };
        *waits = mark(second);
        if self.looks.back().is_none_or(|looks| looks.second != second) {
            if let Some(full) = self.looks.back_mut() {
                full.v4.shrink_to_fit();
                full.v6.shrink_to_fit();
            }
            self.looks.push_back(Looks { second, v4: Vec::new(), v6: Vec::new() });
        }
        let Some(looks) = self.looks.back_mut() else { return };
        match ldns.address() {
            IpAddr::V4(a) => looks.v4.push(a.to_bits()),
            IpAddr::V6(a) => looks.v6.push(a.octets()),
        }
    }

    /// The second in which the next looks were set.
    pub(super) fn next_look(&self) -> Option<u32> {
        self.looks.front().map(|looks| looks.second)
    }

    /// The entries of the next looks. They wait for none any longer.
    pub(super) fn take_looks(&mut self) -> Vec<Ldns> {
        let Some(looks) = self.looks.pop_front() else { return Vec::new() };
        let waited = mark(looks.second);
        let mut taken = Vec::new();
        let is_due = |waits: &mut Waits| *waits == waited && waits.take().is_some();
        taken.extend(looks.v4.iter().filter(|a| self.v4.get_mut(*a).is_some_and(is_due)).map(|a| of_v4(*a)));
        taken.extend(looks.v6.iter().filter(|a| self.v6.get_mut(*a).is_some_and(is_due)).map(|a| of_v6(*a)));
        taken
    }
}

/// The first second is one as well.
fn mark(second: u32) -> Waits {
    std::num::NonZeroU32::new(second.saturating_add(1))
}

fn of_v4(bits: V4) -> Ldns {
    Ldns::exact(std::net::Ipv4Addr::from_bits(bits).into())
}

fn of_v6(octets: V6) -> Ldns {
    Ldns::exact(octets.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ldns(address: &str) -> Ldns {
        Ldns::exact(address.parse().unwrap())
    }

    const SORTED: [&str; 6] = ["9.255.0.1", "10.0.0.1", "192.0.2.1", "::2", "2001:db8::1", "2001:db8::2:0"];

    fn entries() -> Entries {
        let mut entries = Entries::default();
        SORTED.iter().rev().for_each(|address| entries.insert(ldns(address)));
        entries
    }

    #[test]
    fn a_walk_goes_on_after_any_address_in_the_order_of_addresses() {
        let mut entries = entries();
        let all = SORTED.map(ldns);
        assert!(all.is_sorted());
        assert_eq!(entries.after(None).collect::<Vec<_>>(), all);
        for (n, after) in all.into_iter().enumerate() {
            assert_eq!(entries.after(Some(after)).collect::<Vec<_>>(), all[n + 1..]);
        }
        entries.remove(ldns("10.0.0.1"));
        entries.remove(ldns("::2"));
        // It need not be there itself.
        let rest: Vec<Ldns> = entries.after(Some(ldns("10.0.0.1"))).collect();
        assert_eq!(rest, ["192.0.2.1", "2001:db8::1", "2001:db8::2:0"].map(ldns));
    }

    #[test]
    fn who_waits_for_a_look_is_given_no_other_and_comes_once() {
        let mut entries = entries();
        let [a, b] = ["10.0.0.1", "::2"].map(ldns);
        entries.look(0, a);
        entries.look(0, b);
        entries.look(3, a);
        entries.look(3, ldns("192.0.2.9"));
        assert_eq!(entries.next_look(), Some(0));
        assert_eq!(entries.take_looks(), [a, b]);
        assert_eq!((entries.next_look(), entries.take_looks()), (None, vec![]));
        entries.look(4, a);
        assert_eq!(entries.take_looks(), [a]);
    }

    /// Faults I-46: what comes back is looked at as long after it as all others, and not twice as often from then on.
    #[test]
    fn what_was_removed_is_not_looked_at_and_waits_anew_when_it_comes_back() {
        let mut entries = entries();
        let a = ldns("10.0.0.1");
        entries.look(1, a);
        entries.remove(a);
        entries.insert(a);
        entries.look(2, a);
        assert_eq!((entries.next_look(), entries.take_looks()), (Some(1), vec![]));
        assert_eq!((entries.next_look(), entries.take_looks()), (Some(2), vec![a]));
        // Within one second, too.
        entries.look(5, a);
        entries.remove(a);
        entries.insert(a);
        entries.look(5, a);
        assert_eq!(entries.take_looks(), [a]);
    }
}
