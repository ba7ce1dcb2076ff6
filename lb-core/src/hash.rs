//! Source-IP hash: the same service for the same client, on every node, for as long as it takes part.
//!
//! Rendezvous hashing: every service draws a number for the client, and the best draw wins. A service that leaves gives up
//! the clients it had won and no others; one that comes wins its share from all. The key is fixed and the arithmetic is
//! integer, so all nodes, versions and processors agree.

use crate::ServiceId;
use gslb_types::Weight;
use siphasher::sip::SipHasher13;
use std::net::IpAddr;

/// The key of every draw. Changing it moves every client in the world once; nodes of mixed versions would disagree meanwhile.
const KEY: &[u8; 16] = b"gslb-dns lb hash";

/// The index of the item that the client belongs to; `None` if there are no items.
///
/// Each item wins clients in proportion to its weight. The order of the items does not matter, only their identities. The
/// address is taken as it is (an IPv4 address in IPv6 form as the IPv4 address): mask it before, if neighbours shall stay
/// together.
pub fn rendezvous<T>(items: &[T], face: impl Fn(&T) -> (ServiceId, Weight), client: IpAddr) -> Option<usize> {
    let client = ClientBytes::new(client);
    let draws = items.iter().map(|item| {
        let (id, weight) = face(item);
        Draw { number: client.draw(id), weight, id }
    });
    draws
        .enumerate()
        .reduce(|best, next| if next.1.beats(&best.1) { next } else { best })
        .map(|(index, _)| index)
}

/// A number from 0 to 99 for the client and the service, the same each time. It says nothing of who wins the client, which
/// the upper bits of the draw decide.
pub(crate) fn percentile(id: ServiceId, client: IpAddr) -> u64 {
    ClientBytes::new(client).draw(id) % 100
}

/// The number that stands for a name.
pub(crate) fn of_name(name: &[u8]) -> u64 {
    SipHasher13::new_with_key(KEY).hash(name)
}

/// A client's address as hashed: its family, then its octets.
struct ClientBytes {
    bytes: [u8; 17],
    used: usize,
}

impl ClientBytes {
    fn new(client: IpAddr) -> Self {
        let mut bytes = [0; 17];
        let used = match client.to_canonical() {
            IpAddr::V4(a) => fill(&mut bytes, 4, &a.octets()),
            IpAddr::V6(a) => fill(&mut bytes, 6, &a.octets()),
        };
        ClientBytes { bytes, used }
    }

    fn draw(&self, id: ServiceId) -> u64 {
        let mut all = [0; 25];
        for (to, from) in all.iter_mut().zip(id.get().to_le_bytes().iter().chain(&self.bytes)) {
            *to = *from;
        }
        SipHasher13::new_with_key(KEY).hash(all.get(..8 + self.used).unwrap_or(&all))
    }
}

fn fill(bytes: &mut [u8; 17], family: u8, octets: &[u8]) -> usize {
    for (to, from) in bytes.iter_mut().zip([family].iter().chain(octets)) {
        *to = *from;
    }
    1 + octets.len()
}

/// What one item drew for one client.
struct Draw {
    number: u64,
    weight: Weight,
    id: ServiceId,
}

impl Draw {
    /// Whether this draw wins over the other.
    ///
    /// The smaller -log(u)/weight, where u in (0, 1] is the number drawn: a race in which an item of weight w is w times as
    /// likely to be first. Compared as a cross product of integers. With equal weights the larger number wins, and no
    /// logarithm is needed to know it.
    fn beats(&self, other: &Draw) -> bool {
        let by_number = (self.number, other.id) > (other.number, self.id);
        if self.weight == other.weight {
            return by_number;
        }
        let mine = minus_log2(self.number) * u64::from(other.weight.get());
        let theirs = minus_log2(other.number) * u64::from(self.weight.get());
        mine < theirs || (mine == theirs && by_number)
    }
}

/// Bits behind the binary point of [`minus_log2`]. 32 of them and 7 before it leave room to multiply by a weight.
const FRACTION: u32 = 32;

/// -log2((n + 1) / 2^64) in fixed point, rounded to one side always: 0 for the largest n, 64 for 0.
///
/// Computed bit by bit by squaring, because a floating-point logarithm may differ in its last bit between libraries.
fn minus_log2(n: u64) -> u64 {
    let n = u128::from(n) + 1;
    let whole = n.ilog2();
    // The mantissa, 1 to 2 exclusive, with 63 bits behind the point.
    let mut mantissa = n << (127 - whole) >> 64;
    let mut log = u64::from(whole);
    for _ in 0..FRACTION {
        mantissa = (mantissa * mantissa) >> 63;
        log <<= 1;
        if mantissa >= 1 << 64 {
            mantissa >>= 1;
            log |= 1;
        }
    }
    (64 << FRACTION) - log
}

