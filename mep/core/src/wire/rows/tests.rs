//! What goes out comes in, and what may not come in stays out.

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
        (1_u128..1 << 100).prop_map(|bits| IpAddr::V6(std::net::Ipv6Addr::from_bits(bits | 0x2001 << 112))),
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
