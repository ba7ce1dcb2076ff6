//! Queries for GSLB domains: what the decision becomes on the wire, whose turn it is, and who is to be measured.

mod dns_support;

use dns_support::{ANY, LDNS, NEGATIVE_SOA, Packet, Server, Setup, query};
use gslb_core::dns::Transport;
use gslb_types::{AllDown, GslbMethod, ServiceState, Timestamp};
use std::collections::BTreeMap;

const A: u16 = 1;
const NS: u16 = 2;
const SOA: u16 = 6;
const MX: u16 = 15;
const TXT: u16 = 16;
const AAAA: u16 = 28;
const SRV: u16 = 33;

fn www() -> Packet {
    query("www.gslb.test", A)
}

#[test]
fn i_08_another_type_of_a_gslb_name_is_nodata() {
    let server = Server::new();
    for qtype in [AAAA, MX, TXT, SRV, NS, SOA] {
        let reply = server.ask(&query("www.gslb.test", qtype));
        assert_eq!(
            (reply.header().as_str(), reply.records()),
            ("aa rcode=0 1/0/1/0", format!(" | {NEGATIVE_SOA}"))
        );
    }
}

fn all_down(all_down: AllDown) -> Server {
    let mut setup = Setup { all_down, backup_ip: vec!["192.0.2.99", "2001:db8::99"], ..Setup::default() };
    for service in &mut setup.services {
        service.2 = ServiceState::Down;
    }
    setup.build()
}

#[test]
fn i_09_all_down_and_empty_is_nodata_with_soa_also_through_an_alias() {
    let server = all_down(AllDown::Empty);
    let reply = server.ask(&www());
    assert_eq!(
        (reply.header().as_str(), reply.records()),
        ("aa rcode=0 1/0/1/0", format!(" | {NEGATIVE_SOA}"))
    );
    let alias = server.ask(&query("alias.gslb.test", A));
    assert_eq!(alias.header(), "aa rcode=0 1/1/1/0");
    assert_eq!(alias.records(), format!("alias.gslb.test. 60 CNAME www.gslb.test. | {NEGATIVE_SOA}"));
}

#[test]
fn i_09_all_down_answers_all_or_the_backup_where_so_configured() {
    let all = all_down(AllDown::All);
    assert_eq!(all.ask(&www()).addresses().len(), 1);
    assert_eq!(all.shared.dns.read().all_down, 1);
    let backup = all_down(AllDown::BackupIp);
    assert_eq!(backup.ask(&www()).records(), "www.gslb.test. 5 A 192.0.2.99");
}

#[test]
fn i_11_the_ancestors_of_a_gslb_name_exist() {
    let server = Setup { domains: vec![("w.x.y.gslb.test.", 5)], ..Setup::default() }.build();
    for name in ["x.y.gslb.test", "y.gslb.test"] {
        assert_eq!(server.ask(&query(name, A)).header(), "aa rcode=0 1/0/1/0", "{name}");
    }
    assert_eq!(server.ask(&query("w.x.y.gslb.test", A)).addresses().len(), 1);
}

#[test]
fn i_13_an_apex_can_be_a_gslb_domain_and_keep_its_records() {
    let server = Setup { domains: vec![("gslb.test.", 5)], ..Setup::default() }.build();
    assert_eq!(server.ask(&query("gslb.test", A)).addresses().len(), 1);
    assert_eq!(server.ask(&query("gslb.test", NS)).header(), "aa rcode=0 1/2/0/2");
    assert_eq!(server.ask(&query("gslb.test", SOA)).header(), "aa rcode=0 1/1/0/0");
}

#[test]
fn i_29_the_decision_is_by_the_ldns_with_and_without_client_subnet() {
    let server = Server::new();
    server.measured(LDNS, [40, 9, 70]);
    for packet in [www(), www().edns(1232), www().edns(1232).ecs(1, 24, 0, &[203, 0, 113])] {
        assert_eq!(server.ask(&packet).addresses(), ["192.0.2.20"]);
    }
    assert_eq!(server.shared.dns.read().by_rtt, 3);
}

