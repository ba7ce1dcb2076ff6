//! Round trips as a host sees them, by its kernel's own ping sockets: what the laboratory is measured with.

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// One echo request to `address`, from the namespace of the calling thread; `Ok(None)` if no reply comes in time.
/// An ICMP error is an error: `ECONNREFUSED`, `EHOSTUNREACH`, ...
pub fn ping(address: IpAddr, timeout: Duration) -> io::Result<Option<Duration>> {
    Pinger::to(address)?.ping(1, timeout)
}

/// Pings one address repeatedly.
struct Pinger {
    socket: Socket,
    is_v6: bool,
}

impl Pinger {
    fn to(address: IpAddr) -> io::Result<Pinger> {
        let socket = match address {
            IpAddr::V4(_) => Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::ICMPV4))?,
            IpAddr::V6(_) => Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::ICMPV6))?,
        };
        socket.connect(&SockAddr::from(SocketAddr::new(address, 0)))?;
        Ok(Pinger { socket, is_v6: address.is_ipv6() })
    }

    fn ping(&mut self, sequence: u16, timeout: Duration) -> io::Result<Option<Duration>> {
        let (request, reply) = if self.is_v6 { (128, 129) } else { (8, 0) };
        let [high, low] = sequence.to_be_bytes();
        let sent = Instant::now();
        // The kernel fills in checksum and identifier.
        self.socket.send(&[request, 0, 0, 0, 0, 0, high, low])?;
        loop {
            let Some(left) = timeout.checked_sub(sent.elapsed()).filter(|left| !left.is_zero()) else {
                return Ok(None);
            };
            self.socket.set_read_timeout(Some(left))?;
            let mut message = [0; 64];
            match self.socket.read(&mut message) {
                Ok(8..) if message[0] == reply && message[6..8] == [high, low] => {
                    return Ok(Some(sent.elapsed()));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The median of several pings, and how many of them came back; the machine's own delays are outliers upwards.
pub(crate) fn median_ping(address: IpAddr, times: u16, timeout: Duration) -> io::Result<Option<Duration>> {
    let mut pinger = Pinger::to(address)?;
    let mut seen = Vec::new();
    for sequence in 0..times {
        seen.extend(pinger.ping(sequence, timeout)?);
    }
    seen.sort();
    Ok(seen.get(seen.len() / 2).copied())
}
