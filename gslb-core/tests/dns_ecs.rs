//! Client subnets on domains that go by them: whose place, hash and RTT decide, and how far an answer reaches (RFC 7871, faults
//! I-27 to I-29).

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod dns_support;

use config::Persistence;
use dns_support::{LDNS, Packet, Reply, Server, Setup, query};
use gslb_core::dns::Transport;
use gslb_core::{Session, SessionKey};
use gslb_types::{AllDown, GslbMethod, LdnsMasks, ServiceState, Timestamp};
use std::collections::BTreeSet;
use std::time::Duration;

const A: u16 = 1;
const AAAA: u16 = 28;

/// FRA, NYC and SIN answer with these.
const ADDRESSES: [&str; 3] = ["192.0.2.10", "192.0.2.20", "192.0.2.30"];

fn www() -> Packet {
    query("www.gslb.test", A).edns(1232)
}

fn setup(method: GslbMethod) -> Setup {
    let places = vec![("10.0.0.0/8", 0), ("10.1.0.0/16", 1), ("198.51.100.0/24", 2), ("2001:db8::/32", 1)];
    Setup { method, ecs: true, places, ..Setup::default() }
}

/// The site answered and the scope that came with it; the rest of the option is as it was sent.
fn asked(server: &Server, source: u8, address: &[u8]) -> (usize, u8) {
    let family = if source <= 32 && address.len() <= 4 { 1 } else { 2 };
    let reply = server.ask(&www().ecs(family, source, 0, address));
    let [answered] = reply.addresses().try_into().unwrap();
    (ADDRESSES.iter().position(|a| *a == answered).unwrap(), scope(&reply, source, address))
}

fn scope(reply: &Reply, source: u8, address: &[u8]) -> u8 {
    let option = &reply.opt()[11..];
    assert_eq!((option[6], &option[8..]), (source, address), "echoed bit for bit");
    option[7]
}

#[test]
fn i_27_the_place_of_the_client_decides_and_the_scope_says_for_whom() {
    let server = setup(GslbMethod::StaticProximity).build();
    assert_eq!(asked(&server, 24, &[10, 1, 7]), (1, 16));
    assert_eq!(asked(&server, 24, &[10, 200, 7]), (0, 9), "the half of 10/8 without 10.1/16");
    assert_eq!(asked(&server, 24, &[10, 0, 7]), (0, 16));
    assert_eq!(asked(&server, 56, &[0x20, 1, 0xd, 0xb8, 0, 0, 1]), (1, 32));
    assert_eq!(asked(&server, 12, &[10, 0]), (0, 12), "never beyond what was asked for");
}

#[test]
fn i_29_an_unknown_client_and_none_at_all_have_the_place_of_the_ldns() {
    let server = setup(GslbMethod::StaticProximity).build();
    assert_eq!(server.ask(&www()).addresses(), [ADDRESSES[2]]);
    assert_eq!(server.ask(&www()).opt().len(), 11, "no option that was not asked for");
    // 0.0.0.0/5 holds no prefix that is known.
    assert_eq!(asked(&server, 24, &[1, 2, 3]), (2, 5));
    // I-28: a client that gives nothing away.
    assert_eq!(asked(&server, 0, &[]), (2, 0));
}

#[test]
fn a_domain_that_does_not_go_by_subnets_answers_for_all() {
    let server = Setup { ecs: false, ..setup(GslbMethod::StaticProximity) }.build();
    assert_eq!(asked(&server, 24, &[10, 1, 7]), (2, 0));
}

#[test]
fn a_hash_goes_by_what_resolvers_may_send_and_no_more() {
    let server = setup(GslbMethod::SourceIpHash).build();
    let (site, scope) = asked(&server, 32, &[203, 0, 113, 7]);
    assert_eq!(scope, 24);
    assert_eq!(asked(&server, 32, &[203, 0, 113, 200]), (site, 24));
    assert_eq!(asked(&server, 24, &[203, 0, 113]), (site, 24));
    let spread: BTreeSet<usize> = (0..64).map(|n| asked(&server, 24, &[10, 0, n]).0).collect();
    assert_eq!(spread.len(), 3, "clients of one LDNS are told apart");
    assert_eq!(asked(&server, 16, &[10, 0]).1, 16);
}

#[test]
fn where_the_clients_own_prefix_is_measured_its_rtt_decides() {
    let masks = LdnsMasks { v4: 24, v6: 56 };
    let server = Setup { masks, ..setup(GslbMethod::Rtt) }.build();
    server.measured("198.51.100.0".parse().unwrap(), [5, 50, 90]);
    server.measured("203.0.113.0".parse().unwrap(), [80, 9, 90]);
    assert_eq!(asked(&server, 24, &[203, 0, 113]), (1, 24));
    assert_eq!(asked(&server, 32, &[203, 0, 113, 9]), (1, 24));
    // Not measured: the LDNS decides, but the next prefix may be measured.
    assert_eq!(asked(&server, 24, &[203, 0, 112]), (0, 24));
    // So wide a prefix has no entry, but others within it may have.
    assert_eq!(asked(&server, 20, &[203, 0, 0x70]), (0, 20));
    let hosts = setup(GslbMethod::Rtt).build();
    hosts.measured(LDNS, [5, 50, 90]);
    assert_eq!(asked(&hosts, 24, &[203, 0, 113]), (0, 0), "entries are single addresses, and none is told");
    assert_eq!(server.ask(&www()).addresses(), [ADDRESSES[0]]);
}

