//! DNS queries from forged sources, as a flood sends them.

use crate::packet::{UDP, checksum, pseudo_header};
use ipnet::IpNet;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

/// Bounds of every flood, whatever is asked for.
const MAX_COUNT: u64 = 10_000_000;
const MAX_RATE: u32 = 200_000;
const MAX_TIME: Duration = Duration::from_secs(600);

/// How long a sender sleeps when it is ahead of its rate.
const PACE: Duration = Duration::from_micros(500);

/// A flood of queries, bounded in count, rate and time. [`crate::Lab::flood`] sends it, to nodes of its own only.
#[derive(Clone, Debug)]
pub struct Flood {
    pub(crate) target: SocketAddr,
    sources: IpNet,
    first: u128,
    name: String,
    record_type: u16,
    subnets: Option<IpNet>,
    rate: u32,
    count: u64,
    time: Duration,
    seed: u64,
}

/// What was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FloodReport {
    /// Packets the kernel took.
    pub sent: u64,
    /// Packets the kernel did not take.
    pub refused: u64,
    /// From the first to the last.
    pub took: Duration,
}

impl Flood {
    /// Queries `name A` from random addresses of `sources`: 5,000 a second, 50,000 in all, for a minute at most.
    pub fn new(sources: IpNet, target: SocketAddr, name: &str) -> Flood {
        Flood {
            target,
            sources,
            first: u128::MAX,
            name: name.to_owned(),
            record_type: 1,
            subnets: None,
            rate: 5_000,
            count: 50_000,
            time: Duration::from_secs(60),
            seed: 1,
        }
    }

    /// Queries a second, 200,000 at most.
    pub fn rate(self, per_second: u32) -> Flood {
        Flood { rate: per_second.clamp(1, MAX_RATE), ..self }
    }

    /// Queries in all, ten million at most.
    pub fn count(self, count: u64) -> Flood {
        Flood { count: count.min(MAX_COUNT), ..self }
    }

    /// Ends after this long even if not all is sent, after ten minutes at most.
    pub fn at_most(self, time: Duration) -> Flood {
        Flood { time: time.min(MAX_TIME), ..self }
    }

    /// Uses only the first addresses of the prefix.
    pub fn first_sources(self, count: u64) -> Flood {
        Flood { first: u128::from(count).max(1), ..self }
    }

    /// Asks for another type than A.
    pub fn record_type(self, record_type: u16) -> Flood {
        Flood { record_type, ..self }
    }

    /// Adds a client subnet option (RFC 7871) with a random /24 or /56 of this prefix.
    pub fn client_subnets(self, of: IpNet) -> Flood {
        Flood { subnets: Some(of), ..self }
    }

    /// Decides the order of sources, ports and ids.
    pub fn seed(self, seed: u64) -> Flood {
        Flood { seed, ..self }
    }

    pub(crate) fn is_of_one_family(&self) -> bool {
        self.sources.addr().is_ipv6() == self.target.is_ipv6()
    }

    /// Sends it from the namespace of the calling thread.
    pub(crate) fn send(&self) -> io::Result<FloodReport> {
        let domain = if self.target.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
        // IPPROTO_RAW takes whole packets, header and all.
        let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(nix::libc::IPPROTO_RAW)))?;
        let to = SockAddr::from(SocketAddr::new(self.target.ip(), 0));
        let mut rng = Pcg64Mcg::seed_from_u64(self.seed);
        let (start, mut sent, mut refused) = (Instant::now(), 0, 0);
        while sent + refused < self.count && start.elapsed() < self.time {
            let due = due(start.elapsed(), self.rate).min(self.count);
            for _ in sent + refused..due {
                match socket.send_to(&self.packet(&mut rng), &to) {
                    Ok(_) => sent += 1,
                    Err(_) => refused += 1,
                }
            }
            thread::sleep(PACE);
        }
        Ok(FloodReport { sent, refused, took: start.elapsed() })
    }

    fn packet(&self, rng: &mut Pcg64Mcg) -> Vec<u8> {
        let source = random_address(&self.sources, self.first, rng);
        let query = self.query(rng);
        let length = (8 + query.len()) as u16;
        let source_port = 1024 + (rng.next_u32() % (65536 - 1024)) as u16;
        let mut datagram = Vec::with_capacity(usize::from(length));
        for field in [source_port, self.target.port(), length, 0] {
            datagram.extend(field.to_be_bytes());
        }
        datagram.extend(query);
        let pseudo = pseudo_header(source, self.target.ip(), UDP, length);
        // Zero would mean that there is no checksum (RFC 768).
        let sum = Some(checksum(&[&pseudo, &datagram])).filter(|sum| *sum != 0).unwrap_or(0xffff);
        datagram[6..8].copy_from_slice(&sum.to_be_bytes());
        let mut packet = ip_header(source, self.target.ip(), length);
        packet.extend(datagram);
        packet
    }

    fn query(&self, rng: &mut Pcg64Mcg) -> Vec<u8> {
        let mut query = Vec::with_capacity(64);
        let additional = u16::from(self.subnets.is_some());
        for field in [rng.next_u32() as u16, 0, 1, 0, 0, additional] {
            query.extend(field.to_be_bytes());
        }
        for label in self.name.trim_end_matches('.').split('.').filter(|label| !label.is_empty()) {
            query.push(label.len() as u8);
            query.extend(label.as_bytes());
        }
        query.push(0);
        query.extend(self.record_type.to_be_bytes());
        query.extend(1u16.to_be_bytes());
        if let Some(subnets) = &self.subnets {
            query.extend(opt_with_subnet(random_address(subnets, u128::MAX, rng)));
        }
        query
    }
}

