//! The network without I/O, in virtual time.

use super::*;
use crate::link::spread;
use crate::packet::tests::v4;

const FRA: NodeIndex = 0;
const IAD: NodeIndex = 1;
const POOL: NodeIndex = 2;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_micros(ms * 1000)
}

/// Two nodes and a pool: 198.18.1.0/24, 198.18.2.0/24, 198.19.0.0/16, all 40 ms apart one way.
fn network() -> Netem {
    let mut net = Netem::new(7);
    for (prefix, is_pool) in [("198.18.1.0/24", false), ("198.18.2.0/24", false), ("198.19.0.0/16", true)] {
        net.add_node(vec![prefix.parse().expect("a prefix")], is_pool, ms(40).into());
    }
    net
}

fn ping(from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    v4(from, to, 1, &[8, 0, 0, 0, 0, 0, 0, 0])
}

fn fra_to_iad() -> Vec<u8> {
    ping([198, 18, 1, 1], [198, 18, 2, 1])
}

/// Everything that arrives, with its time, until nothing is under way.
fn drain(net: &mut Netem) -> Vec<(Timestamp, Arrival)> {
    let mut all = Vec::new();
    while let Some(now) = net.poll_timeout() {
        net.handle_timeout(now);
        while let Some(arrival) = net.poll_output() {
            all.push((now, arrival));
        }
    }
    all
}

fn times(net: &mut Netem) -> Vec<Timestamp> {
    drain(net).into_iter().map(|(now, _)| now).collect()
}

#[test]
fn a_packet_arrives_after_the_delay_and_not_before() {
    let mut net = network();
    net.handle_packet(at(5), FRA, &fra_to_iad());
    assert_eq!(net.poll_timeout(), Some(at(45)));
    net.handle_timeout(Timestamp::from_micros(44_999));
    assert_eq!(net.poll_output(), None);
    net.handle_timeout(at(45));
    assert_eq!(net.poll_output(), Some(Arrival { to: IAD, packet: fra_to_iad() }));
    assert_eq!((net.poll_output(), net.poll_timeout()), (None, None));
}

#[test]
fn each_direction_has_its_own_delay() {
    let mut net = network();
    net.set_link(FRA, IAD, ms(10).into());
    net.handle_packet(at(0), FRA, &fra_to_iad());
    net.handle_packet(at(0), IAD, &ping([198, 18, 2, 1], [198, 18, 1, 1]));
    assert_eq!(times(&mut net), [at(10), at(40)]);
    assert_eq!(net.round_trip(FRA, [198, 18, 2, 9].into()), Some(ms(50)));
}

#[test]
fn packets_of_equal_time_arrive_in_the_order_they_left() {
    let mut net = network();
    let packets: Vec<_> = (0..50).map(|n| ping([198, 18, 1, n], [198, 18, 2, 1])).collect();
    packets.iter().for_each(|packet| net.handle_packet(at(0), FRA, packet));
    let arrived: Vec<_> = drain(&mut net).into_iter().map(|(_, arrival)| arrival.packet).collect();
    assert_eq!(arrived, packets);
}

#[test]
fn a_new_delay_does_not_touch_packets_under_way() {
    let mut net = network();
    net.handle_packet(at(0), FRA, &fra_to_iad());
    net.set_link(FRA, IAD, ms(5).into());
    net.handle_packet(at(1), FRA, &fra_to_iad());
    assert_eq!(times(&mut net), [at(6), at(40)]);
}

#[test]
fn a_cut_is_silent_and_one_way_and_heals() {
    let mut net = network();
    net.set_passage(FRA, IAD, Passage::Cut);
    net.handle_packet(at(0), FRA, &fra_to_iad());
    assert_eq!((drain(&mut net), net.counts(FRA, IAD).cut), (vec![], 1));
    assert_eq!(net.round_trip(FRA, [198, 18, 2, 1].into()), None);
    net.handle_packet(at(0), IAD, &ping([198, 18, 2, 1], [198, 18, 1, 1]));
    assert_eq!(times(&mut net), [at(40)]);
    net.set_passage(FRA, IAD, Passage::Open);
    net.handle_packet(at(100), FRA, &fra_to_iad());
    assert_eq!(times(&mut net), [at(140)]);
}

#[test]
fn a_rejecting_link_answers_with_an_error_after_the_way_to_its_middle_and_back() {
    let mut net = network();
    net.set_passage(FRA, IAD, Passage::Rejecting(Unreachable::Host));
    net.handle_packet(at(0), FRA, &fra_to_iad());
    let arrived = drain(&mut net);
    assert_eq!(arrived.len(), 1);
    assert_eq!((arrived[0].0, arrived[0].1.to), (at(40), FRA));
    assert_eq!(net.counts(FRA, IAD).rejected, 1);
}

