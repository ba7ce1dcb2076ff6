//! Frames of a peer with a good certificate and bad manners: a whole node bears them (threat T8).
//!
//! An input is a list of steps: an octet that says what kind, two for a length, and so many octets. A frame comes as it is,
//! or with the sequence number made right, so that what is in it is looked at; or time goes on.

use crate::group;
use bytes::Bytes;
use config::Config;
use gslb_core::{Birth, Input, Node, Output, Shared};
use gslb_types::{Reach, ServiceState, SiteIndex, Timestamp};
use mep_core::carrier::{CarrierCommand, CarrierEvent, ConnId, MAX_FRAME, Over};
use mep_core::proto::{self, frame::Body, relayed::What};
use prost::Message;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The connection of the two nodes, at both ends.
const CONN: ConnId = ConnId(1);

/// Entries of the table at most: `cap` of the group.
const CAP: usize = 100;

const RAW: u8 = 0;
const WAIT: u8 = 1;

/// Feeds the steps to a node with an established session.
pub fn run(input: &[u8]) {
    played(input);
}

fn played(input: &[u8]) -> Scene {
    let mut scene = Scene::up();
    let mut rest = input;
    while let Some((&[kind, high, low], more)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low])).min(more.len());
        let (octets, next) = more.split_at(length);
        match kind % 4 {
            RAW => scene.frame(octets.to_vec()),
            WAIT => scene.wait(Duration::from_millis(length as u64)),
            _ => scene.in_order(octets),
        }
        scene.judge();
        rest = next;
    }
    scene
}

/// The node under test, and what its peer has said.
struct Scene {
    node: Node,
    shared: Arc<Shared>,
    now: Timestamp,
    seq: u64,
}

impl Scene {
    /// A node whose peer has said hello.
    fn up() -> Scene {
        let [fra, iad] = &*CONFIGS;
        let ((mut peer, _), (node, shared)) = (born(iad), born(fra));
        let mut scene = Scene { node, shared, now: Timestamp::ZERO, seq: 1 };
        peer.handle_input(scene.now, Input::Carrier(connected("fra/1", true)));
        scene.input(Input::Carrier(connected("iad/1", false)));
        peer.handle_timeout(scene.now);
        let hello = std::iter::from_fn(|| peer.poll_output()).find_map(|output| match output {
            Output::Carrier(CarrierCommand::Send { frame, .. }) => Some(frame),
            _ => None,
        });
        scene.frame(hello.expect("a hello").to_vec());
        let published = scene.shared.published.load_full();
        assert!(published.peers.iter().any(|peer| peer.state.has_session()), "{:?}", published.peers);
        scene
    }

    fn frame(&mut self, frame: Vec<u8>) {
        self.input(Input::Carrier(CarrierEvent::Received { conn: CONN, frame: Bytes::from(frame) }));
    }

    /// A frame whose body is looked at because its number is the next.
    fn in_order(&mut self, octets: &[u8]) {
        let Ok(frame) = proto::Frame::decode(octets) else { return self.frame(octets.to_vec()) };
        self.seq += 1;
        self.frame(proto::Frame { seq: self.seq, ..frame }.encode_to_vec());
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.node.handle_timeout(self.now);
        self.outputs();
    }

    fn input(&mut self, input: Input) {
        self.node.handle_input(self.now, input);
        self.node.handle_timeout(self.now);
        self.outputs();
    }

    /// Probes go to addresses that may be probed, frames are no longer than a peer takes.
    fn outputs(&mut self) {
        while let Some(output) = self.node.poll_output() {
            match output {
                Output::Probe(probe) => assert!(may_be_probed(probe.target), "{}", probe.target),
                Output::Carrier(CarrierCommand::Send { frame, .. }) => assert!(frame.len() <= MAX_FRAME),
                Output::Carrier(_) | Output::Check(_) | Output::Fetch(_) | Output::Local(_) => {}
            }
        }
        assert!(self.node.poll_timeout().is_none_or(|at| at > self.now), "a time-out in the past");
    }

    /// The peer moves its own column and its own services, within the cap.
    fn judge(&self) {
        assert!(self.shared.rtts.len() <= CAP, "{} rows", self.shared.rtts.len());
        let own = SiteIndex::new(0).expect("a site");
        for (ldns, row) in self.shared.rtts.page(None, CAP) {
            assert_eq!(row.cell(own).reach(), Reach::Pending, "{ldns:?}");
        }
        let published = self.shared.published.load();
        assert_eq!(published.services[0].state, ServiceState::Up);
    }
}

/// Both nodes' configurations, which are the same for all runs.
static CONFIGS: LazyLock<[Arc<Config>; 2]> = LazyLock::new(|| ["fra/1", "iad/1"].map(group::of));

fn born(config: &Arc<Config>) -> (Node, Arc<Shared>) {
    let config = config.clone();
    let shared = Arc::new(group::shared(&config));
    let birth = Birth { seed: 7, boot: 7, local: Vec::new(), coalesce: Duration::ZERO };
    (Node::new(config, shared.clone(), &birth, Timestamp::ZERO), shared)
}

fn connected(peer: &str, dialled: bool) -> CarrierEvent {
    CarrierEvent::Connected {
        conn: CONN,
        peer: peer.parse().expect("a node"),
        dialled,
        address: ([198, 18, 9, 9], 4353).into(),
        certificate_expires: i64::MAX,
        over: Over::Quic,
    }
}

