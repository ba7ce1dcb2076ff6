//! Ports that nobody uses.

use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

/// How many ports are tried.
const TRIES: usize = 64;

/// A port that is free on all these addresses, for UDP and TCP.
pub(crate) fn free(addresses: &[Ipv4Addr]) -> io::Result<u16> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for _ in 0..TRIES {
        match try_one(addresses) {
            Ok(port) => return Ok(port),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn try_one(addresses: &[Ipv4Addr]) -> io::Result<u16> {
    let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    for address in addresses {
        UdpSocket::bind((*address, port))?;
        TcpListener::bind((*address, port))?;
    }
    Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_on_any_of_the_addresses_is_not_free() {
        let (here, there) = (Ipv4Addr::new(127, 61, 9, 1), Ipv4Addr::new(127, 61, 9, 2));
        let port = free(&[here, there]).unwrap();
        let _taken = UdpSocket::bind((there, port)).unwrap();
        assert!(UdpSocket::bind((there, port)).is_err());
        assert_ne!(free(&[here, there]).unwrap(), port);
    }
}
