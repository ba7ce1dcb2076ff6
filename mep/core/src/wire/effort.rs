//! How much work it is to read a frame, estimated before it is done (threat T8).
//!
//! Two bytes make an empty message, and what is read of it takes a hundred times as much: a frame within the limit of bytes
//! could take tens of milliseconds and as many megabytes. So its fields are counted first, as deep as messages go.

use bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint};

/// Fields in one frame. A frame of 1,000 services has 10,000, one of as many sessions 8,000; each costs its reader some 30 ns.
const MOST_FIELDS: usize = 20_000;

/// Whether a frame has so few fields that it may be read. What is no protobuf at all is for the reader to refuse.
pub(super) fn is_bearable(frame: &[u8]) -> bool {
    let mut left = MOST_FIELDS;
    count(Kind::Frame, frame, &mut left).is_none()
}

/// There are more fields than may be.
struct Excess;

/// Messages that hold messages. The numbers of their fields are those of `mep.proto`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Frame,
    Hello,
    Rtts,
    RttGroup,
    /// Messages in field 1.
    Repeated,
    Metrics,
    Relayed,
    NodeMetrics,
    /// None.
    Leaf,
}

impl Kind {
    /// What a field holds, if it holds a message.
    fn field(self, number: u32) -> Option<Kind> {
        Some(match (self, number) {
            (Kind::Frame, 8) => Kind::Hello,
            (Kind::Frame, 11) | (Kind::Relayed, 5) => Kind::Rtts,
            (Kind::Frame, 12 | 17 | 21) => Kind::Repeated,
            (Kind::Frame, 14) | (Kind::NodeMetrics, 2) => Kind::Metrics,
            (Kind::Frame, 19) => Kind::Relayed,
            (Kind::Relayed, 6) => Kind::NodeMetrics,
            (Kind::Rtts, 1) => Kind::RttGroup,
            (Kind::Hello, 10) | (Kind::Metrics, 2) | (Kind::Repeated, 1) => Kind::Leaf,
            (Kind::Frame, 9..=21) => Kind::Leaf,
            _ => return None,
        })
    }

    /// What a packed column of so many bytes counts: two bytes or more are a round-trip time.
    fn column(self, number: u32, length: usize) -> usize {
        if self == Kind::RttGroup && matches!(number, 5 | 7) { length / 2 } else { 0 }
    }
}

/// Takes what a message counts from what is left; `Some` if that is not enough.
fn count(kind: Kind, mut bytes: &[u8], left: &mut usize) -> Option<Excess> {
    while bytes.has_remaining() {
        let (number, wire_type) = decode_key(&mut bytes).ok()?;
        let length = match wire_type {
            WireType::Varint => decode_varint(&mut bytes).map(|_| 0).ok()?,
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::LengthDelimited => usize::try_from(decode_varint(&mut bytes).ok()?).ok()?,
            // Proto3 has none.
            WireType::StartGroup | WireType::EndGroup => return Some(Excess),
        };
        let (content, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        let is_message = wire_type == WireType::LengthDelimited;
        match left.checked_sub(1 + kind.column(number, length)) {
            Some(less) => *left = less,
            None => return Some(Excess),
        }
        if let Some(inner) = kind.field(number).filter(|_| is_message)
            && let Some(excess) = count(inner, content, left)
        {
            return Some(excess);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{self, frame::Body, relayed::What};
    use crate::wire::{body, frame};

    fn is_bearable_body(of: Body) -> bool {
        let header = crate::wire::Header { seq: 1, ack: 1, heard: None };
        let bytes = frame(header, &body(of));
        assert!(bytes.len() <= crate::carrier::MAX_FRAME, "{} bytes", bytes.len());
        is_bearable(&bytes)
    }

    fn services(n: usize) -> proto::SiteMetrics {
        let service = proto::Service {
            name: "web".to_owned(),
            state: 2,
            response_time_us: Some(1),
            active: Some(1),
            connections: Some(1),
            bytes: Some(1),
            packets: Some(1),
            requests: Some(1),
            ttfb_us: Some(1),
            load: Some(1),
        };
        proto::SiteMetrics { age_ms: 1, services: vec![service; n] }
    }

    fn relayed(what: What) -> Body {
        Body::Relayed(proto::Relayed { what: Some(what), ..Default::default() })
    }

    #[test]
    fn what_a_node_sends_may_be_read() {
        let session = proto::SessionGroup {
            persistence: 1,
            service: "web".to_owned(),
            idle_ms: 1,
            v4_prefix: 24,
            v4: vec![1],
            v6_prefix: 56,
            v6: vec![0; 16].into(),
        };
        let group = proto::RttGroup {
            reach: 1,
            kind: 1,
            v4: vec![1; 1000],
            v4_rtt_us: vec![10_000_000; 1000],
            ..Default::default()
        };
        let metrics = proto::NodeMetrics { node: "1".to_owned(), metrics: Some(services(1000)) };
        for body in [
            Body::Metrics(services(1000)),
            Body::Sessions(proto::Sessions { groups: vec![session; 1000] }),
            Body::Rtts(proto::RttRows { groups: vec![group.clone()] }),
            relayed(What::Rtts(proto::RttRows { groups: vec![group] })),
            relayed(What::Metrics(metrics)),
            Body::Wanted(proto::Wanted { v4: vec![1; 2000], v6: vec![0; 32_000].into() }),
            Body::Keepalive(proto::Keepalive {}),
        ] {
            assert!(is_bearable_body(body.clone()), "{body:?}");
        }
    }

    /// Each of them is shorter than the longest frame.
    #[test]
    fn a_frame_of_a_great_many_parts_is_not_read() {
        let many = 100_000;
        let rtts = proto::RttRows { groups: vec![proto::RttGroup::default(); many] };
        let column = proto::RttGroup { v4_rtt_us: vec![1; many], ..Default::default() };
        let column = proto::RttRows { groups: vec![column] };
        let metrics = proto::SiteMetrics { services: vec![proto::Service::default(); many], age_ms: 0 };
        let in_node = proto::NodeMetrics { node: String::new(), metrics: Some(metrics.clone()) };
        for body in [
            Body::Rtts(rtts.clone()),
            Body::Rtts(column.clone()),
            relayed(What::Rtts(rtts)),
            relayed(What::Rtts(column)),
            Body::Metrics(metrics),
            relayed(What::Metrics(in_node)),
            Body::Sightings(proto::Sightings { groups: vec![proto::SightingGroup::default(); many] }),
            Body::Links(proto::Links { links: vec![proto::Link::default(); many] }),
            Body::Sessions(proto::Sessions { groups: vec![proto::SessionGroup::default(); many] }),
            Body::RelayRequest(proto::RelayRequest { sites: vec![String::new(); many] }),
            Body::Hello(proto::Hello {
                settings: vec![proto::Setting::default(); many],
                ..Default::default()
            }),
        ] {
            assert!(!is_bearable_body(body));
        }
        // The same body a great many times, and groups in groups.
        assert!(!is_bearable(&[0x7A, 0].repeat(many)));
        assert!(!is_bearable(&[0x0B; 100]));
    }

    #[test]
    fn what_is_no_protobuf_is_left_to_the_reader() {
        for bytes in [&[0xFF_u8; 30][..], &[0x5A, 200, 1, 1], &[0x0D, 1]] {
            assert!(is_bearable(bytes), "{bytes:?}");
        }
    }
}
