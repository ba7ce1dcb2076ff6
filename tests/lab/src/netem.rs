//! The network between the nodes, without any I/O: packets go in, and come out when their time has come.
//!
//! It has the one shape of all machines here: `handle_x(now, …)`, `poll_output`, `poll_timeout`.

use crate::link::{Delay, Line, Link, Loss};
use crate::packet::{Header, Kind};
use crate::unreachable::{Unreachable, unreachable_for};
use gslb_types::Timestamp;
use ipnet::IpNet;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;
use siphasher::sip::SipHasher13;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::hash::Hasher;
use std::net::IpAddr;
use std::time::Duration;

/// Octets under way at once, all links together: a flood must not eat the machine that tests.
const UNDER_WAY: usize = 256 << 20;

/// Octets that one tap keeps.
const TAP: usize = 64 << 20;

/// A node's place in the order in which the nodes were declared.
pub(crate) type NodeIndex = usize;

/// What a link saw: what entered it, and what of that did not come out.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Packets that entered.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
    /// Of the packets, ICMP of either family.
    pub icmp: u64,
    /// Of those, echo requests.
    pub pings: u64,
    /// Of the packets, UDP.
    pub udp: u64,
    /// Of those, to ports below 1024.
    pub requests: u64,
    /// Of the packets, TCP.
    pub tcp: u64,
    /// Of those, SYN without ACK.
    pub connects: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Lost to a cut.
    pub cut: u64,
    /// Lost to a full queue.
    pub overflowed: u64,
    /// Answered by a router with an ICMP error.
    pub rejected: u64,
    /// Dropped by the far node's packet filter.
    pub dropped: u64,
}

/// A packet that has arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Arrival {
    pub(crate) to: NodeIndex,
    pub(crate) packet: Vec<u8>,
}

/// How a link stands beside its settings.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Passage {
    #[default]
    Open,
    /// Silent: nothing comes out.
    Cut,
    /// A router half-way says so with an ICMP error.
    Rejecting(Unreachable),
}

struct Way {
    link: Link,
    line: Line,
    passage: Passage,
    counts: Counts,
    /// What entered it since it was tapped, and how many octets that is.
    tap: Option<(Vec<Vec<u8>>, usize)>,
}

struct Node {
    prefixes: Vec<IpNet>,
    /// Its addresses have each their own distance on links with a spread.
    is_pool: bool,
    drops: Vec<Kind>,
}

/// The packets under way, ordered by arrival and then by departure.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct UnderWay {
    at: Timestamp,
    number: u64,
    to: NodeIndex,
    packet: Vec<u8>,
}

/// All nodes, and the link between each two of them in each direction.
pub(crate) struct Netem {
    nodes: Vec<Node>,
    ways: BTreeMap<(NodeIndex, NodeIndex), Way>,
    seed: u64,
    rng: Pcg64Mcg,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    octets_under_way: usize,
    departed: u64,
    unroutable: u64,
    arrived: VecDeque<Arrival>,
}

impl Netem {
    /// A network without nodes. Equal seeds lose equal packets and spread pools alike.
    pub(crate) fn new(seed: u64) -> Netem {
        Netem {
            nodes: Vec::new(),
            ways: BTreeMap::new(),
            seed,
            rng: Pcg64Mcg::seed_from_u64(seed),
            under_way: BinaryHeap::new(),
            octets_under_way: 0,
            departed: 0,
            unroutable: 0,
            arrived: VecDeque::new(),
        }
    }

    /// Adds a node that has all addresses of `prefixes`, linked to all before it by `link`.
    pub(crate) fn add_node(&mut self, prefixes: Vec<IpNet>, is_pool: bool, link: Link) -> NodeIndex {
        let new = self.nodes.len();
        for other in 0..new {
            for ends in [(other, new), (new, other)] {
                let (line, counts) = (Line::default(), Counts::default());
                self.ways.insert(ends, Way { link, line, passage: Passage::Open, counts, tap: None });
            }
        }
        self.nodes.push(Node { prefixes, is_pool, drops: Vec::new() });
        new
    }

