//! Echo messages as bytes.

use crate::receive::IcmpError;
use socket2::Type;
use std::net::{IpAddr, Ipv4Addr};
use surge_ping::{Icmpv4Packet, Icmpv6Packet};

/// 128 random bits that a reply must bring back (threat T6).
pub(super) type Token = [u8; 16];

const ECHO_HEADER: usize = 8;
const ERROR_HEADER: usize = 8;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// A message that may concern one of our requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// An echo reply.
    Reply { echo: Echoed, token: Token },
    /// An error about an echo request. A router may quote as little as the echo header (RFC 792): then without token.
    Error { error: IcmpError, echo: Echoed, token: Option<Token> },
}

/// What names an echo request on the wire.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Echoed {
    /// Where the request went.
    pub(super) target: IpAddr,
    pub(super) ident: u16,
    pub(super) seq: u16,
}

/// An echo request with the token as its payload. The kernel fills in what it owns: the identifier on datagram sockets,
/// the checksum there and for ICMPv6.
pub(super) fn echo_request(is_v4: bool, ident: u16, seq: u16, token: &Token) -> [u8; ECHO_HEADER + 16] {
    let mut bytes = [0; ECHO_HEADER + 16];
    let (header, payload) = bytes.split_at_mut(ECHO_HEADER);
    header[0] = if is_v4 { 8 } else { 128 };
    header[4..6].copy_from_slice(&ident.to_be_bytes());
    header[6..8].copy_from_slice(&seq.to_be_bytes());
    payload.copy_from_slice(token);
    if is_v4 {
        let sum = checksum(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

/// Reads an ICMP packet with its IPv4 header, as raw sockets give it.
pub(super) fn decode_raw_v4(bytes: &[u8]) -> Option<Message> {
    // The addresses given are not used for packets with a header.
    let packet = Icmpv4Packet::decode(bytes, Type::RAW, Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED).ok()?;
    let echo = Echoed {
        target: packet.get_real_dest().into(),
        ident: packet.get_identifier().into_u16(),
        seq: packet.get_sequence().into_u16(),
    };
    let icmp = bytes.get(ipv4_header(bytes)?..)?;
    match packet.get_icmp_type().0 {
        0 => Some(Message::Reply { echo, token: token(icmp)? }),
        kind @ (3 | 11 | 12) => {
            let quoted = icmp.get(ERROR_HEADER..)?;
            let request = quoted.get(ipv4_header(quoted)?..)?;
            let is_ours = *quoted.get(9)? == ICMP && *request.first()? == 8;
            let error = IcmpError { from: packet.get_source().into(), kind, code: packet.get_icmp_code().0 };
            is_ours.then_some(Message::Error { error, echo, token: token(request) })
        }
        _ => None,
    }
}

/// Reads an ICMPv6 packet, which comes without its IPv6 header from either kind of socket.
pub(super) fn decode_v6(bytes: &[u8], from: IpAddr) -> Option<Message> {
    const IPV6_HEADER: usize = 40;
    let IpAddr::V6(source) = from else { return None };
    let packet = Icmpv6Packet::decode(bytes, source).ok()?;
    let echo = Echoed {
        target: packet.get_real_dest().into(),
        ident: packet.get_identifier().into_u16(),
        seq: packet.get_sequence().into_u16(),
    };
    match packet.get_icmpv6_type().0 {
        129 => Some(Message::Reply { echo, token: token(bytes)? }),
        kind @ (1 | 3 | 4) => {
            // Our requests have no extension headers, so neither has the quote.
            let quoted = bytes.get(ERROR_HEADER..)?;
            let request = quoted.get(IPV6_HEADER..)?;
            let is_ours = *quoted.get(6)? == ICMPV6 && *request.first()? == 128;
            let error = IcmpError { from, kind, code: packet.get_icmpv6_code().0 };
            is_ours.then_some(Message::Error { error, echo, token: token(request) })
        }
        _ => None,
    }
}

/// Reads an echo reply from a datagram socket for IPv4, which gives it without its IPv4 header.
pub(super) fn decode_datagram_v4(bytes: &[u8], from: IpAddr) -> Option<Message> {
    match (*bytes.first()?, echoed(bytes, from), token(bytes)) {
        (0, Some(echo), Some(token)) => Some(Message::Reply { echo, token }),
        _ => None,
    }
}

/// Reads a request of ours as a datagram socket's error queue quotes it.
pub(super) fn decode_quoted(bytes: &[u8], target: IpAddr, error: IcmpError) -> Option<Message> {
    Some(Message::Error { error, echo: echoed(bytes, target)?, token: token(bytes) })
}

fn echoed(echo: &[u8], target: IpAddr) -> Option<Echoed> {
    let &[_, _, _, _, ident_hi, ident_lo, seq_hi, seq_lo, ..] = echo else { return None };
    let [ident, seq] = [[ident_hi, ident_lo], [seq_hi, seq_lo]].map(u16::from_be_bytes);
    Some(Echoed { target, ident, seq })
}

fn token(echo: &[u8]) -> Option<Token> {
    echo.get(ECHO_HEADER..)?.first_chunk().copied()
}

fn ipv4_header(packet: &[u8]) -> Option<usize> {
    Some(usize::from(packet.first()? & 0x0f) * 4)
}

/// The Internet checksum (RFC 1071) of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    const TOKEN: Token = *b"0123456789abcdef";
    const LDNS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
    const ROUTER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
    const LDNS_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53);

    fn ipv4(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let ihl = 5 + options.len() / 4;
        let mut bytes = vec![0x40 | ihl as u8, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
        let total = (ihl * 4 + payload.len()) as u16;
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        [&bytes[..], &from.octets(), &to.octets(), options, payload].concat()
    }

    fn reply() -> Vec<u8> {
        let mut bytes = echo_request(true, 7, 9, &TOKEN).to_vec();
        bytes[0] = 0;
        bytes
    }

    fn error(kind: u8, code: u8, quoted: &[u8]) -> Vec<u8> {
        [&[kind, code, 0, 0, 0, 0, 0, 0], quoted].concat()
    }

    fn echo() -> Echoed {
        Echoed { target: LDNS.into(), ident: 7, seq: 9 }
    }

    #[test]
    fn the_checksum_of_a_request_holds() {
        assert_eq!(checksum(&echo_request(true, 0xfffe, 0xfffd, &[0xff; 16])), 0);
        assert_eq!(echo_request(false, 1, 2, &TOKEN)[2..4], [0, 0], "the kernel's part");
    }

    #[test]
    fn a_reply_is_named_by_its_sender_and_token() {
        let expected = || Some(Message::Reply { echo: echo(), token: TOKEN });
        let to = Ipv4Addr::LOCALHOST;
        assert_eq!(decode_raw_v4(&ipv4(LDNS, to, ICMP, &[], &reply())), expected());
        assert_eq!(decode_raw_v4(&ipv4(LDNS, to, ICMP, &[1; 4], &reply())), expected());
        assert_eq!(decode_datagram_v4(&reply(), LDNS.into()), expected());
    }

    #[test]
    fn a_routers_error_is_named_by_the_request_it_quotes() {
        let request = echo_request(true, 7, 9, &TOKEN);
        for (quoted, token) in [(&request[..], Some(TOKEN)), (&request[..8], None)] {
            let quote = ipv4(Ipv4Addr::LOCALHOST, LDNS, ICMP, &[1; 8], quoted);
            let bytes = ipv4(ROUTER, Ipv4Addr::LOCALHOST, ICMP, &[], &error(3, 13, &quote));
            let error = IcmpError { from: ROUTER.into(), kind: 3, code: 13 };
            assert_eq!(decode_raw_v4(&bytes), Some(Message::Error { error, echo: echo(), token }));
        }
    }

    #[test]
    fn an_error_about_another_protocol_is_not_about_a_ping() {
        let request = echo_request(true, 7, 9, &TOKEN);
        let quote = ipv4(Ipv4Addr::LOCALHOST, LDNS, 17, &[], &request);
        assert_eq!(decode_raw_v4(&ipv4(ROUTER, Ipv4Addr::LOCALHOST, ICMP, &[], &error(3, 3, &quote))), None);
    }

    #[test]
    fn requests_and_redirects_are_nobodys_reply() {
        let request = echo_request(true, 7, 9, &TOKEN);
        let quote = ipv4(Ipv4Addr::LOCALHOST, LDNS, ICMP, &[], &request);
        let to = Ipv4Addr::LOCALHOST;
        assert_eq!(decode_raw_v4(&ipv4(LDNS, to, ICMP, &[], &request)), None);
        assert_eq!(decode_raw_v4(&ipv4(ROUTER, to, ICMP, &[], &error(5, 1, &quote))), None);
        assert_eq!(decode_datagram_v4(&request, LDNS.into()), None);
        assert_eq!(decode_v6(&echo_request(false, 7, 9, &TOKEN), LDNS_V6.into()), None);
    }

    #[test]
    fn icmpv6_is_read_alike() {
        let router = IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1));
        let echo = || Echoed { target: LDNS_V6.into(), ident: 7, seq: 9 };
        let request = echo_request(false, 7, 9, &TOKEN);
        let mut reply = request;
        reply[0] = 129;
        assert_eq!(decode_v6(&reply, LDNS_V6.into()), Some(Message::Reply { echo: echo(), token: TOKEN }));

        let header = [&[0x60, 0, 0, 0, 0, 24, ICMPV6, 64][..], &[0; 16], &LDNS_V6.octets()].concat();
        let bytes = error(1, 1, &[&header[..], &request].concat());
        let said = IcmpError { from: router, kind: 1, code: 1 };
        assert_eq!(
            decode_v6(&bytes, router),
            Some(Message::Error { error: said, echo: echo(), token: Some(TOKEN) })
        );
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let request = echo_request(true, 7, 9, &TOKEN);
        let quote = ipv4(Ipv4Addr::LOCALHOST, LDNS, ICMP, &[1; 8], &request);
        let seeds = [
            ipv4(LDNS, Ipv4Addr::LOCALHOST, ICMP, &[], &reply()),
            ipv4(ROUTER, Ipv4Addr::LOCALHOST, ICMP, &[], &error(3, 13, &quote)),
            error(1, 1, &[0x60; 64]),
        ];
        for seed in seeds {
            for len in 0..=seed.len() {
                for at in 0..len {
                    for value in [0, 0x0f, 0x45, 0x60, 0xff] {
                        let mut bytes = seed[..len].to_vec();
                        bytes[at] = value;
                        let said = IcmpError { from: ROUTER.into(), kind: 3, code: 1 };
                        decode_raw_v4(&bytes);
                        decode_v6(&bytes, LDNS_V6.into());
                        decode_datagram_v4(&bytes, LDNS.into());
                        decode_quoted(&bytes, LDNS.into(), said);
                    }
                }
            }
        }
    }
}
