//! Answering allocates nothing, and the commonest answer is as short as it can be.

mod dns_support;

use dns_support::{LDNS, Packet, Server, query};
use gslb_core::dns::{Transport, answer};
use gslb_types::Timestamp;

fn allocations(server: &Server, packet: &Packet) -> u64 {
    let request = packet.bytes();
    let mut out = [0; 1232];
    let mut ask = || {
        let published = server.shared.published.load();
        let source = LDNS;
        answer(&server.shared, &published, &request, source, Transport::Udp, Timestamp::ZERO, &mut out).len
    };
    // The first query of a thread pays for arc-swap's slots.
    assert!(ask() > 0);
    allocation_counter::measure(|| assert!(ask() > 0)).count_total
}

#[test]
fn answering_allocates_nothing() {
    let server = Server::new();
    server.measured(LDNS, [40, 9, 70]);
    for packet in [
        query("www.gslb.test", 1),
        query("www.gslb.test", 1).edns(1232),
        query("www.gslb.test", 1).edns(1232).ecs(1, 24, 0, &[198, 51, 100]),
        query("www.gslb.test", 28),
        query("alias.gslb.test", 1),
        query("nope.gslb.test", 1),
        query("x.wild.gslb.test", 1),
        query("gslb.test", 2),
        query("gslb.test", 15),
        query("big.gslb.test", 1),
        query("www.example.org", 1),
        Packet::new(),
    ] {
        assert_eq!(allocations(&server, &packet), 0, "{:x?}", packet.bytes());
    }
}

#[test]
fn the_counter_sees_allocations() {
    assert!(allocation_counter::measure(|| drop(std::hint::black_box(vec![1]))).count_total > 0);
}

#[test]
fn an_address_adds_sixteen_bytes_to_the_question() {
    let server = Server::new();
    // The size the reference servers need for a name of 19 bytes in the question: 12 + 21 + 16.
    let reply = server.ask(&query("v4only.gslb.test", 1));
    assert_eq!(reply.bytes.len(), 12 + 22 + 16);
    let www = server.ask(&query("www.gslb.test", 1));
    assert_eq!(www.bytes.len(), 12 + 19 + 16);
}
