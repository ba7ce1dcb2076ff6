//! Round trips as a host sees them, by its kernel's own ping sockets: what the laboratory is measured with.

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt::ReceiveTimestampns};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant, SystemTime};

/// One echo request to `address`, from the namespace of the calling thread; `Ok(None)` if no reply comes in time.
/// An ICMP error is an error: `ECONNREFUSED`, `EHOSTUNREACH`, ...
pub fn ping(address: IpAddr, timeout: Duration) -> io::Result<Option<Duration>> {
    Pinger::to(address)?.ping(1, timeout)
}

/// The median of several pings; `None` if none came back.
pub(crate) fn median_ping(address: IpAddr, times: u16, timeout: Duration) -> io::Result<Option<Duration>> {
    let pinger = Pinger::to(address)?;
    let mut seen = Vec::new();
    for sequence in 0..times {
        seen.extend(pinger.ping(sequence, timeout)?);
    }
    seen.sort();
    Ok(seen.get(seen.len() / 2).copied())
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
        // The kernel says when a reply came: on a busy machine a thread may see it much later.
        setsockopt(&socket, ReceiveTimestampns, &true)?;
        Ok(Pinger { socket, is_v6: address.is_ipv6() })
    }

    fn ping(&self, sequence: u16, timeout: Duration) -> io::Result<Option<Duration>> {
        let (request, wanted) = if self.is_v6 { (128, 129) } else { (8, 0) };
        let [high, low] = sequence.to_be_bytes();
        let (start, sent) = (Instant::now(), SystemTime::now());
        // The kernel fills in checksum and identifier.
        self.socket.send(&[request, 0, 0, 0, 0, 0, high, low])?;
        while let Some(left) = timeout.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
            self.socket.set_read_timeout(Some(left))?;
            match self.receive() {
                Ok((header, came)) if header[0] == wanted && header[6..] == [high, low] => {
                    return Ok(Some(came.duration_since(sent).unwrap_or_default()));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The head of the next ICMP message, and when it came.
    fn receive(&self) -> io::Result<([u8; 8], SystemTime)> {
        let mut header = [0; 8];
        let mut control = nix::cmsg_space!(TimeSpec);
        let mut buffers = [IoSliceMut::new(&mut header)];
        let message =
            recvmsg::<()>(self.socket.as_raw_fd(), &mut buffers, Some(&mut control), MsgFlags::empty())?;
        let stamp = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(stamp) => {
                Some(SystemTime::UNIX_EPOCH + Duration::from(stamp))
            }
            _ => None,
        });
        Ok((header, stamp.unwrap_or_else(SystemTime::now)))
    }
}
