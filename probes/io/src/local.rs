//! Our end: where probes leave from, and how many may be under way.

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What the sender of probes is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The LDNS port of DNS-UDP and DNS-TCP probes. Anything but 53 is for laboratories and demonstrations.
    pub port: u16,
    /// The address IPv4 probes and checks leave from; the kernel's choice if `None`.
    pub source_v4: Option<Ipv4Addr>,
    /// The address IPv6 probes and checks leave from; the kernel's choice if `None`.
    pub source_v6: Option<Ipv6Addr>,
    /// Probes under way at most, and as many checks beside them, so that a flood of LDNS never starves a check. A probe
    /// beyond it gets [`ProbeOutcome::SendFailed`](probes_core::wire::ProbeOutcome::SendFailed) at once. A DNS-UDP or
    /// DNS-TCP probe holds a descriptor: the process's limit should lie above it.
    pub in_flight: usize,
    /// Commands of user monitors at once; one beyond it waits for its turn, within its timeout.
    pub commands: usize,
}

impl Default for Settings {
    /// Port 53, any source, 20,000 under way: what a 2 s timeout holds at 10,000 silent LDNS a second. 32 commands.
    fn default() -> Self {
        Settings { port: 53, source_v4: None, source_v6: None, in_flight: 20_000, commands: 32 }
    }
}

impl Settings {
    /// The same, with this source for its family.
    pub(crate) fn leaving_from(self, source: IpAddr) -> Self {
        match source {
            IpAddr::V4(source) => Settings { source_v4: Some(source), ..self },
            IpAddr::V6(source) => Settings { source_v6: Some(source), ..self },
        }
    }

    /// Checks under way at most: each holds a descriptor, and half of them are for others, DNS clients above all.
    pub(crate) fn checks_at_once(self, open_files: u64) -> usize {
        self.in_flight.min(usize::try_from(open_files / 2).unwrap_or(usize::MAX).max(1))
    }

    /// The configured source for packets to this address.
    pub(crate) fn source(&self, target: IpAddr) -> Option<IpAddr> {
        match target {
            IpAddr::V4(_) => self.source_v4.map(IpAddr::V4),
            IpAddr::V6(_) => self.source_v6.map(IpAddr::V6),
        }
    }

    /// The configured sources, for the check at start.
    pub(crate) fn sources(&self) -> impl Iterator<Item = IpAddr> {
        self.source_v4.map(IpAddr::V4).into_iter().chain(self.source_v6.map(IpAddr::V6))
    }

    /// A non-blocking socket towards this address, bound to the configured source, to a port the kernel picks at random.
    pub(crate) fn socket(&self, target: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(target), kind.nonblocking().cloexec(), Some(protocol))?;
        if let Some(source) = self.source(target.ip()) {
            socket.bind(&SockAddr::from(SocketAddr::new(source, 0)))?;
        }
        Ok(socket)
    }
}

/// Whether a socket can be bound to this address, which no privilege is needed for.
pub(crate) fn can_bind(address: IpAddr) -> io::Result<()> {
    std::net::UdpSocket::bind((address, 0)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_leave_half_of_the_descriptors_to_others() {
        let settings = Settings { in_flight: 1000, ..Settings::default() };
        let at_once = [0, 1, 1024, 2000, 4096, u64::MAX].map(|files| settings.checks_at_once(files));
        assert_eq!(at_once, [1, 1, 512, 1000, 1000, 1000]);
    }

    #[test]
    fn a_check_s_own_source_goes_before_the_node_s_in_its_family() {
        let node = Settings { source_v4: Some(Ipv4Addr::new(192, 0, 2, 1)), ..Settings::default() };
        let (v4, v6): (IpAddr, IpAddr) = ("192.0.2.9".parse().unwrap(), "2001:db8::9".parse().unwrap());
        assert_eq!(node.leaving_from(v4).source(v4), Some(v4));
        assert_eq!(node.leaving_from(v6).source(v6), Some(v6));
        assert_eq!(node.leaving_from(v6).source(v4), Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))));
    }
}