#[test]
fn a_filter_drops_requests_of_its_kinds_and_lets_answers_in() {
    let mut net = network();
    net.set_drops(IAD, &[Kind::Icmp]);
    net.handle_packet(at(0), FRA, &fra_to_iad());
    assert_eq!((drain(&mut net), net.counts(FRA, IAD).dropped), (vec![], 1));
    let reply = v4([198, 18, 1, 1], [198, 18, 2, 1], 1, &[0, 0, 0, 0, 0, 0, 0, 0]);
    net.handle_packet(at(0), FRA, &reply);
    net.handle_packet(at(0), FRA, &v4([198, 18, 1, 1], [198, 18, 2, 1], 17, &[0x80, 0, 0, 53]));
    assert_eq!(drain(&mut net).len(), 2);
    net.set_drops(IAD, &[]);
    net.handle_packet(at(0), FRA, &fra_to_iad());
    assert_eq!(drain(&mut net).len(), 1);
}

#[test]
fn pool_addresses_differ_and_keep_their_distance_in_both_directions() {
    let mut net = network();
    for ends in [(FRA, POOL), (POOL, FRA)] {
        net.set_link(ends.0, ends.1, spread(ms(2), ms(140)).into());
    }
    let delay = |net: &mut Netem, from, packet: &[u8]| {
        net.handle_packet(at(0), from, packet);
        times(net)[0].since(Timestamp::ZERO)
    };
    let mut seen = Vec::new();
    for last in 0..200 {
        let (near, far) = ([198, 18, 1, 1], [198, 19, 77, last]);
        let there = delay(&mut net, FRA, &ping(near, far));
        let back = delay(&mut net, POOL, &ping(far, near));
        assert_eq!(there, back);
        assert!((ms(2)..=ms(140)).contains(&there));
        assert_eq!(net.round_trip(FRA, far.into()), Some(there + back));
        seen.push(there);
    }
    seen.sort();
    seen.dedup();
    assert!(seen.len() > 190, "{} distances", seen.len());
    assert!(seen[0] < ms(10) && seen[seen.len() - 1] > ms(130), "spread over the whole range");
}

#[test]
fn the_seed_decides_the_spread_and_each_node_has_its_own() {
    let of = |seed, near| spread_delay(seed, near, [198, 19, 0, 1].into(), ms(0), ms(1000));
    assert_eq!(of(1, FRA), of(1, FRA));
    assert_ne!(of(1, FRA), of(2, FRA));
    assert_ne!(of(1, FRA), of(1, IAD));
}

#[test]
fn a_near_pool_address_is_not_held_up_by_a_far_one() {
    let mut net = network();
    net.set_link(FRA, POOL, spread(ms(2), ms(140)).into());
    for last in 0..=255 {
        net.handle_packet(at(0), FRA, &ping([198, 18, 1, 1], [198, 19, 0, last]));
    }
    let times = times(&mut net);
    assert!(times[0] < at(10) && times[255] > at(130));
}

#[test]
fn counts_tell_kinds_apart() {
    let mut net = network();
    let (fra, iad) = ([198, 18, 1, 1], [198, 18, 2, 1]);
    let syn = [&[0u8; 13][..], &[2]].concat();
    for packet in [
        fra_to_iad(),
        v4(fra, iad, 1, &[0, 0]),
        v4(fra, iad, 17, &[0, 0, 0, 53]),
        v4(fra, iad, 17, &[0, 53, 0x80, 0]),
        v4(fra, iad, 6, &syn),
        v4(fra, iad, 6, &[0; 14]),
        v4(fra, iad, 47, &[]),
    ] {
        net.handle_packet(at(0), FRA, &packet);
    }
    let expected = Counts {
        packets: 7,
        octets: 20 * 7 + 8 + 2 + 4 + 4 + 14 + 14,
        icmp: 2,
        pings: 1,
        udp: 2,
        requests: 1,
        tcp: 2,
        connects: 1,
        ..Counts::default()
    };
    assert_eq!(net.counts(FRA, IAD), expected);
    assert_eq!(net.counts(IAD, FRA), Counts::default());
    net.reset_counts();
    assert_eq!(net.counts(FRA, IAD), Counts::default());
}

#[test]
fn what_has_no_node_is_counted_and_goes_nowhere() {
    let mut net = network();
    net.handle_packet(at(0), FRA, &ping([198, 18, 1, 1], [192, 0, 2, 1]));
    net.handle_packet(at(0), FRA, &ping([198, 18, 1, 1], [198, 18, 1, 2]));
    net.handle_packet(at(0), FRA, &[0; 40]);
    assert_eq!((net.unroutable(), net.poll_timeout()), (2, None));
}

#[test]
fn octets_under_way_are_bounded() {
    let mut net = network();
    let big = v4([198, 18, 1, 1], [198, 18, 2, 1], 17, &vec![0; 65_000]);
    let fits = UNDER_WAY / big.len();
    for _ in 0..fits + 3 {
        net.handle_packet(at(0), FRA, &big);
    }
    assert_eq!(net.counts(FRA, IAD).overflowed, 3);
    assert_eq!(drain(&mut net).len(), fits);
    assert_eq!(net.octets_under_way, 0);
}