#[cfg(test)]
mod tests {
    use super::*;
    use gslb_types::ServiceName;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    type Item = (ServiceId, Weight);

    fn item(name: &str, weight: u64) -> Item {
        (ServiceId::of(&ServiceName::new(name).unwrap()), Weight::new(weight).unwrap())
    }

    fn pick(items: &[Item], client: impl Into<IpAddr>) -> Item {
        items[rendezvous(items, |i| *i, client.into()).unwrap()]
    }

    fn clients() -> impl Iterator<Item = Ipv4Addr> {
        (0..20_000u32).map(|n| Ipv4Addr::from(0x0a00_0000 + n * 7))
    }

    /// Golden: nodes of different versions must send a client to the same service.
    #[test]
    fn the_service_of_a_client_never_changes() {
        let items = [item("web-1", 1), item("web-2", 2), item("web-3", 3)];
        let at = |client: &str| rendezvous(&items, |i| *i, client.parse().unwrap()).unwrap();
        let got = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "198.51.100.7", "2001:db8::1", "2001:db8::2", "::"]
            .map(at);
        assert_eq!(got, [0, 1, 2, 2, 2, 1, 1]);
    }

    #[test]
    fn an_ipv4_address_in_ipv6_form_is_the_ipv4_address() {
        let items = [item("a", 1), item("b", 1), item("c", 1), item("d", 1)];
        for v4 in clients().take(100) {
            assert_eq!(pick(&items, v4), pick(&items, v4.to_ipv6_mapped()));
        }
    }

    #[test]
    fn each_service_wins_clients_in_proportion_to_its_weight() {
        let items = [item("a", 1), item("b", 3), item("c", 6), item("d", 10)];
        for it in items {
            let won = clients().filter(|c| pick(&items, *c) == it).count();
            let share = usize::from(it.1.get()) * 1_000;
            assert!(won.abs_diff(share) < 200, "{won} of {share}");
        }
    }

    #[test]
    fn a_service_that_leaves_moves_only_its_own_share() {
        let all = [item("a", 1), item("b", 2), item("c", 3), item("d", 1)];
        let left: Vec<Item> = all.iter().copied().filter(|i| *i != all[1]).collect();
        for client in clients() {
            let before = pick(&all, client);
            if before != all[1] {
                assert_eq!(pick(&left, client), before);
            }
        }
    }

    #[test]
    fn a_weight_that_grows_only_draws_clients_in() {
        let before = [item("a", 2), item("b", 2), item("c", 5)];
        let after = [item("a", 2), item("b", 3), item("c", 5)];
        for client in clients() {
            let (old, new) = (pick(&before, client), pick(&after, client));
            assert!(old.0 == new.0 || new.0 == after[1].0);
        }
    }

    #[test]
    fn equal_draws_go_to_the_lower_identity_from_either_side() {
        let (low, high) = (item("a", 1).0.min(item("b", 1).0), item("a", 1).0.max(item("b", 1).0));
        for weights in [(1, 1), (2, 2)] {
            let draw = |id, w| Draw { number: 7, weight: Weight::new(w).unwrap(), id };
            assert!(draw(low, weights.0).beats(&draw(high, weights.1)));
            assert!(!draw(high, weights.1).beats(&draw(low, weights.0)));
        }
    }

    #[test]
    fn the_logarithm_is_exact_at_powers_of_two_and_close_between_them() {
        assert_eq!(minus_log2(u64::MAX), 0);
        assert_eq!(minus_log2(0), 64 << FRACTION);
        assert_eq!(minus_log2((1 << 63) - 1), 1 << FRACTION);
        for n in [1u64, 12_345, 1 << 40, u64::MAX / 3, u64::MAX - 12_345] {
            let float = 64.0 - ((n as f64) + 1.0).log2();
            assert!((minus_log2(n) as f64 / f64::from(1u32 << 31) / 2.0 - float).abs() < 1e-8, "{n}");
        }
    }

    proptest! {
        #[test]
        fn the_order_of_the_items_does_not_matter(
            ws in prop::collection::vec(1u64..=100, 1..10), by in 0usize..10, client in any::<u128>(),
        ) {
            let items: Vec<Item> = ws.iter().enumerate().map(|(n, w)| item(&format!("s{n}"), *w)).collect();
            let mut turned = items.clone();
            turned.rotate_left(by % items.len());
            let client = Ipv6Addr::from(client);
            prop_assert_eq!(pick(&items, client), pick(&turned, client));
        }

        #[test]
        fn the_logarithm_falls_as_the_number_grows(a in any::<u64>(), b in any::<u64>()) {
            prop_assert!(a > b || minus_log2(a) >= minus_log2(b));
        }
    }
}
