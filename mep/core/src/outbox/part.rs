//! What becomes the body of one frame, and how it is counted.

use crate::proto::frame::Body;
use crate::wire;
use crate::{KnownLdns, RttRow, Sighting};
use bytes::Bytes;

/// The body of one frame.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) body: Bytes,
    /// RTT rows in it.
    pub(crate) rows: u64,
    /// RTT rows of another site in it.
    pub(crate) relayed: u64,
    pub(crate) ends_snapshot: bool,
    /// Up to which number it tells withdrawals, if it tells some.
    pub(crate) withdraws: Option<u64>,
}

impl Part {
    pub(crate) fn new(body: Body) -> Self {
        Part { body: wire::body(body), rows: 0, relayed: 0, ends_snapshot: false, withdraws: None }
    }

    pub(super) fn rtts(rows: &[RttRow]) -> Self {
        Part { rows: rows.len() as u64, ..Part::new(wire::rtts(rows)) }
    }
}

pub(super) fn row(known: &KnownLdns) -> RttRow {
    RttRow { ldns: known.ldns, reach: known.reach, kind: known.kind, age: known.age }
}

pub(super) fn sighting(known: &KnownLdns) -> Sighting {
    Sighting { address: known.address, age: known.seen, fresh: false }
}
