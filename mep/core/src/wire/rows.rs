//! RTT rows in columns.
//!
//! A row costs 4 bytes of address and about 2 of RTT: rows that have state, kind and age (to the second) in common share
//! them, and within such a group rows are sorted by RTT, so that differences are small.

use super::{Allowance, Doubts, asker, from_millis, millis, v4_column, v6_column};
use crate::RttRow;
use crate::proto::{self, frame::Body};
use bytes::BytesMut;
use gslb_types::{Ldns, ProbeKind, Reach, Rtt};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// A round trip that two kernels need at the least, over whatever wire: who tells a shorter one makes it up (threat T8).
const LEAST_PLAUSIBLE: Rtt = Rtt::from_micros(10);

/// The body that tells these rows.
pub(crate) fn rtts(rows: &[RttRow]) -> Body {
    Body::Rtts(rtt_rows(rows))
}

/// Likewise, as part of another body.
pub(super) fn rtt_rows(rows: &[RttRow]) -> proto::RttRows {
    let mut groups: BTreeMap<(i32, i32, u64), Group> = BTreeMap::new();
    for row in rows {
        let key = (reach_to_wire(row.reach) as i32, kind_to_wire(row.kind) as i32, row.age.as_secs());
        groups.entry(key).or_default().push(row);
    }
    proto::RttRows {
        groups: groups.into_iter().map(|((reach, kind, _), group)| group.pack(reach, kind)).collect(),
    }
}

/// The rows of a body; those that can't be true are left out and counted.
pub(super) fn read_rtts(rtts: proto::RttRows, doubts: &mut Doubts) -> Vec<RttRow> {
    let mut rows = Vec::new();
    let mut allowance = Allowance::new();
    for group in rtts.groups {
        let Some(v6) = v6_column(&group.v6) else {
            doubts.faults += 1;
            continue;
        };
        if !allowance.take(group.v4.len() + v6.len(), doubts) {
            break;
        }
        let Ok(reach) = proto::Reach::try_from(group.reach) else {
            doubts.unknown = true;
            continue;
        };
        let common = Common { reach, kind: kind_from_wire(group.kind), age: from_millis(group.age_ms) };
        common.read(v4_column(&group.v4), &group.v4_rtt_us, &mut rows, doubts);
        common.read(v6, &group.v6_rtt_us, &mut rows, doubts);
    }
    rows
}

#[derive(Default)]
struct Group {
    oldest: Duration,
    v4: Vec<(u32, u32)>,
    v6: Vec<(u32, [u8; 16])>,
}

impl Group {
    fn push(&mut self, row: &RttRow) {
        self.oldest = self.oldest.max(row.age);
        let micros = row.reach.rtt().map_or(0, Rtt::as_micros);
        match row.ldns.address() {
            IpAddr::V4(a) => self.v4.push((micros, a.to_bits())),
            IpAddr::V6(a) => self.v6.push((micros, a.octets())),
        }
    }

    fn pack(mut self, reach: i32, kind: i32) -> proto::RttGroup {
        self.v4.sort_unstable();
        self.v6.sort_unstable();
        let known = reach == proto::Reach::Known as i32;
        let column = |micros: &mut dyn Iterator<Item = u32>| {
            if known { differences(micros) } else { Vec::new() }
        };
        let mut v6 = BytesMut::with_capacity(self.v6.len() * 16);
        for (_, octets) in &self.v6 {
            v6.extend_from_slice(octets);
        }
        proto::RttGroup {
            reach,
            kind,
            age_ms: millis(self.oldest),
            v4: self.v4.iter().map(|(_, bits)| *bits).collect(),
            v4_rtt_us: column(&mut self.v4.iter().map(|(micros, _)| *micros)),
            v6: v6.freeze(),
            v6_rtt_us: column(&mut self.v6.iter().map(|(micros, _)| *micros)),
        }
    }
}

fn differences(rising: &mut dyn Iterator<Item = u32>) -> Vec<u32> {
    let mut before = 0;
    rising.map(|micros| micros - std::mem::replace(&mut before, micros)).collect()
}

/// What the rows of a group have in common.
struct Common {
    reach: proto::Reach,
    kind: Option<ProbeKind>,
    age: Duration,
}

impl Common {
    fn read(
        &self,
        addresses: impl ExactSizeIterator<Item = IpAddr>,
        differences: &[u32],
        rows: &mut Vec<RttRow>,
        doubts: &mut Doubts,
    ) {
        let columns_fit = differences.len()
            == match self.reach {
                proto::Reach::Known => addresses.len(),
                proto::Reach::Unspecified | proto::Reach::Unreachable | proto::Reach::Withdrawn => 0,
            };
        if !columns_fit {
            doubts.faults += 1;
            return;
        }
        let mut micros = 0_u32;
        for (n, address) in addresses.enumerate() {
            micros = micros.saturating_add(differences.get(n).copied().unwrap_or(0));
            let is_implausible = self.reach == proto::Reach::Known && micros < LEAST_PLAUSIBLE.as_micros();
            doubts.implausible += u64::from(is_implausible);
            match (asker(address), self.reach_of(micros)) {
                (Some(address), Some(reach)) => {
                    rows.push(RttRow { ldns: Ldns::exact(address), reach, kind: self.kind, age: self.age });
                }
                _ => doubts.faults += 1,
            }
        }
    }