#[test]
fn what_has_no_address_is_for_everybody() {
    let server = setup(GslbMethod::StaticProximity).build();
    for name in ["www.gslb.test", "nope.gslb.test"] {
        let reply = server.ask(&query(name, AAAA).edns(1232).ecs(1, 24, 0, &[10, 1, 7]));
        assert_eq!(scope(&reply, 24, &[10, 1, 7]), 0, "{name}");
    }
    let down = |n| (n, ADDRESSES[n], ServiceState::Down);
    let backup = Setup {
        services: vec![down(0), down(1)],
        all_down: AllDown::BackupIp,
        backup_ip: vec!["192.0.2.99"],
        ..setup(GslbMethod::StaticProximity)
    };
    let reply = backup.build().ask(&www().ecs(1, 24, 0, &[10, 1, 7]));
    assert_eq!((reply.addresses(), scope(&reply, 24, &[10, 1, 7])), (vec!["192.0.2.99".to_owned()], 0));
}

#[test]
fn where_there_is_nothing_to_choose_the_subnet_makes_no_difference() {
    let server =
        Setup { services: vec![(1, ADDRESSES[1], ServiceState::Up)], ..setup(GslbMethod::StaticProximity) };
    assert_eq!(asked(&server.build(), 24, &[10, 1, 7]), (1, 0));
}

#[test]
fn sessions_are_those_of_the_clients_not_of_their_ldns() {
    let timeout = Duration::from_secs(120);
    let persistence = Some(Persistence { id: 7, mask_v4: 24, mask_v6: 56, timeout });
    let server = Setup { persistence, ..setup(GslbMethod::RoundRobin) }.build();
    let session = |packet: &Packet| {
        let (_, answered) = server.send_from(LDNS, &packet.bytes(), Transport::Udp, Timestamp::ZERO);
        answered.session.map(|(key, _)| key)
    };
    let key = |address: [u8; 4], prefix| SessionKey::new(7, address.into(), prefix);
    assert_eq!(session(&www()), Some(key([198, 51, 100, 0], 24)));
    assert_eq!(session(&www().ecs(1, 32, 0, &[203, 0, 113, 9])), Some(key([203, 0, 113, 0], 24)));
    assert_eq!(
        session(&www().ecs(1, 16, 0, &[203, 0])),
        Some(key([203, 0, 0, 0], 16)),
        "no longer than told"
    );

    let used = Session { service: 2, used: Timestamp::ZERO };
    server.shared.sessions.write(key([203, 0, 113, 0], 24), used);
    for _ in 0..3 {
        assert_eq!(asked(&server, 32, &[203, 0, 113, 9]), (2, 24));
    }
    let others: Vec<usize> = (0..3).map(|n| asked(&server, 24, &[203, 0, n]).0).collect();
    assert_eq!(others.iter().collect::<BTreeSet<_>>().len(), 3, "others take turns: {others:?}");
    assert_eq!(asked(&server, 16, &[203, 0]).1, 16);
}

/// A and AAAA are asked for in pairs: both lead to one site, and neither ends the session of the other.
#[test]
fn a_session_keeps_a_client_at_its_site_for_both_families() {
    let persistence =
        Some(Persistence { id: 7, mask_v4: 32, mask_v6: 128, timeout: Duration::from_secs(120) });
    let up = |site, address| (site, address, ServiceState::Up);
    let services = vec![
        up(0, "192.0.2.10"),
        up(1, "192.0.2.20"),
        up(0, "2001:db8::10"),
        up(0, "2001:db8::11"),
        up(1, "2001:db8::20"),
    ];
    let server = Setup { services, persistence, ecs: false, ..setup(GslbMethod::RoundRobin) }.build();
    let ask = |rtype| {
        let packet = query("www.gslb.test", rtype);
        let (bytes, answered) = server.send_from(LDNS, &packet.bytes(), Transport::Udp, Timestamp::ZERO);
        // As the node task does it.
        let (key, service) = answered.session.unwrap();
        server.shared.sessions.write(key, Session { service, used: Timestamp::ZERO });
        Reply::read(&packet.bytes(), bytes).addresses()
    };
    let first = (ask(A), ask(AAAA));
    assert_eq!(first.0, ["192.0.2.10"]);
    assert!(first.1[0].starts_with("2001:db8::1"), "{first:?}");
    for _ in 0..4 {
        assert_eq!((ask(A), ask(AAAA)), first);
    }
}

/// A stranger's bytes become no session that peers would take for a fault of this node.
#[test]
fn clients_that_nobody_is_have_no_session_of_their_own() {
    let persistence =
        Some(Persistence { id: 7, mask_v4: 24, mask_v6: 56, timeout: Duration::from_secs(120) });
    let server = Setup { persistence, ..setup(GslbMethod::RoundRobin) }.build();
    let mapped = [&[0; 10][..], &[0xff, 0xff, 192, 0, 2, 1]].concat();
    for (family, source, address) in [
        (1, 8, &[0][..]),
        (1, 32, &[0, 0, 0, 1]),
        (1, 32, &[255; 4]),
        (2, 16, &[0xff, 2]),
        (2, 32, &[0; 4]),
        (2, 128, &mapped),
    ] {
        let packet = www().ecs(family, source, 0, address);
        let (_, answered) = server.send_from(LDNS, &packet.bytes(), Transport::Udp, Timestamp::ZERO);
        let key = answered.session.map(|(key, _)| key);
        assert_eq!(key, Some(SessionKey::new(7, LDNS, 24)), "the LDNS decides: {address:?}");
    }
}

#[test]
fn an_alias_carries_the_scope_of_what_it_leads_to() {
    let server = setup(GslbMethod::StaticProximity).build();
    let reply = server.ask(&query("alias.gslb.test", A).edns(1232).ecs(1, 24, 0, &[10, 1, 7]));
    assert_eq!(scope(&reply, 24, &[10, 1, 7]), 16);
}
