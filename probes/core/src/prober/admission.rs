//! Which addresses are never probed (behaviour 3, threat T4, faults I-42).

use super::Settings;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the settings let an address be probed.
///
/// Multicast, broadcast, reserved and unspecified addresses, the node's own and the configured exclusions never are.
/// Loopback, link-local and, if switched off, private ranges are when a configured inclusion holds them. An exclusion is
/// stronger than an inclusion: what an operator forbids stays forbidden.
pub(super) fn is_probed(settings: &Settings, address: IpAddr) -> bool {
    let address = address.to_canonical();
    if is_nobody(address)
        || settings.own.iter().any(|own| own.to_canonical() == address)
        || settings.exclude.iter().any(|net| net.contains(&address))
    {
        return false;
    }
    let is_inside = is_near(address) || (!settings.private && is_private(address));
    !is_inside || settings.include.iter().any(|net| net.contains(&address))
}

/// Addresses that no single host has.
fn is_nobody(address: IpAddr) -> bool {
    match address {
        // 0/8 is "this network" and 240/4 is reserved, with broadcast at its end (RFC 6890).
        IpAddr::V4(a) => a.is_multicast() || a.octets()[0] == 0 || a.octets()[0] >= 240,
        IpAddr::V6(a) => a.is_multicast() || a.is_unspecified(),
    }
}

fn is_near(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => a.is_loopback() || a.is_link_local(),
        IpAddr::V6(a) => a.is_loopback() || a.is_unicast_link_local(),
    }
}

/// RFC 1918, RFC 6598 and RFC 4193.
fn is_private(address: IpAddr) -> bool {
    const SHARED: (u32, u32) =
        (Ipv4Addr::new(100, 64, 0, 0).to_bits(), Ipv4Addr::new(255, 192, 0, 0).to_bits());
    match address {
        IpAddr::V4(a) => a.is_private() || a.to_bits() & SHARED.1 == SHARED.0,
        IpAddr::V6(a) => Ipv6Addr::is_unique_local(&a),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probed(settings: &Settings, addresses: &[&str]) -> Vec<bool> {
        addresses.iter().map(|a| is_probed(settings, a.parse().unwrap())).collect()
    }

    #[test]
    fn addresses_of_nobody_are_never_probed_not_even_if_included() {
        let nobody = [
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "ff02::1",
            "ff0e::1",
            "::ffff:224.0.0.1",
        ];
        let all = Settings {
            include: vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()],
            ..Settings::default()
        };
        assert_eq!(probed(&Settings::default(), &nobody), [false; 10]);
        assert_eq!(probed(&all, &nobody), [false; 10]);
        assert_eq!(probed(&all, &["223.255.255.255", "1.0.0.0", "127.0.0.1"]), [true; 3]);
    }

    #[test]
    fn loopback_and_link_local_are_probed_only_if_included() {
        let near = ["127.0.0.1", "127.9.9.9", "169.254.1.1", "::1", "fe80::1", "febf::1", "::ffff:127.0.0.1"];
        assert_eq!(probed(&Settings::default(), &near), [false; 7]);
        let lab = Settings {
            include: vec!["127.9.0.0/16".parse().unwrap(), "fe80::/10".parse().unwrap()],
            ..Settings::default()
        };
        assert_eq!(probed(&lab, &near), [false, true, false, false, true, true, false]);
        assert_eq!(probed(&Settings::default(), &["128.0.0.1", "169.253.1.1", "fec0::1"]), [true; 3]);
    }

    #[test]
    fn private_ranges_are_probed_unless_switched_off() {
        let private = ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.9.9", "100.64.0.1", "fd00::1"];
        assert_eq!(probed(&Settings::default(), &private), [true; 6]);
        let off = Settings { private: false, ..Settings::default() };
        assert_eq!(probed(&off, &private), [false; 6]);
        assert_eq!(
            probed(&off, &["172.32.0.1", "100.63.0.1", "100.128.0.1", "192.0.2.1", "2001:db8::1"]),
            [true; 5]
        );
        let some = Settings { include: vec!["10.0.0.0/8".parse().unwrap()], ..off };
        assert_eq!(probed(&some, &["10.0.0.1", "172.16.0.1"]), [true, false]);
    }

    #[test]
    fn own_addresses_and_exclusions_win_over_inclusions() {
        let settings = Settings {
            own: vec!["192.0.2.1".parse().unwrap(), "127.0.0.1".parse().unwrap()],
            exclude: vec!["8.8.8.0/24".parse().unwrap(), "127.0.1.0/24".parse().unwrap()],
            include: vec!["127.0.0.0/8".parse().unwrap()],
            ..Settings::default()
        };
        let verdicts =
            probed(&settings, &["192.0.2.1", "127.0.0.1", "8.8.8.8", "8.8.9.8", "127.0.1.1", "127.0.2.1"]);
        assert_eq!(verdicts, [false, false, false, true, false, true]);
    }
}
