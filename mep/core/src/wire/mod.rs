//! Frames as bytes: packing on the way out; limits and plain types on the way in.
//!
//! Nothing behind this module sees a protobuf message, and nothing in it knows a session.

mod effort;
mod hello;
mod links;
mod metrics;
mod relay;
mod rows;
mod sessions;
mod sightings;

pub(crate) use hello::{PeerHello, Refusal, check_hello, hello};
pub(crate) use links::links;
pub(crate) use metrics::metrics;
pub(crate) use relay::{Relayed, Said, relay_request, relayed};
pub(crate) use rows::rtts;
pub(crate) use sessions::sessions;
pub(crate) use sightings::{sightings, wanted};

use crate::carrier::MAX_FRAME;
use crate::proto::{self, frame::Body};
use crate::{KnownSession, LinkStatus, RttRow, ServiceMetric, Sighting};
use bytes::{Bytes, BytesMut};
use gslb_types::{Ldns, SiteName};
use prost::Message;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Rows, sightings or services this node puts into one frame: long enough for 7 bytes a row, short enough to let others
/// pass in between.
pub(crate) const CHUNK: usize = 1000;

/// Rows, sightings or services taken from one frame: a peer's chunks may be twice as large as ours, and a frame costs its reader
/// no more than a millisecond (threat T8).
pub(crate) const MOST_ITEMS: usize = 2 * CHUNK;

/// Links or sites named in one frame; a group is much smaller.
const MOST_NAMES: usize = 500;

/// What stands before every body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) seq: u64,
    pub(crate) ack: u64,
    pub(crate) heard: Option<Duration>,
}

/// A frame of a peer, as far as it was understood and allowed.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) seq: u64,
    pub(crate) ack: u64,
    pub(crate) heard: Option<Duration>,
    /// `None` if it was not understood.
    pub(crate) word: Option<Word>,
    /// What is wrong with it.
    pub(crate) doubts: Doubts,
}

/// What is wrong with a frame beside what was read of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Doubts {
    /// Whether some of it was not understood, as those of a newer version: skipped, and no fault.
    pub(crate) unknown: bool,
    /// Parts that were not allowed, and left out.
    pub(crate) faults: u64,
    /// RTTs that nobody can have, left out or not.
    pub(crate) implausible: u64,
}

/// What a frame says.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Word {
    Hello(proto::Hello),
    SnapshotBegin,
    SnapshotEnd,
    Rtts(Vec<RttRow>),
    Sightings(Vec<Sighting>),
    Wanted(Vec<Ldns>),
    Metrics { age: Duration, services: Vec<ServiceMetric> },
    Keepalive,
    Goodbye(String),
    Links(Vec<LinkStatus>),
    RelayRequest(Vec<SiteName>),
    Relayed(Relayed),
    SnapshotRequest,
    Sessions(Vec<KnownSession>),
}

/// A body's bytes; the same for every peer it is sent to.
pub(crate) fn body(body: Body) -> Bytes {
    proto::Frame { seq: 0, ack: 0, heard_ms: None, body: Some(body) }.encode_to_vec().into()
}

/// A whole frame. The encodings of two messages, one after the other, are the encoding of both merged.
pub(crate) fn frame(header: Header, body: &Bytes) -> Bytes {
    let head =
        proto::Frame { seq: header.seq, ack: header.ack, heard_ms: header.heard.map(millis), body: None };
    let mut bytes = BytesMut::with_capacity(head.encoded_len() + body.len());
    // A growing buffer has room for everything.
    let _ = head.encode(&mut bytes);
    bytes.extend_from_slice(body);
    bytes.freeze()
}

