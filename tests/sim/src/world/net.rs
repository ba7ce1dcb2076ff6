//! The network between the nodes: connections that carry frames in order, cuts, delays, narrow lines.
//!
//! It behaves as QUIC does, and as TCP does that is kept alive. A frame is never lost or reordered: a lossy line delays it, a
//! cut holds it back until the cut heals or an end that has heard nothing for the idle timeout gives the connection up. An end
//! that closes or dies during a cut is not missed at the other end until then.

use super::HostIndex;
use super::agenda::{Agenda, Event};
use crate::chance::Chance;
use gslb_types::{NodeId, Timestamp};
use mep_core::carrier::{CarrierEvent, ConnId, Over};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// An end that hears nothing for so long gives a connection up; as long as the product's carrier waits.
pub(crate) const IDLE: Duration = Duration::from_secs(30);

/// How long a dial takes to be given up; likewise.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(5);

/// When all certificates end, seconds since the Unix epoch.
pub(crate) const EXPIRES: i64 = 2_000_000_000;

/// What a lost packet costs the frame it was part of.
const RETRANSMISSION: Duration = Duration::from_millis(200);

/// One connection.
pub(crate) type WireId = u64;

/// One of the two ends of a connection: 0 dialled, 1 was dialled.
pub(crate) type End = usize;

/// The network between the nodes.
pub(crate) struct Net {
    /// Directions in which nothing passes.
    pub(crate) cuts: BTreeSet<(HostIndex, HostIndex)>,
    /// Directions in which no UDP passes (faults I-53).
    pub(crate) blocked: BTreeSet<(HostIndex, HostIndex)>,
    /// Hosts whose certificate nobody takes (faults I-48).
    pub(crate) refused: BTreeSet<HostIndex>,
    /// Lines that come and go.
    pub(crate) waves: BTreeMap<(HostIndex, HostIndex), Wave>,
    /// One way, between any two hosts.
    pub(crate) latency: Duration,
    /// What is added at random.
    pub(crate) jitter: Duration,
    /// Packets lost of a thousand.
    pub(crate) loss: u32,
    /// Bytes a second; no limit for those not in it.
    pub(crate) narrow: BTreeMap<(HostIndex, HostIndex), u64>,
    wires: BTreeMap<WireId, Wire>,
    by_conn: BTreeMap<(HostIndex, ConnId), (WireId, End)>,
    made: u64,
}

/// A line that is cut and healed in turns (faults I-43).
#[derive(Clone, Copy)]
pub(crate) struct Wave {
    pub(crate) number: u64,
    /// For how long it passes each time, and for how long not.
    pub(crate) spans: [Duration; 2],
    pub(crate) is_cut: bool,
    pub(crate) until: Timestamp,
}

struct Wire {
    over: Over,
    ends: [Place; 2],
    /// From each end: bytes and frames that the other end has not taken.
    load: [(usize, usize); 2],
    /// From each end: when the last one arrives.
    busy: [Timestamp; 2],
    /// With the time at which it was sent.
    held: [Vec<(Timestamp, CarrierEvent)>; 2],
    /// When each end last heard the other.
    heard: [Timestamp; 2],
}

#[derive(Clone, Copy)]
struct Place {
    host: HostIndex,
    conn: ConnId,
}

/// Who is connected, and who it is to the other end.
pub(crate) struct Party<'a> {
    pub(crate) host: HostIndex,
    pub(crate) id: &'a NodeId,
    pub(crate) address: SocketAddr,
    pub(crate) life: u64,
}

impl Net {
    pub(crate) fn new() -> Self {
        Net {
            cuts: BTreeSet::new(),
            blocked: BTreeSet::new(),
            refused: BTreeSet::new(),
            waves: BTreeMap::new(),
            latency: Duration::from_millis(10),
            jitter: Duration::ZERO,
            loss: 0,
            narrow: BTreeMap::new(),
            wires: BTreeMap::new(),
            by_conn: BTreeMap::new(),
            made: 0,
        }
    }

    /// Whether packets pass both ways.
    pub(crate) fn is_whole(&self, a: HostIndex, b: HostIndex, over: Over) -> bool {
        self.passes((a, b), over) && self.passes((b, a), over)
    }

    fn passes(&self, direction: (HostIndex, HostIndex), over: Over) -> bool {
        !self.cuts.contains(&direction) && (over != Over::Quic || !self.blocked.contains(&direction))
    }

    /// Whether a frame may take so long that what it says is old when it is read.
    pub(crate) fn is_rough(&self) -> bool {
        const SLOW: Duration = Duration::from_millis(300);
        !self.narrow.is_empty() || self.loss > 50 || self.latency + self.jitter > SLOW
    }