fn may_be_probed(address: IpAddr) -> bool {
    let special = match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_broadcast() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unicast_link_local(),
    };
    !(special || address.is_multicast() || address.is_unspecified())
}

/// One step.
fn step(kind: u8, octets: &[u8]) -> Vec<u8> {
    [&[kind][..], &(octets.len() as u16).to_be_bytes(), octets].concat()
}

/// One frame of each kind, and all after one another.
pub fn seeds() -> Vec<Vec<u8>> {
    let rows = proto::RttGroup {
        reach: proto::Reach::Known as i32,
        v4: vec![0xc633_6435, 0xc633_6436],
        v4_rtt_us: vec![20_000, 30_000],
        ..Default::default()
    };
    let seen = proto::SightingGroup { fresh: true, v4: rows.v4.clone(), ..Default::default() };
    let up = |name: &str| proto::Service { name: name.to_owned(), state: 2, ..Default::default() };
    let metrics = |name| proto::SiteMetrics { age_ms: 5, services: vec![up(name)] };
    let rtts = proto::RttRows { groups: vec![rows.clone()] };
    let link = proto::Link { site: "ams".to_owned(), node: "1".to_owned(), state: 2, word_age_ms: Some(5) };
    let relayed = |what| {
        Body::Relayed(proto::Relayed {
            site: "ams".to_owned(),
            word_age_ms: 5,
            what: Some(what),
            column_age_ms: Some(9),
        })
    };
    let session = proto::SessionGroup {
        persistence: 1,
        service: "web-iad".to_owned(),
        v4_prefix: 24,
        v4: vec![0xc633_6400],
        ..Default::default()
    };
    let bodies = vec![
        Body::SnapshotBegin(proto::SnapshotBegin::default()),
        Body::Sightings(proto::Sightings { groups: vec![seen] }),
        Body::Rtts(proto::RttRows { groups: vec![rows] }),
        Body::Wanted(proto::Wanted { v4: vec![0xc633_6435], ..Default::default() }),
        Body::Metrics(metrics("web-iad")),
        Body::SnapshotEnd(proto::SnapshotEnd::default()),
        Body::Keepalive(proto::Keepalive {}),
        Body::Links(proto::Links { links: vec![link] }),
        relayed(What::Begin(proto::RelayBegin {})),
        relayed(What::Rtts(rtts)),
        relayed(What::Metrics(proto::NodeMetrics {
            node: "1".to_owned(),
            metrics: Some(metrics("web-ams")),
        })),
        relayed(What::End(proto::RelayEnd {})),
        Body::RelayRequest(proto::RelayRequest { sites: vec!["ams".to_owned(), "iad".to_owned()] }),
        Body::SnapshotRequest(proto::SnapshotRequest {}),
        Body::Sessions(proto::Sessions { groups: vec![session] }),
        Body::Goodbye(proto::Goodbye { reason: "bye".to_owned() }),
    ];
    let frame = |body| proto::Frame { seq: 2, ack: 1, heard_ms: Some(5), body: Some(body) }.encode_to_vec();
    let frames: Vec<Vec<u8>> = bodies.into_iter().map(frame).collect();
    let steps: Vec<Vec<u8>> = frames.iter().map(|frame| step(2, frame)).collect();
    let all = steps.join(&step(WAIT, &[0; 300])[..]);
    steps.into_iter().chain([all, step(RAW, &frames[1]), step(RAW, b"\xff\xff\xff")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gslb_core::PeerStatus;
    use gslb_types::Rtt;

    /// What a node publishes after an input, and a second that publishes it.
    fn published(input: &[u8]) -> (Arc<Shared>, PeerStatus) {
        let shared = played(&[input, &step(WAIT, &[0; 1500])].concat()).shared;
        let peer = shared.published.load().peers[0].clone();
        (shared, peer)
    }

    #[test]
    fn the_seeds_reach_the_table_and_the_services() {
        let [begin, sightings, rows, _, metrics, ..] = &seeds()[..] else { panic!("too few") };
        let (shared, peer) = published(&[&begin[..], sightings, rows, metrics].concat());
        assert_eq!((peer.violations, peer.unknown, peer.rows_in), (0, 0, 2), "{peer:?}");
        let iad = SiteIndex::new(1).unwrap();
        let reached =
            shared.rtts.page(None, CAP).iter().map(|(_, row)| row.cell(iad).reach()).collect::<Vec<_>>();
        let known = |micros| Reach::Known(Rtt::from_micros(micros));
        // RTTs are written as differences.
        assert_eq!(reached, [known(20_000), known(50_000)]);
        assert_eq!(shared.published.load().services[1].state, ServiceState::Up);
    }

    #[test]
    fn the_seeds_reach_the_column_of_a_relayed_site() {
        let all = seeds();
        let [begin, sightings, _, _, _, end, _, links, relay, rows, ..] = &all[..] else { panic!("too few") };
        // A node that has just started asks nobody for two seconds.
        let wait = step(WAIT, &[0; 2_100]);
        let input = [begin, sightings, end, links, &wait, relay, rows].map(|step| &step[..]).concat();
        let (shared, peer) = published(&input);
        assert_eq!((peer.violations, peer.unknown, peer.relayed_rows_in), (0, 0, 2), "{peer:?}");
        assert!(shared.published.load().peers[1].relay.is_some());
    }

    #[test]
    fn a_frame_that_is_none_is_counted() {
        assert_eq!(published(&step(RAW, b"\xff\xff\xff")).1.violations, 1);
    }
}
