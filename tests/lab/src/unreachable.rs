//! ICMP errors from a router on the way: what a probe must not take for an answer of the LDNS.

use crate::packet::{ICMP, ICMPV6, checksum, pseudo_header};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The router's own addresses: inside the laboratory's ranges, but of no node.
const ROUTER_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const ROUTER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// Octets of the offending packet that an IPv6 error quotes, so that it stays below the minimum MTU (RFC 4443 section 3.1).
const QUOTED_V6: usize = 1280 - 40 - 8;

/// Why a router says it can't deliver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreachable {
    /// No route to the network: type 3 code 0, for IPv6 type 1 code 0.
    Network,
    /// The host does not answer on its link: type 3 code 1, for IPv6 type 1 code 3.
    Host,
    /// Port unreachable, but said by the router and not the host: type 3 code 3, for IPv6 type 1 code 4.
    Port,
    /// A filter forbids it: type 3 code 13, for IPv6 type 1 code 1.
    Prohibited,
    /// The hop limit ran out: type 11 code 0, for IPv6 type 3 code 0.
    HopLimit,
}

impl Unreachable {
    fn type_and_code_v4(self) -> [u8; 2] {
        match self {
            Unreachable::Network => [3, 0],
            Unreachable::Host => [3, 1],
            Unreachable::Port => [3, 3],
            Unreachable::Prohibited => [3, 13],
            Unreachable::HopLimit => [11, 0],
        }
    }

    fn type_and_code_v6(self) -> [u8; 2] {
        match self {
            Unreachable::Network => [1, 0],
            Unreachable::Host => [1, 3],
            Unreachable::Port => [1, 4],
            Unreachable::Prohibited => [1, 1],
            Unreachable::HopLimit => [3, 0],
        }
    }
}

/// The error a router sends back for `packet`; `None` for what must not be answered by one: an ICMP error itself
/// (RFC 1122 section 3.2.2, RFC 4443 section 2.4), or no IP packet.
pub(crate) fn unreachable_for(packet: &[u8], why: Unreachable) -> Option<Vec<u8>> {
    match packet.first()? >> 4 {
        4 => unreachable_v4(packet, why),
        6 => unreachable_v6(packet, why),
        _ => None,
    }
}

fn unreachable_v4(packet: &[u8], why: Unreachable) -> Option<Vec<u8>> {
    let header_length = usize::from(packet.first()? & 15) * 4;
    let is_echo = matches!(packet.get(header_length), Some(0 | 8));
    if *packet.get(9)? == ICMP && !is_echo {
        return None;
    }
    let quoted = packet.get(..packet.len().min(header_length + 8))?;
    let message = icmp_message(why.type_and_code_v4(), quoted, &[]);
    let length = u16::try_from(20 + message.len()).ok()?.to_be_bytes();
    let mut error = vec![0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, ICMP, 0, 0];
    error.extend(ROUTER_V4.octets());
    error.extend(packet.get(12..16)?);
    let sum = checksum(&[&error]).to_be_bytes();
    error[10..12].copy_from_slice(&sum);
    error.extend(message);
    Some(error)
}

fn unreachable_v6(packet: &[u8], why: Unreachable) -> Option<Vec<u8>> {
    let is_error = packet.get(40).is_some_and(|icmp_type| *icmp_type < 128);
    if *packet.get(6)? == ICMPV6 && is_error {
        return None;
    }
    let source = Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(8..24)?).ok()?);
    let quoted = packet.get(..packet.len().min(QUOTED_V6))?;
    let length = u16::try_from(8 + quoted.len()).ok()?;
    let pseudo = pseudo_header(IpAddr::V6(ROUTER_V6), IpAddr::V6(source), ICMPV6, length);
    let mut error = vec![0x60, 0, 0, 0];
    error.extend(length.to_be_bytes());
    error.extend([ICMPV6, 64]);
    error.extend(ROUTER_V6.octets());
    error.extend(source.octets());
    error.extend(icmp_message(why.type_and_code_v6(), quoted, &pseudo));
    Some(error)
}

fn icmp_message(type_and_code: [u8; 2], quoted: &[u8], pseudo: &[u8]) -> Vec<u8> {
    let mut message = vec![type_and_code[0], type_and_code[1], 0, 0, 0, 0, 0, 0];
    message.extend(quoted);
    let sum = checksum(&[pseudo, &message]).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Header, tests::v4};

    const ALL: [Unreachable; 5] = [
        Unreachable::Network,
        Unreachable::Host,
        Unreachable::Port,
        Unreachable::Prohibited,
        Unreachable::HopLimit,
    ];

    #[test]
    fn an_error_goes_back_to_the_sender_and_quotes_its_packet() {
        let packet = v4([198, 18, 1, 1], [198, 18, 2, 1], 17, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        for why in ALL {
            let error = unreachable_for(&packet, why).expect("an error");
            let header = Header::read(&error).expect("an IP packet");
            assert_eq!((header.source, header.destination), (ROUTER_V4.into(), [198, 18, 1, 1].into()));
            assert_eq!(error[20..22], why.type_and_code_v4());
            assert_eq!(error[28..], packet[..28]);
            assert_eq!((checksum(&[&error[..20]]), checksum(&[&error[20..]])), (0, 0));
        }
    }

    #[test]
    fn an_ipv6_error_has_a_right_checksum_and_stays_below_the_minimum_mtu() {
        let mut packet = vec![0x60, 0, 0, 0, 0x05, 0x78, 17, 64];
        packet.extend(Ipv6Addr::LOCALHOST.octets());
        packet.extend(Ipv6Addr::LOCALHOST.octets());
        packet.extend([7; 1400]);
        let error = unreachable_for(&packet, Unreachable::Prohibited).expect("an error");
        assert_eq!((error.len(), &error[40..42]), (1280, &[1, 1][..]));
        let pseudo = pseudo_header(ROUTER_V6.into(), Ipv6Addr::LOCALHOST.into(), ICMPV6, 1240);
        assert_eq!(checksum(&[&pseudo, &error[40..]]), 0);
    }

    #[test]
    fn an_error_is_not_answered_by_an_error() {
        let of = |icmp_type| v4([198, 18, 1, 1], [198, 18, 2, 1], ICMP, &[icmp_type, 0, 0, 0, 0, 0, 0, 0]);
        assert!(unreachable_for(&of(8), Unreachable::Host).is_some());
        assert_eq!(unreachable_for(&of(3), Unreachable::Host), None);
        let error = unreachable_for(&of(8), Unreachable::Host).expect("an error");
        assert_eq!(unreachable_for(&error, Unreachable::Host), None);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let packet = v4([198, 18, 1, 1], [198, 18, 2, 1], 17, &[1, 2, 3, 4]);
        for first in [0x40, 0x45, 0x4f, 0x60, 0x00] {
            for length in 0..packet.len() {
                let mut cut = packet[..length].to_vec();
                cut.iter_mut().take(1).for_each(|octet| *octet = first);
                unreachable_for(&cut, Unreachable::Port);
            }
        }
    }
}