    /// When everything has arrived that is on its way.
    pub(crate) fn drained(&self, now: Timestamp) -> Timestamp {
        self.wires.values().flat_map(|wire| wire.busy).fold(now, Timestamp::max)
    }

    /// A number for a connection of which only the dialler knows: the other end has not taken its certificate.
    pub(crate) fn stillborn(&mut self) -> ConnId {
        self.made += 1;
        ConnId(self.made * 2)
    }

    /// Connects two hosts and tells both.
    pub(crate) fn connect(
        &mut self,
        now: Timestamp,
        dialler: &Party<'_>,
        other: &Party<'_>,
        over: Over,
        agenda: &mut Agenda,
    ) {
        self.made += 1;
        let ends = [(dialler, 0), (other, 1)]
            .map(|(party, end)| Place { host: party.host, conn: ConnId(self.made * 2 + end) });
        for (end, place) in ends.iter().enumerate() {
            self.by_conn.insert((place.host, place.conn), (self.made, end));
            agenda.add(now + IDLE, Event::Idle { wire: self.made, end });
        }
        let wire = Wire {
            over,
            ends,
            load: [(0, 0); 2],
            busy: [now; 2],
            held: [Vec::new(), Vec::new()],
            heard: [now; 2],
        };
        self.wires.insert(self.made, wire);
        for (end, (party, peer)) in [(dialler, other), (other, dialler)].into_iter().enumerate() {
            let input = gslb_core::Input::Carrier(CarrierEvent::Connected {
                conn: ends[end].conn,
                peer: peer.id.clone(),
                dialled: end == 0,
                address: peer.address,
                certificate_expires: EXPIRES,
                over,
            });
            // A handshake of one round trip: the dialler knows first.
            let after = self.latency * (end as u32);
            agenda.add(now + after, Event::Tell { host: party.host, life: party.life, input });
        }
    }

    /// The host at the other end of a connection.
    pub(crate) fn other_end(&self, host: HostIndex, conn: ConnId) -> Option<HostIndex> {
        let (wire, end) = self.by_conn.get(&(host, conn))?;
        Some(self.wires.get(wire)?.ends[1 - end].host)
    }

    /// Which connection it is, whichever end asks.
    pub(crate) fn wire(&self, host: HostIndex, conn: ConnId) -> Option<WireId> {
        self.by_conn.get(&(host, conn)).map(|(wire, _)| *wire)
    }

    /// Sends an event to the other end of a connection. Returns what is on the way in that direction: bytes and frames.
    pub(crate) fn send(
        &mut self,
        now: Timestamp,
        from: (HostIndex, ConnId),
        event: CarrierEvent,
        agenda: &mut Agenda,
        chance: &mut Chance,
    ) -> (usize, usize) {
        let Some((wire_id, end)) = self.by_conn.get(&from).copied() else { return (0, 0) };
        let Some(wire) = self.wires.get_mut(&wire_id) else { return (0, 0) };
        let event = wire.addressed(1 - end, event);
        if let CarrierEvent::Received { frame, .. } = &event {
            let load = &mut wire.load[end];
            *load = (load.0 + frame.len(), load.1 + 1);
        }
        let load = wire.load[end];
        self.pass(now, wire_id, end, (now, event), agenda, chance);
        load
    }

    /// Puts an event on the line, or holds it before a cut.
    fn pass(
        &mut self,
        now: Timestamp,
        id: WireId,
        end: End,
        (sent, event): (Timestamp, CarrierEvent),
        agenda: &mut Agenda,
        chance: &mut Chance,
    ) {
        let Some(wire) = self.wires.get(&id) else { return };
        let direction = (wire.ends[end].host, wire.ends[1 - end].host);
        let passes = self.passes(direction, wire.over);
        let Some(wire) = self.wires.get_mut(&id) else { return };
        if !passes {
            wire.held[end].push((sent, event));
            return;
        }
        let mut delay = self.latency + chance.within(self.jitter);
        while self.loss > 0 && chance.permille(self.loss.min(900)) {
            delay += RETRANSMISSION;
        }
        let bytes = match &event {
            CarrierEvent::Received { frame, .. } => frame.len() as u64,
            _ => 0,
        };
        let line = self.narrow.get(&direction).map_or(0, |rate| bytes * 1_000_000 / rate.max(&1));
        let at = wire.busy[end].max(now + delay) + Duration::from_micros(line);
        wire.busy[end] = at;
        agenda.add(at, Event::Arrive { wire: id, end: 1 - end, sent, event });
    }