    fn reach_of(&self, micros: u32) -> Option<Reach> {
        match self.reach {
            proto::Reach::Known => (Rtt::MIN.as_micros()..=Rtt::MAX.as_micros())
                .contains(&micros)
                .then(|| Reach::Known(Rtt::from_micros(micros))),
            proto::Reach::Unreachable => Some(Reach::Unreachable),
            proto::Reach::Withdrawn => Some(Reach::Pending),
            proto::Reach::Unspecified => None,
        }
    }
}

fn reach_to_wire(reach: Reach) -> proto::Reach {
    match reach {
        Reach::Pending => proto::Reach::Withdrawn,
        Reach::Known(_) => proto::Reach::Known,
        Reach::Unreachable => proto::Reach::Unreachable,
    }
}

fn kind_to_wire(kind: Option<ProbeKind>) -> proto::ProbeKind {
    match kind {
        None => proto::ProbeKind::Unspecified,
        Some(ProbeKind::Ping) => proto::ProbeKind::Ping,
        Some(ProbeKind::DnsUdp) => proto::ProbeKind::DnsUdp,
        Some(ProbeKind::DnsTcp) => proto::ProbeKind::DnsTcp,
    }
}

/// A kind this version does not know measures as well as any; only its name is lost.
fn kind_from_wire(kind: i32) -> Option<ProbeKind> {
    match proto::ProbeKind::try_from(kind).unwrap_or_default() {
        proto::ProbeKind::Unspecified => None,
        proto::ProbeKind::Ping => Some(ProbeKind::Ping),
        proto::ProbeKind::DnsUdp => Some(ProbeKind::DnsUdp),
        proto::ProbeKind::DnsTcp => Some(ProbeKind::DnsTcp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{body, decode};
    use proptest::prelude::*;

    fn row(address: &str, micros: u32, age: u64) -> RttRow {
        RttRow {
            ldns: Ldns::exact(address.parse().unwrap()),
            reach: Reach::Known(Rtt::from_micros(micros)),
            kind: Some(ProbeKind::DnsUdp),
            age: Duration::from_millis(age),
        }
    }

    fn group() -> proto::RttGroup {
        proto::RttGroup {
            reach: proto::Reach::Known as i32,
            v4: vec![0xC000_0201, 0xC000_0202],
            v4_rtt_us: vec![27_000, 1],
            ..Default::default()
        }
    }

    fn read(groups: Vec<proto::RttGroup>) -> (Vec<RttRow>, u64) {
        let mut doubts = Doubts::default();
        let rows = read_rtts(proto::RttRows { groups }, &mut doubts);
        (rows, doubts.faults)
    }

    #[test]
    fn a_thousand_rows_cost_less_than_seven_bytes_each() {
        let rows: Vec<RttRow> = (0..1000_u32)
            .map(|n| RttRow {
                ldns: Ldns::exact(Ipv4(n.wrapping_mul(2_654_435_761) | 1)),
                reach: Reach::Known(Rtt::from_micros(2_000 + n.wrapping_mul(7_919_777) % 298_000)),
                kind: ProbeKind::DEFAULT_ORDER.get(n as usize % 3).copied(),
                age: Duration::from_millis(u64::from(n) * 5),
            })
            .collect();
        let bytes = body(rtts(&rows)).len();
        println!("{:.2} bytes a row", bytes as f64 / 1000.0);
        assert!(bytes <= 7000, "{bytes}");
    }

    #[expect(non_snake_case, reason = "reads like the constructor it stands for")]
    fn Ipv4(bits: u32) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::from_bits(bits))
    }

    /// The very bytes: a change of them is a change of the protocol.
    #[test]
    fn rows_are_packed_in_columns() {
        let rows = [
            row("192.0.2.9", 27_001, 1_500),
            row("192.0.2.8", 27_000, 1_200),
            RttRow { kind: None, reach: Reach::Unreachable, ..row("2001:db8::1", 1, 0) },
        ];
        #[rustfmt::skip]
        let expected: &[u8] = &[
            0x5A, 0x2F, // body: RTT rows, 47 bytes
            0x0A, 0x17, // group of 23 bytes
            0x08, 1, 0x10, 2, 0x18, 0xDC, 0x0B, // known, by DNS-UDP, 1500 ms ago
            0x22, 8, 8, 2, 0, 192, 9, 2, 0, 192, // IPv4, least significant byte first
            0x2A, 4, 0xF8, 0xD2, 1, 1, // 27000 us, 1 us more
            0x0A, 0x14, // group of 20 bytes
            0x08, 2, // unreachable, by nothing told, 0 ms ago
            0x32, 16, 0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        ];
        assert_eq!(body(rtts(&rows)), expected);
    }

    #[test]
    fn an_age_is_never_told_younger_than_it_is() {
        let rows = [row("192.0.2.1", 9, 1_001), row("192.0.2.2", 9, 1_998), row("192.0.2.3", 9, 2_000)];
        let Some(crate::wire::Word::Rtts(read)) = decode(body(rtts(&rows))).unwrap().word else {
            panic!("rows went in")
        };
        let ages: Vec<u128> = read.iter().map(|r| r.age.as_millis()).collect();
        assert_eq!(ages, [1_998, 1_998, 2_000]);
    }

    #[test]
    fn an_rtt_of_zero_or_beyond_ten_seconds_is_left_out_and_counted() {
        let mut bad = group();
        bad.v4_rtt_us = vec![0, 27_000];
        let (rows, faults) = read(vec![bad.clone()]);
        assert_eq!((rows.len(), faults), (1, 1));
        bad.v4_rtt_us = vec![10_000_000, 1];
        let (rows, faults) = read(vec![bad]);
        assert_eq!((rows, faults), (vec![RttRow { kind: None, ..row("192.0.2.1", 10_000_000, 0) }], 1));
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_and_counted() {
        let short = proto::RttGroup { v4_rtt_us: vec![27_000], ..group() };
        let cut = proto::RttGroup { v6: vec![1; 17].into(), v6_rtt_us: vec![5], ..group() };
        let surplus = proto::RttGroup { reach: proto::Reach::Unreachable as i32, ..group() };
        assert_eq!(read(vec![short, cut, surplus]), (vec![], 3));
    }

    #[test]
    fn a_state_this_version_does_not_know_is_no_value() {
        let newer = proto::RttGroup { reach: 77, v4_rtt_us: vec![], ..group() };
        let mut doubts = Doubts::default();
        let rows = read_rtts(proto::RttRows { groups: vec![newer, group()] }, &mut doubts);
        assert_eq!((rows.len(), doubts), (2, Doubts { unknown: true, ..Doubts::default() }));
    }

    #[test]
    fn an_rtt_that_nobody_can_have_is_noticed() {
        let mut doubts = Doubts::default();
        let fast = proto::RttGroup { v4_rtt_us: vec![9, 1], ..group() };
        let rows = read_rtts(proto::RttRows { groups: vec![fast] }, &mut doubts);
        assert_eq!((rows.len(), doubts.implausible, doubts.faults), (2, 1, 0));
        let none = proto::RttGroup { v4_rtt_us: vec![0, 0], ..group() };
        let rows = read_rtts(proto::RttRows { groups: vec![none] }, &mut doubts);
        assert_eq!((rows.len(), doubts.implausible, doubts.faults), (0, 3, 2));
    }

    #[test]
    fn addresses_that_nobody_has_are_left_out() {
        let v4 = [[0, 0, 0, 0], [224, 0, 0, 1], [255, 255, 255, 255]].map(u32::from_be_bytes).to_vec();
        let (rows, faults) = read(vec![proto::RttGroup { v4, v4_rtt_us: vec![5, 5, 5], ..group() }]);
        assert_eq!((rows, faults), (vec![], 3));
    }

    #[test]
    fn a_frame_holds_rows_up_to_the_limit() {
        let many = |n: usize| proto::RttGroup { v4: vec![9; n], v4_rtt_us: vec![1; n], ..group() };
        assert_eq!(read(vec![many(2000)]).0.len(), 2000);
        let (rows, faults) = read(vec![many(1900), many(101)]);
        assert_eq!((rows.len(), faults), (1900, 1));
    }

    fn any_row() -> impl Strategy<Value = RttRow> {
        let address = prop_oneof![
            (1_u32..0xDFFF_FFFF).prop_map(Ipv4),
            (1_u128..1 << 100)
                .prop_map(|bits| IpAddr::V6(std::net::Ipv6Addr::from_bits(bits | 0x2001 << 112))),
        ];
        let reach = prop_oneof![
            Just(Reach::Pending),
            Just(Reach::Unreachable),
            (1_u32..=10_000_000).prop_map(|us| Reach::Known(Rtt::from_micros(us))),
        ];
        let kind = proptest::option::of(prop_oneof![
            Just(ProbeKind::Ping),
            Just(ProbeKind::DnsUdp),
            Just(ProbeKind::DnsTcp)
        ]);
        (address, reach, kind, 0_u64..20).prop_map(|(address, reach, kind, age)| RttRow {
            ldns: Ldns::exact(address),
            reach,
            kind,
            age: Duration::from_secs(age),
        })
    }

    proptest! {
        #[test]
        fn rows_come_out_as_they_went_in(rows in proptest::collection::vec(any_row(), 0..200)) {
            let sorted = |mut rows: Vec<RttRow>| {
                rows.sort_by_key(|r| (r.ldns, r.reach.rtt(), r.age, r.kind, r.reach == Reach::Pending));
                rows
            };
            let incoming = decode(body(rtts(&rows))).unwrap();
            prop_assert!(!incoming.doubts.unknown);
            prop_assert_eq!(incoming.doubts.faults, 0);
            let Some(crate::wire::Word::Rtts(read)) = incoming.word else { panic!("rows went in") };
            prop_assert_eq!(sorted(read), sorted(rows));
        }
    }
}