/// Reads a frame, unless it is no protobuf at all, or too much work.
pub(crate) fn decode(bytes: Bytes) -> Option<Incoming> {
    let length = bytes.len();
    if length > MAX_FRAME || !effort::is_bearable(&bytes) {
        return None;
    }
    let frame = proto::Frame::decode(bytes).ok()?;
    // The parts that were skipped are those that would not be written again.
    let unknown = frame.body.is_none() || frame.encoded_len() != length;
    let mut doubts = Doubts { unknown, ..Doubts::default() };
    let word = frame.body.and_then(|body| read(body, &mut doubts));
    Some(Incoming { seq: frame.seq, ack: frame.ack, heard: frame.heard_ms.map(from_millis), word, doubts })
}

fn read(body: Body, doubts: &mut Doubts) -> Option<Word> {
    Some(match body {
        Body::Hello(hello) => Word::Hello(hello),
        Body::SnapshotBegin(_) => Word::SnapshotBegin,
        Body::SnapshotEnd(_) => Word::SnapshotEnd,
        Body::Rtts(rtts) => Word::Rtts(rows::read_rtts(rtts, doubts)),
        Body::Sightings(sightings) => Word::Sightings(sightings::read_sightings(sightings, doubts)),
        Body::Wanted(wanted) => Word::Wanted(sightings::read_wanted(wanted, doubts)),
        Body::Metrics(metrics) => Word::Metrics {
            age: from_millis(metrics.age_ms),
            services: metrics::read_services(metrics.services, doubts),
        },
        Body::Keepalive(_) => Word::Keepalive,
        Body::Goodbye(goodbye) => Word::Goodbye(printable(&goodbye.reason)),
        Body::Links(links) => Word::Links(links::read_links(links, doubts)),
        Body::RelayRequest(request) => Word::RelayRequest(relay::read_request(request, doubts)),
        Body::Relayed(relayed) => Word::Relayed(relay::read_relayed(relayed, doubts)?),
        Body::SnapshotRequest(_) => Word::SnapshotRequest,
        Body::Sessions(told) => Word::Sessions(sessions::read_sessions(told, doubts)),
    })
}

/// A peer's text as it may stand in logs and API: short, and without control characters (threat T11).
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

fn millis(d: Duration) -> u32 {
    u32::try_from(d.as_millis()).unwrap_or(u32::MAX)
}

fn from_millis(ms: u32) -> Duration {
    Duration::from_millis(u64::from(ms))
}

/// Addresses in two columns.
#[derive(Default)]
struct Columns {
    v4: Vec<u32>,
    v6: BytesMut,
}

impl Columns {
    fn push(&mut self, address: IpAddr) {
        match address.to_canonical() {
            IpAddr::V4(a) => self.v4.push(a.to_bits()),
            IpAddr::V6(a) => self.v6.extend_from_slice(&a.octets()),
        }
    }
}

/// The addresses of a column of 16-byte entries; `None` if the last one is cut.
fn v6_column(column: &[u8]) -> Option<impl ExactSizeIterator<Item = IpAddr> + '_> {
    let (addresses, rest) = column.as_chunks::<16>();
    rest.is_empty().then(|| addresses.iter().map(|octets| IpAddr::V6(Ipv6Addr::from(*octets))))
}

fn v4_column(column: &[u32]) -> impl ExactSizeIterator<Item = IpAddr> + '_ {
    column.iter().map(|bits| IpAddr::V4(Ipv4Addr::from_bits(*bits)))
}

/// The address, unless it can't be anybody's.
pub(crate) fn asker(address: IpAddr) -> Option<IpAddr> {
    let address = address.to_canonical();
    let broadcast = matches!(address, IpAddr::V4(a) if a.is_broadcast());
    (!address.is_unspecified() && !address.is_multicast() && !broadcast).then_some(address)
}

/// Counts the items taken from one frame.
struct Allowance(usize);

impl Allowance {
    fn new() -> Self {
        Allowance(MOST_ITEMS)
    }

    /// That of names of nodes and sites.
    fn of_names() -> Self {
        Allowance(MOST_NAMES)
    }

    /// Takes room for so many more; a fault if there is none.
    fn take(&mut self, items: usize, doubts: &mut Doubts) -> bool {
        match self.0.checked_sub(items) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => {
                doubts.faults += 1;
                false
            }
        }
    }
}
