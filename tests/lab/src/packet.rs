//! What the router reads of an IP packet, and the checksum of those it writes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IP protocol number of ICMP for IPv4.
pub(crate) const ICMP: u8 = 1;
/// IP protocol number of TCP.
pub(crate) const TCP: u8 = 6;
/// IP protocol number of UDP.
pub(crate) const UDP: u8 = 17;
/// IP protocol number of ICMP for IPv6.
pub(crate) const ICMPV6: u8 = 58;

/// What a packet carries, as far as the laboratory tells packets apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// ICMP of either family.
    Icmp,
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

/// The fields of an IP packet that decide where it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// `None` for protocols the laboratory does not know, and behind IPv6 extension headers.
    pub(crate) kind: Option<Kind>,
    /// Whether the packet asks something of its destination: an echo request, a datagram to a well-known port (below
    /// 1024), a SYN without ACK. A packet filter without state drops these and lets the answers to its own host in.
    pub(crate) opens: bool,
}

impl Header {
    /// The header of an IPv4 or IPv6 packet; `None` if the bytes are neither.
    pub(crate) fn read(packet: &[u8]) -> Option<Header> {
        match packet.first()? >> 4 {
            4 => Self::read_v4(packet),
            6 => Self::read_v6(packet),
            _ => None,
        }
    }

    fn read_v4(packet: &[u8]) -> Option<Header> {
        let source = Ipv4Addr::from(octets::<4>(packet, 12)?);
        let destination = Ipv4Addr::from(octets::<4>(packet, 16)?);
        let payload_at = usize::from(packet.first()? & 15) * 4;
        let first_fragment = u16::from_be_bytes(octets(packet, 6)?) & 0x1fff == 0;
        let payload = if first_fragment { packet.get(payload_at..).unwrap_or_default() } else { &[] };
        Some(Self::of(source.into(), destination.into(), *packet.get(9)?, payload))
    }

    fn read_v6(packet: &[u8]) -> Option<Header> {
        let source = Ipv6Addr::from(octets::<16>(packet, 8)?);
        let destination = Ipv6Addr::from(octets::<16>(packet, 24)?);
        Some(Self::of(source.into(), destination.into(), *packet.get(6)?, packet.get(40..)?))
    }

    fn of(source: IpAddr, destination: IpAddr, protocol: u8, payload: &[u8]) -> Header {
        let (kind, opens) = match protocol {
            ICMP => (Some(Kind::Icmp), payload.first() == Some(&8)),
            ICMPV6 => (Some(Kind::Icmp), payload.first() == Some(&128)),
            UDP => (Some(Kind::Udp), octets(payload, 2).is_some_and(|port| u16::from_be_bytes(port) < 1024)),
            TCP => (Some(Kind::Tcp), payload.get(13).is_some_and(|flags| flags & 0x12 == 0x02)),
            _ => (None, false),
        };
        Header { source, destination, kind, opens }
    }
}

/// The Internet checksum (RFC 1071) over the parts, as if they were one; every part but the last of even length.
pub(crate) fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        let (pairs, rest) = part.as_chunks::<2>();
        sum += pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum::<u64>();
        sum += rest.first().map_or(0, |octet| u64::from(*octet) << 8);
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// The pseudo header that the checksums of UDP, TCP and ICMPv6 cover (RFC 768, RFC 8200 section 8.1).
pub(crate) fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, length: u16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40);
    for address in [source, destination] {
        match address {
            IpAddr::V4(v4) => bytes.extend(v4.octets()),
            IpAddr::V6(v6) => bytes.extend(v6.octets()),
        }
    }
    bytes.extend([0, protocol]);
    bytes.extend(length.to_be_bytes());
    bytes
}

fn octets<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An IPv4 packet without options around `payload`.
    pub(crate) fn v4(source: [u8; 4], destination: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend(source);
        packet.extend(destination);
        packet.extend(payload);
        packet
    }

    fn v6(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
        packet.extend(Ipv6Addr::LOCALHOST.octets());
        packet.extend(Ipv6Addr::UNSPECIFIED.octets());
        packet.extend(payload);
        packet
    }

    fn kind_of(packet: &[u8]) -> (Option<Kind>, bool) {
        let header = Header::read(packet).expect("an IP packet");
        (header.kind, header.opens)
    }

    fn of_v4(protocol: u8, payload: &[u8]) -> (Option<Kind>, bool) {
        kind_of(&v4([10, 0, 0, 1], [10, 0, 0, 2], protocol, payload))
    }

    #[test]
    fn addresses_are_read_from_both_families() {
        let four = Header::read(&v4([10, 0, 0, 1], [10, 0, 0, 2], UDP, &[])).expect("v4");
        assert_eq!((four.source, four.destination), ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
        let six = Header::read(&v6(UDP, &[])).expect("v6");
        assert_eq!((six.source, six.destination), (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::UNSPECIFIED.into()));
    }

    #[test]
    fn only_requests_open_an_exchange() {
        assert_eq!(of_v4(ICMP, &[8, 0]), (Some(Kind::Icmp), true));
        assert_eq!(of_v4(ICMP, &[0, 0]), (Some(Kind::Icmp), false));
        assert_eq!(kind_of(&v6(ICMPV6, &[128, 0])), (Some(Kind::Icmp), true));
        assert_eq!(kind_of(&v6(ICMPV6, &[129, 0])), (Some(Kind::Icmp), false));
        assert_eq!(of_v4(UDP, &[0x80, 0, 0, 53]), (Some(Kind::Udp), true));
        assert_eq!(of_v4(UDP, &[0, 53, 0x80, 0]), (Some(Kind::Udp), false));
        let tcp = |flags| [&[0u8; 13][..], &[flags]].concat();
        assert_eq!(of_v4(TCP, &tcp(0x02)), (Some(Kind::Tcp), true));
        assert_eq!(of_v4(TCP, &tcp(0x12)), (Some(Kind::Tcp), false));
        assert_eq!(of_v4(TCP, &tcp(0x10)), (Some(Kind::Tcp), false));
        assert_eq!(of_v4(47, &[1, 2, 3]), (None, false));
    }

    #[test]
    fn a_later_fragment_opens_nothing() {
        let mut packet = v4([10, 0, 0, 1], [10, 0, 0, 2], UDP, &[0, 0, 0, 53]);
        packet[7] = 1;
        assert_eq!(kind_of(&packet), (Some(Kind::Udp), false));
    }

    #[test]
    fn cut_short_packets_are_no_packets() {
        let whole = [v4([10, 0, 0, 1], [10, 0, 0, 2], ICMP, &[]), v6(UDP, &[])];
        for packet in whole {
            assert!(Header::read(&packet).is_some());
            for length in 0..packet.len() {
                assert_eq!(Header::read(&packet[..length]), None, "{length} octets");
            }
        }
        assert_eq!(Header::read(&[0x50; 60]), None);
    }

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        // The worked example of RFC 1071 section 3: the sum is ddf2.
        assert_eq!(checksum(&[&[0x00, 0x01, 0xf2, 0x03], &[0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
        assert_eq!(checksum(&[&[0x01]]), !0x0100);
    }
}