    /// Makes a line wide: what waited for it arrives with the next packets.
    pub(crate) fn widen(&mut self, now: Timestamp, direction: (HostIndex, HostIndex), agenda: &mut Agenda) {
        if self.narrow.remove(&direction).is_none() {
            return;
        }
        let at = now + self.latency;
        for (id, wire) in &mut self.wires {
            for end in 0..2 {
                if (wire.ends[end].host, wire.ends[1 - end].host) == direction && wire.busy[end] > at {
                    wire.busy[end] = at;
                    agenda.hurry(at, |event| match event {
                        Event::Arrive { wire, end: to, .. } => wire == id && *to == 1 - end,
                        _ => false,
                    });
                }
            }
        }
    }

    /// Takes what has arrived at an end: the host, unless that end is gone.
    pub(crate) fn arrived(
        &mut self,
        now: Timestamp,
        id: WireId,
        end: End,
        event: &CarrierEvent,
    ) -> Option<HostIndex> {
        let wire = self.wires.get_mut(&id)?;
        let place = wire.ends[end];
        wire.heard[end] = now;
        if let CarrierEvent::Received { frame, .. } = event {
            let load = &mut wire.load[1 - end];
            *load = (load.0 - frame.len(), load.1 - 1);
        }
        let is_there = self.by_conn.contains_key(&(place.host, place.conn));
        if matches!(event, CarrierEvent::Closed { .. }) {
            self.leave(place.host, place.conn);
        }
        is_there.then_some(place.host)
    }

    /// The host of an end, whatever its state.
    pub(crate) fn host_of(&self, id: WireId, end: End) -> Option<HostIndex> {
        self.wires.get(&id).map(|wire| wire.ends[end].host)
    }

    /// Looks whether an end has heard nothing for too long; then it is gone, and its host is told.
    pub(crate) fn look_idle(
        &mut self,
        now: Timestamp,
        id: WireId,
        end: End,
        agenda: &mut Agenda,
    ) -> Option<(HostIndex, CarrierEvent)> {
        let wire = self.wires.get(&id)?;
        let place = wire.ends[end];
        if !self.by_conn.contains_key(&(place.host, place.conn)) {
            return None;
        }
        let at = wire.heard[end] + IDLE;
        if at > now {
            agenda.add(at, Event::Idle { wire: id, end });
            return None;
        }
        self.leave(place.host, place.conn);
        Some((place.host, CarrierEvent::Closed { conn: place.conn, reason: "timed out".to_owned() }))
    }

    /// An end is gone; with the second one the connection is.
    pub(crate) fn leave(&mut self, host: HostIndex, conn: ConnId) {
        let Some((id, _)) = self.by_conn.remove(&(host, conn)) else { return };
        let Some(wire) = self.wires.get(&id) else { return };
        if wire.ends.iter().all(|place| !self.by_conn.contains_key(&(place.host, place.conn))) {
            self.wires.remove(&id);
        }
    }

    /// All ends of a host are gone, and nobody is told.
    pub(crate) fn die(&mut self, host: HostIndex) {
        let conns: Vec<ConnId> =
            self.by_conn.range((host, ConnId(0))..=(host, ConnId(u64::MAX))).map(|((_, c), _)| *c).collect();
        conns.into_iter().for_each(|conn| self.leave(host, conn));
    }

    /// Lets pass what the cuts held back that are no more.
    pub(crate) fn release(&mut self, now: Timestamp, agenda: &mut Agenda, chance: &mut Chance) {
        for id in self.wires.keys().copied().collect::<Vec<_>>() {
            for end in 0..2 {
                let held = self.wires.get_mut(&id).map(|wire| std::mem::take(&mut wire.held[end]));
                for held in held.into_iter().flatten() {
                    self.pass(now, id, end, held, agenda, chance);
                }
            }
        }
    }

    /// Connections that stand between two hosts, as both ends see it.
    pub(crate) fn connections(&self, a: HostIndex, b: HostIndex) -> usize {
        let stands =
            |wire: &&Wire| wire.ends.iter().all(|place| self.by_conn.contains_key(&(place.host, place.conn)));
        let between = |wire: &&Wire| wire.ends.iter().all(|place| place.host == a || place.host == b);
        self.wires.values().filter(stands).filter(between).count()
    }
}

impl Wire {
    /// The event as the given end is told it.
    fn addressed(&self, end: End, event: CarrierEvent) -> CarrierEvent {
        let conn = self.ends[end].conn;
        match event {
            CarrierEvent::Received { frame, .. } => CarrierEvent::Received { conn, frame },
            CarrierEvent::Closed { reason, .. } => CarrierEvent::Closed { conn, reason },
            other => other,
        }
    }
}