#[test]
fn i_29_an_unknown_ldns_gets_the_backup_method() {
    let server = Server::new();
    let picks: Vec<String> = (0..6).flat_map(|_| server.ask(&www()).addresses()).collect();
    assert_eq!(picks[..3], ["192.0.2.10", "192.0.2.20", "192.0.2.30"]);
    assert_eq!(picks[3..], picks[..3]);
    assert_eq!(server.shared.dns.read().by_backup, 6);
}

#[test]
fn i_30_the_answer_has_the_domains_ttl() {
    for ttl in [0, 5, 300, 0x7fff_ffff] {
        let server = Setup { domains: vec![("www.gslb.test.", ttl)], ..Setup::default() }.build();
        assert_eq!(server.ask(&www()).message.answers[0].ttl, ttl);
    }
}

#[test]
fn three_thousand_queries_rotate_exactly() {
    let server = Setup { method: GslbMethod::RoundRobin, ..Setup::default() }.build();
    let mut last = String::new();
    let mut picks: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..3000 {
        let [pick] = server.ask(&www()).addresses().try_into().unwrap();
        assert_ne!(pick, last);
        // The AAAA query that comes with each A takes no turn of it.
        server.ask(&query("www.gslb.test", AAAA));
        *picks.entry(pick.clone()).or_default() += 1;
        last = pick;
    }
    assert_eq!(picks.values().copied().collect::<Vec<_>>(), [1000, 1000, 1000]);
}

