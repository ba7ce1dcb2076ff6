//! The key of the RTT table: the client's resolver, masked.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How many leading bits of an address make one LDNS entry (behaviour 3: /32 and /128 unless configured).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LdnsMasks {
    /// Bits of an IPv4 address, 1 to 32.
    pub v4: u8,
    /// Bits of an IPv6 address, 1 to 128.
    pub v6: u8,
}

impl Default for LdnsMasks {
    fn default() -> Self {
        LdnsMasks { v4: 32, v6: 128 }
    }
}

impl LdnsMasks {
    /// How many leading bits of this address make its entry.
    pub fn bits(self, address: IpAddr) -> u8 {
        match address {
            IpAddr::V4(_) => self.v4,
            IpAddr::V6(_) => self.v6,
        }
    }
}

/// A resolver, or the prefix of resolvers that share an entry; the bits beyond the mask are zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ldns(IpAddr);

impl Ldns {
    /// The entry an address belongs to. An IPv4 address mapped into IPv6 counts as the IPv4 address it is.
    pub fn of(address: IpAddr, masks: LdnsMasks) -> Self {
        Ldns(match address.to_canonical() {
            IpAddr::V4(a) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(masks.v4.min(32))).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() & mask))
            }
            IpAddr::V6(a) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(masks.v6.min(128))).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() & mask))
            }
        })
    }

    /// The entry that every address of a prefix belongs to: the prefix is as long as the masks at least, or there is none.
    pub fn covering(prefix: IpAddr, length: u8, masks: LdnsMasks) -> Option<Self> {
        let is_covered = prefix == prefix.to_canonical() && length >= masks.bits(prefix);
        is_covered.then(|| Ldns::of(prefix, masks))
    }

    /// The entry of exactly this address.
    pub fn exact(address: IpAddr) -> Self {
        Ldns::of(address, LdnsMasks::default())
    }

    /// The address, its bits beyond the mask zero.
    pub fn address(self) -> IpAddr {
        self.0
    }
}

impl fmt::Display for Ldns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Ldns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_prefix_share_an_entry() {
        let masks = LdnsMasks { v4: 24, v6: 56 };
        let of = |a: &str| Ldns::of(a.parse().unwrap(), masks).to_string();
        assert_eq!(of("192.0.2.77"), "192.0.2.0");
        assert_eq!(of("2001:db8:1:2ff::9"), "2001:db8:1:200::");
        assert_eq!(of("::ffff:192.0.2.77"), "192.0.2.0");
    }

    #[test]
    fn an_entry_covers_prefixes_that_are_no_shorter() {
        let masks = LdnsMasks { v4: 24, v6: 56 };
        let covering =
            |a: &str, length| Ldns::covering(a.parse().unwrap(), length, masks).map(|l| l.to_string());
        assert_eq!(covering("192.0.2.128", 25).as_deref(), Some("192.0.2.0"));
        assert_eq!(covering("192.0.2.0", 24).as_deref(), Some("192.0.2.0"));
        assert_eq!(covering("192.0.0.0", 20), None);
        assert_eq!(covering("2001:db8:1:200::", 56).as_deref(), Some("2001:db8:1:200::"));
        assert_eq!(covering("2001:db8::", 48), None);
        assert_eq!(covering("::ffff:192.0.2.0", 120), None, "IPv4 in disguise is none of these");
    }

    #[test]
    fn the_default_masks_keep_the_address_whole() {
        let of = |a: &str| Ldns::exact(a.parse().unwrap()).to_string();
        assert_eq!(of("192.0.2.77"), "192.0.2.77");
        assert_eq!(of("2001:db8::1"), "2001:db8::1");
    }
}
