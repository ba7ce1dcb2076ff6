//! PROXY protocol v2: who the client is, for a service that sees a proxy's address alone.
//!
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>, section 2.2.

use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, command PROXY.
const PROXY: u8 = 0x21;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;

/// The header for a connection from `client` to `local`.
pub(super) fn header(client: SocketAddr, local: SocketAddr) -> Bytes {
    let mut header = Vec::with_capacity(52);
    header.extend_from_slice(SIGNATURE);
    header.push(PROXY);
    match (client.ip().to_canonical(), local.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            header.extend_from_slice(&[TCP_OVER_IPV4, 0, 12]);
            header.extend_from_slice(&from.octets());
            header.extend_from_slice(&to.octets());
        }
        (from, to) => {
            header.extend_from_slice(&[TCP_OVER_IPV6, 0, 36]);
            header.extend_from_slice(&v6(from));
            header.extend_from_slice(&v6(to));
        }
    }
    header.extend_from_slice(&client.port().to_be_bytes());
    header.extend_from_slice(&local.port().to_be_bytes());
    header.into()
}

fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_client_has_a_header_of_28_bytes() {
        let header = header("192.0.2.1:1025".parse().unwrap(), "198.51.100.2:80".parse().unwrap());
        let expected = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x02\x04\x01\0\x50";
        assert_eq!(header, expected.as_slice());
    }

    #[test]
    fn an_ipv6_client_has_one_of_52_and_a_mapped_one_is_ipv4() {
        let v6 = header("[2001:db8::1]:1".parse().unwrap(), "[2001:db8::2]:2".parse().unwrap());
        assert_eq!((v6.len(), &v6[12..16]), (52, [0x21, 0x21, 0, 36].as_slice()));
        let mapped =
            header("[::ffff:192.0.2.1]:1025".parse().unwrap(), "[::ffff:198.51.100.2]:80".parse().unwrap());
        assert_eq!(mapped, header("192.0.2.1:1025".parse().unwrap(), "198.51.100.2:80".parse().unwrap()));
    }
}