/// How many should be out after this long; at least one at the start.
fn due(elapsed: Duration, rate: u32) -> u64 {
    u64::try_from(elapsed.as_micros() * u128::from(rate) / 1_000_000).unwrap_or(u64::MAX).saturating_add(1)
}

fn random_address(prefix: &IpNet, first: u128, rng: &mut Pcg64Mcg) -> IpAddr {
    match prefix {
        IpNet::V4(v4) => {
            let hosts = u128::from(v4.hostmask().to_bits()) + 1;
            let host = u128::from(rng.next_u32()) % hosts.min(first);
            IpAddr::V4(Ipv4Addr::from_bits(v4.network().to_bits() | host as u32))
        }
        IpNet::V6(v6) => {
            let random = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
            let host = random % v6.hostmask().to_bits().saturating_add(1).min(first);
            IpAddr::V6(Ipv6Addr::from_bits(v6.network().to_bits() | host))
        }
    }
}

fn ip_header(source: IpAddr, destination: IpAddr, payload: u16) -> Vec<u8> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            // The kernel fills in identification and checksum (raw(7)).
            let length = (20 + payload).to_be_bytes();
            let mut header = vec![0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, UDP, 0, 0];
            header.extend(source.octets());
            header.extend(destination.octets());
            header
        }
        (source, destination) => {
            let length = payload.to_be_bytes();
            let mut header = vec![0x60, 0, 0, 0, length[0], length[1], UDP, 64];
            header.extend(octets_v6(source));
            header.extend(octets_v6(destination));
            header
        }
    }
}

fn octets_v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// An OPT record with one client subnet: a /24 or a /56 (RFC 7871 section 11.1).
fn opt_with_subnet(address: IpAddr) -> Vec<u8> {
    let (family, bits, octets) = match address {
        IpAddr::V4(v4) => (1u16, 24, v4.octets().get(..3).map(<[u8]>::to_vec)),
        IpAddr::V6(v6) => (2u16, 56, v6.octets().get(..7).map(<[u8]>::to_vec)),
    };
    let octets = octets.unwrap_or_default();
    let option_length = 4 + octets.len() as u16;
    let mut opt = vec![0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0];
    for field in [4 + option_length, 8, option_length, family] {
        opt.extend(field.to_be_bytes());
    }
    opt.extend([bits, 0]);
    opt.extend(octets);
    opt
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Header, Kind};

    fn flood(sources: &str, target: &str) -> Flood {
        Flood::new(sources.parse().expect("prefix"), target.parse().expect("address"), "www.gslb.test.")
    }

    fn datagram_sum(packet: &[u8], header: &Header, at: usize) -> u16 {
        let datagram = &packet[at..];
        let pseudo = pseudo_header(header.source, header.destination, UDP, datagram.len() as u16);
        checksum(&[&pseudo, datagram])
    }

    #[test]
    fn packets_are_whole_queries_from_the_prefix_in_both_families() {
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        for (flood, at) in [
            (flood("198.19.0.0/16", "198.18.1.1:53"), 20),
            (flood("2001:db8:ff00::/40", "[2001:db8:1::1]:53"), 40),
        ] {
            let packet = flood.packet(&mut rng);
            let header = Header::read(&packet).expect("an IP packet");
            assert_eq!((header.kind, header.opens), (Some(Kind::Udp), true));
            assert!(flood.sources.contains(&header.source));
            assert_eq!(header.destination, flood.target.ip());
            assert_eq!(datagram_sum(&packet, &header, at), 0);
            assert!(packet.ends_with(b"\x03www\x04gslb\x04test\x00\x00\x01\x00\x01"));
        }
    }

    #[test]
    fn sources_can_be_few() {
        let (mut rng, flood) = (Pcg64Mcg::seed_from_u64(3), flood("198.19.0.0/16", "198.18.1.1:53"));
        let flood = flood.first_sources(4);
        let mut seen: Vec<_> = (0..200).map(|_| flood.packet(&mut rng)[12..16].to_vec()).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, (0..4).map(|n| vec![198, 19, 0, n]).collect::<Vec<_>>());
    }

    #[test]
    fn a_client_subnet_is_one_well_formed_option() {
        assert_eq!(
            opt_with_subnet([192, 0, 2, 77].into()),
            [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2]
        );
        assert_eq!(opt_with_subnet(Ipv6Addr::LOCALHOST.into())[9..19], [0, 15, 0, 8, 0, 11, 0, 2, 56, 0]);
    }

    #[test]
    fn no_flood_is_without_bounds() {
        let flood =
            flood("198.19.0.0/16", "198.18.1.1:53").rate(u32::MAX).count(u64::MAX).at_most(Duration::MAX);
        assert_eq!((flood.rate, flood.count, flood.time), (MAX_RATE, MAX_COUNT, MAX_TIME));
        assert_eq!(due(Duration::from_secs(2), 5_000), 10_001);
    }
}