    /// Sets one direction anew. Packets under way keep their time.
    pub(crate) fn set_link(&mut self, from: NodeIndex, to: NodeIndex, link: Link) {
        if let Some(way) = self.ways.get_mut(&(from, to)) {
            way.link = link;
            way.line.reset();
        }
    }

    /// Opens or closes one direction.
    pub(crate) fn set_passage(&mut self, from: NodeIndex, to: NodeIndex, passage: Passage) {
        if let Some(way) = self.ways.get_mut(&(from, to)) {
            way.passage = passage;
        }
    }

    /// What the packet filter of a node drops of what asks something of it.
    pub(crate) fn set_drops(&mut self, node: NodeIndex, kinds: &[Kind]) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.drops = kinds.to_vec();
        }
    }

    /// What `from -> to` saw since the last [`Netem::reset_counts`].
    pub(crate) fn counts(&self, from: NodeIndex, to: NodeIndex) -> Counts {
        self.ways.get(&(from, to)).map_or(Counts::default(), |way| way.counts)
    }

    /// Packets for addresses of no node; multicast among them.
    pub(crate) fn unroutable(&self) -> u64 {
        self.unroutable
    }

    /// Keeps from now on what enters one direction.
    pub(crate) fn tap(&mut self, from: NodeIndex, to: NodeIndex) {
        if let Some(way) = self.ways.get_mut(&(from, to)) {
            way.tap = Some((Vec::new(), 0));
        }
    }

    /// What a tap has kept; it keeps no more.
    pub(crate) fn take_tapped(&mut self, from: NodeIndex, to: NodeIndex) -> Vec<Vec<u8>> {
        let way = self.ways.get_mut(&(from, to));
        way.and_then(|way| way.tap.take()).map(|(packets, _)| packets).unwrap_or_default()
    }

    /// Counts from zero again.
    pub(crate) fn reset_counts(&mut self) {
        self.unroutable = 0;
        self.ways.values_mut().for_each(|way| way.counts = Counts::default());
    }

    /// The node that has this address.
    pub(crate) fn node_of(&self, address: IpAddr) -> Option<NodeIndex> {
        self.nodes.iter().position(|node| node.prefixes.iter().any(|prefix| prefix.contains(&address)))
    }

    /// The round trip from a node to an address and back, without jitter and waiting; `None` if a direction is closed
    /// or the address is nobody's.
    pub(crate) fn round_trip(&self, node: NodeIndex, address: IpAddr) -> Option<Duration> {
        let far = self.node_of(address)?;
        if far == node {
            return Some(Duration::ZERO);
        }
        let one_way = |from, to| {
            let way = self.ways.get(&(from, to)).filter(|way| way.passage == Passage::Open)?;
            Some(self.delay(from, to, &way.link, address, address))
        };
        Some(one_way(node, far)? + one_way(far, node)?)
    }

    /// Takes a packet that `from` has sent.
    pub(crate) fn handle_packet(&mut self, now: Timestamp, from: NodeIndex, packet: &[u8]) {
        let Some(header) = Header::read(packet) else { return };
        let Some(to) = self.node_of(header.destination).filter(|to| *to != from) else {
            self.unroutable += 1;
            return;
        };
        let drops = self.nodes.get(to).is_some_and(|node| node.drops(&header));
        let Some(link) = self.ways.get(&(from, to)).map(|way| way.link) else { return };
        let delay = self.delay(from, to, &link, header.source, header.destination);
        let Some(way) = self.ways.get_mut(&(from, to)) else { return };
        way.counts.note(&header, packet.len());
        way.overhear(packet);
        match way.passage {
            Passage::Open => {}
            Passage::Cut => {
                way.counts.cut += 1;
                return;
            }
            Passage::Rejecting(why) => {
                way.counts.rejected += 1;
                // There and back again over half the way.
                if let Some(error) = unreachable_for(packet, why) {
                    self.depart(now + delay, from, error);
                }
                return;
            }
        }
        if drops {
            way.counts.dropped += 1;
            return;
        }
        match way.line.admit(now, &link, delay, packet.len(), &mut self.rng) {
            Ok(_) if self.octets_under_way + packet.len() > UNDER_WAY => way.counts.overflowed += 1,
            Ok(at) => self.depart(at, to, packet.to_vec()),
            Err(Loss::Chance) => way.counts.lost += 1,
            Err(Loss::Overflow) => way.counts.overflowed += 1,
        }
    }

    /// Lets the packets arrive whose time has come.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        while self.poll_timeout().is_some_and(|at| at <= now)
            && let Some(Reverse(UnderWay { to, packet, .. })) = self.under_way.pop()
        {
            self.octets_under_way -= packet.len();
            self.arrived.push_back(Arrival { to, packet });
        }
    }

    /// The next packet that has arrived.
    pub(crate) fn poll_output(&mut self) -> Option<Arrival> {
        self.arrived.pop_front()
    }

    /// When the next packet arrives.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.under_way.peek().map(|Reverse(next)| next.at)
    }

    fn depart(&mut self, at: Timestamp, to: NodeIndex, packet: Vec<u8>) {
        self.octets_under_way += packet.len();
        self.under_way.push(Reverse(UnderWay { at, number: self.departed, to, packet }));
        self.departed += 1;
    }

    fn delay(
        &self,
        from: NodeIndex,
        to: NodeIndex,
        link: &Link,
        source: IpAddr,
        destination: IpAddr,
    ) -> Duration {
        match link.delay {
            Delay::Fixed(delay) => delay,
            Delay::Spread(nearest, farthest) => {
                let to_pool = self.nodes.get(to).is_some_and(|node| node.is_pool);
                let (near, address) = if to_pool { (from, destination) } else { (to, source) };
                spread_delay(self.seed, near, address, nearest, farthest)
            }
        }
    }
}

