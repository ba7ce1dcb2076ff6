//! Node par/1 among peers that are all played by hand.

use crate::net::{node, place_address, secs, settings};
use crate::refusals::hello;
use bytes::Bytes;
use gslb_types::Timestamp;
use mep_core::carrier::{CarrierCommand, CarrierEvent, ConnId, Over};
use mep_core::proto::{self, frame::Body};
use mep_core::{Mep, Output, PeerStatus, Settings, Values};
use prost::Message;
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) struct Group {
    pub(crate) now: Timestamp,
    pub(crate) mep: Mep,
    peers: BTreeMap<String, Played>,
    conns: u64,
}

struct Played {
    conn: ConnId,
    seq: u64,
    ack: u64,
    /// What it says of its links now and then.
    links: Vec<proto::Link>,
}

impl Group {
    pub(crate) fn of(nodes: &[&str]) -> Self {
        Group::with(settings(nodes))
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let now = Timestamp::from_micros(5_000_000);
        let mep = Mep::new(now, node("par/1"), 7, settings, 1);
        Group { now, mep, peers: BTreeMap::new(), conns: 0 }
    }

    /// A session with this peer begins, or goes on over another connection; minor version as given.
    pub(crate) fn join(&mut self, peer: &str, minor: u32, number: u64) {
        self.conns += 1;
        let conn = ConnId(self.conns);
        self.event(CarrierEvent::Connected {
            conn,
            peer: node(peer),
            dialled: false,
            address: place_address(0),
            certificate_expires: 9,
            over: Over::Quic,
        });
        let links = self.peers.remove(peer).map_or_else(Vec::new, |before| before.links);
        self.peers.insert(peer.to_owned(), Played { conn, seq: 0, ack: 0, links });
        let (site, name) = peer.split_once('/').unwrap();
        let (site, name) = (site.to_owned(), name.to_owned());
        self.take(peer, Body::Hello(proto::Hello { site, node: name, minor, number, ..hello() }));
    }

    /// Likewise, and it tells all it knows, which is nothing.
    pub(crate) fn meet(&mut self, peer: &str) {
        self.join(peer, 1, 1);
        self.take(peer, Body::SnapshotBegin(proto::SnapshotBegin {}));
        self.take(peer, Body::SnapshotEnd(proto::SnapshotEnd {}));
    }

    /// The connection of this peer grows old.
    pub(crate) fn age(&mut self, peer: &str) {
        let conn = self.peers[peer].conn;
        self.event(CarrierEvent::Ageing { conn, renew: false });
    }

    /// What it acknowledges from here on.
    pub(crate) fn acknowledge(&mut self, peer: &str) {
        let sent = self.status(peer).sent_seq;
        self.peers.get_mut(peer).unwrap().ack = sent;
    }

    /// Takes a frame before the machine works.
    pub(crate) fn take(&mut self, peer: &str, body: Body) {
        self.take_with(peer, None, body);
    }

    pub(crate) fn take_with(&mut self, peer: &str, heard_ms: Option<u32>, body: Body) {
        let played = self.peers.get_mut(peer).unwrap();
        played.seq += 1;
        let frame = proto::Frame { seq: played.seq, ack: played.ack, heard_ms, body: Some(body) };
        let (conn, frame) = (played.conn, Bytes::from(frame.encode_to_vec()));
        self.event(CarrierEvent::Received { conn, frame });
    }

    /// What it says of these links, now and every second.
    pub(crate) fn links(&mut self, peer: &str, links: &[(&str, bool)]) {
        let link = |(other, hears): &(&str, bool)| {
            let (site, name) = other.split_once('/').unwrap();
            let state = if *hears { proto::LinkState::Up } else { proto::LinkState::Down };
            let (site, node) = (site.to_owned(), name.to_owned());
            proto::Link { site, node, state: state as i32, word_age_ms: hears.then_some(20) }
        };
        let links: Vec<proto::Link> = links.iter().map(link).collect();
        self.peers.get_mut(peer).unwrap().links.clone_from(&links);
        self.take(peer, Body::Links(proto::Links { links }));
    }

    pub(crate) fn event(&mut self, event: CarrierEvent) {
        self.mep.handle_carrier(self.now, event);
    }

    pub(crate) fn turn(&mut self, values: &dyn Values) -> Vec<Output> {
        self.mep.handle_timeout(self.now, values);
        assert!(self.mep.poll_timeout().is_none_or(|at| at > self.now));
        std::iter::from_fn(|| self.mep.poll_output()).collect()
    }

    /// Lets time pass; everybody has read everything, and says a word every second.
    pub(crate) fn wait(&mut self, span: Duration, values: &dyn Values) -> Vec<Output> {
        let end = self.now + span;
        let mut outputs = self.turn(values);
        let mut words = self.now + secs(1);
        while let Some(at) = self.mep.poll_timeout().map(|at| at.min(words)).filter(|at| *at <= end) {
            self.now = at;
            if at == words {
                words = at + secs(1);
                self.words();
            }
            outputs.extend(self.turn(values));
        }
        self.now = end;
        outputs
    }

    fn words(&mut self) {
        let peers: Vec<String> = self.peers.keys().cloned().collect();
        for peer in peers {
            self.acknowledge(&peer);
            let links = self.peers[&peer].links.clone();
            self.take(&peer, Body::Links(proto::Links { links }));
        }
    }

    pub(crate) fn status(&self, peer: &str) -> PeerStatus {
        self.mep.peers().find(|status| status.peer == node(peer)).unwrap()
    }

    /// The bodies told to this peer among these outputs.
    pub(crate) fn told(&self, peer: &str, outputs: &[Output]) -> Vec<Body> {
        let to = self.peers[peer].conn;
        let bodies = outputs.iter().filter_map(|output| match output {
            Output::Carrier(CarrierCommand::Send { conn, frame }) if *conn == to => {
                proto::Frame::decode(frame.clone()).unwrap().body
            }
            _ => None,
        });
        bodies.collect()
    }
}