#[test]
fn turns_taken_by_several_threads_at_once_are_still_even() {
    let server = Setup { method: GslbMethod::RoundRobin, ..Setup::default() }.build();
    std::thread::scope(|scope| {
        let ask = || (0..600).flat_map(|_| server.ask(&www()).addresses()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        let picks: Vec<String> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
        let count = |a: &str| picks.iter().filter(|p| *p == a).count();
        assert_eq!([count("192.0.2.10"), count("192.0.2.20"), count("192.0.2.30")], [800, 800, 800]);
    });
}

#[test]
fn an_alias_of_a_gslb_domain_is_followed_to_the_selected_address() {
    let server = Server::new();
    server.measured(LDNS, [40, 9, 70]);
    let reply = server.ask(&query("alias.gslb.test", A));
    assert_eq!(reply.header(), "aa rcode=0 1/2/0/0");
    assert_eq!(reply.records(), "alias.gslb.test. 60 CNAME www.gslb.test., www.gslb.test. 5 A 192.0.2.20");
}

/// What `explain` looks a name up with: it must find what a query finds.
#[test]
fn a_name_leads_to_the_domain_that_answers_it() {
    let setup = Setup { domains: vec![("www.gslb.test.", 5), ("*.apps.gslb.test.", 5)], ..Setup::default() };
    let server = setup.build();
    let domain = |name| server.shared.published.load().zones.domain(name);
    for (name, expected) in [
        ("www.gslb.test", Some(0)),
        ("WWW.gslb.test.", Some(0)),
        ("a.b.apps.gslb.test", Some(1)),
        ("*.apps.gslb.test", Some(1)),
        ("apps.gslb.test", None),
        ("gslb.test", None),
        ("www.example.org", None),
        ("", None),
        ("a..b", None),
    ] {
        assert_eq!(domain(name), expected, "{name}");
    }
}

#[test]
fn a_wildcard_can_be_a_gslb_domain() {
    let server = Setup { domains: vec![("*.apps.gslb.test.", 5)], ..Setup::default() }.build();
    server.measured(LDNS, [40, 9, 70]);
    assert_eq!(server.ask(&query("x.y.apps.gslb.test", A)).records(), "x.y.apps.gslb.test. 5 A 192.0.2.20");
    assert_eq!(server.ask(&query("x.apps.gslb.test", AAAA)).header(), "aa rcode=0 1/0/1/0");
    assert_eq!(server.ask(&query("apps.gslb.test", A)).header(), "aa rcode=0 1/0/1/0");
}

#[test]
fn services_with_ipv6_addresses_are_answered_to_aaaa_and_to_any() {
    let services = vec![(0, "2001:db8::10", ServiceState::Up), (1, "2001:db8::20", ServiceState::Up)];
    let server = Setup { services, ..Setup::default() }.build();
    server.measured(LDNS, [40, 9, 70]);
    assert_eq!(server.ask(&query("www.gslb.test", AAAA)).records(), "www.gslb.test. 5 AAAA 2001:db8::20");
    assert_eq!(server.ask(&query("www.gslb.test", ANY)).records(), "www.gslb.test. 5 AAAA 2001:db8::20");
    assert_eq!(server.ask(&www()).header(), "aa rcode=0 1/0/1/0");
}

#[test]
fn who_asks_for_a_domain_with_rtts_is_a_sighting() {
    let server = Server::new();
    let sighting = |server: &Server, packet: &Packet| {
        let source = "::ffff:198.51.100.53".parse().unwrap();
        server.send_from(source, &packet.bytes(), Transport::Udp, Timestamp::ZERO).1.sighting
    };
    assert_eq!(sighting(&server, &www()), Some(LDNS), "a mapped address is the IPv4 address it is");
    assert_eq!(sighting(&server, &query("www.gslb.test", AAAA)), Some(LDNS));
    assert_eq!(sighting(&server, &query("alias.gslb.test", A)), Some(LDNS));
    for packet in [query("v4only.gslb.test", A), query("www.gslb.test", TXT), query("nope.gslb.test", A)] {
        assert_eq!(sighting(&server, &packet), None);
    }
    let rotating = Setup { method: GslbMethod::RoundRobin, ..Setup::default() }.build();
    assert_eq!(sighting(&rotating, &www()), None);
}

#[test]
fn a_query_dropped_for_want_of_an_rtt_is_a_sighting_without_reply() {
    let server = Setup { drop_ldns_requests: true, ..Setup::default() }.build();
    let (reply, answered) = server.send_from(LDNS, &www().bytes(), Transport::Udp, Timestamp::ZERO);
    assert_eq!((reply, answered.sighting), (Vec::new(), Some(LDNS)));
    let counts = server.shared.dns.read();
    assert_eq!((counts.ldns_dropped, counts.dropped), (1, 0));
    server.measured(LDNS, [40, 9, 70]);
    assert_eq!(server.ask(&www()).addresses(), ["192.0.2.20"]);
}

#[test]
fn the_service_answered_is_the_next_turns_pointer() {
    let server = Server::new();
    server.measured(LDNS, [40, 9, 70]);
    server.ask(&www());
    let look = |v6| server.shared.turns.of(0, v6).unwrap().look();
    assert_eq!((look(false).last, look(false).round), (Some(1), 0), "an RTT decision takes no turn");
    assert_eq!(look(true).last, None);
}

/// Several addresses: the best first, the others in the order they would be chosen in.
#[test]
fn an_answer_of_several_addresses_goes_from_the_best_on() {
    let server = |addresses| Setup { addresses, ..Setup::default() }.build();
    for (addresses, expected) in [
        (1, &["192.0.2.20"][..]),
        (2, &["192.0.2.20", "192.0.2.10"]),
        (16, &["192.0.2.20", "192.0.2.10", "192.0.2.30"]),
    ] {
        let server = server(addresses);
        server.measured(LDNS, [40, 9, 70]);
        let reply = server.ask(&query("www.gslb.test", 1));
        assert_eq!(reply.addresses(), expected);
        assert!(reply.message.answers.iter().all(|record| record.ttl == 5), "one TTL (faults I-30)");
    }
    let turns = Setup { addresses: 3, method: GslbMethod::RoundRobin, ..Setup::default() }.build();
    let firsts: Vec<String> =
        (0..3).map(|_| turns.ask(&query("www.gslb.test", 1)).addresses()[0].clone()).collect();
    assert_eq!(firsts, ["192.0.2.10", "192.0.2.20", "192.0.2.30"]);
}

#[test]
fn a_wildcard_can_be_a_gslb_domain_and_answers_in_the_name_that_was_asked() {
    let server = Setup { domains: vec![("*.app.gslb.test.", 5)], ..Setup::default() }.build();
    server.measured(LDNS, [40, 9, 70]);
    for name in ["x.app.gslb.test", "a.b.app.gslb.test"] {
        let reply = server.ask(&query(name, 1));
        assert_eq!(reply.records(), format!("{name}. 5 A 192.0.2.20"));
    }
    assert_eq!(server.ask(&query("app.gslb.test", 1)).addresses(), Vec::<String>::new());
}