impl Way {
    fn overhear(&mut self, packet: &[u8]) {
        if let Some((packets, octets)) = &mut self.tap
            && *octets + packet.len() <= TAP
        {
            *octets += packet.len();
            packets.push(packet.to_vec());
        }
    }
}

impl Node {
    fn drops(&self, header: &Header) -> bool {
        header.opens && header.kind.is_some_and(|kind| self.drops.contains(&kind))
    }
}

impl Counts {
    fn note(&mut self, header: &Header, length: usize) {
        self.packets += 1;
        self.octets += length as u64;
        let opens = u64::from(header.opens);
        match header.kind {
            Some(Kind::Icmp) => (self.icmp, self.pings) = (self.icmp + 1, self.pings + opens),
            Some(Kind::Udp) => (self.udp, self.requests) = (self.udp + 1, self.requests + opens),
            Some(Kind::Tcp) => (self.tcp, self.connects) = (self.tcp + 1, self.connects + opens),
            None => {}
        }
    }
}

/// The delay of one address of a pool: evenly spread, a function of its arguments alone.
fn spread_delay(
    seed: u64,
    near: NodeIndex,
    address: IpAddr,
    nearest: Duration,
    farthest: Duration,
) -> Duration {
    let mut hasher = SipHasher13::new_with_keys(seed, near as u64);
    match address {
        IpAddr::V4(v4) => hasher.write(&v4.octets()),
        IpAddr::V6(v6) => hasher.write(&v6.octets()),
    }
    let width = u64::try_from(farthest.saturating_sub(nearest).as_micros()).unwrap_or(u64::MAX);
    nearest + Duration::from_micros(hasher.finish() % width.saturating_add(1).max(1))
}

#[cfg(test)]
#[path = "netem_tests.rs"]
mod tests;
