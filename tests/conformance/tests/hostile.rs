//! Packets nobody would send on purpose, against the running process (bars R1, R3): no reply that a resolver would not
//! understand, nobody else's query unanswered, no memory kept.
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use conformance::fixture::Setup;
use conformance::mutate::Mutator;
use conformance::packet::{HEADER, query, rtype::SOA};
use conformance::{Node, Reply, Tcp, Udp, framed, ours};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

const PACKETS: usize = 20_000;
const STREAMS: usize = 500;

/// Packets sent before the replies to them are read: their replies fit into the socket's buffer.
const BATCH: usize = 100;

/// What may be kept for good, after the caches of a first round are warm (bar R1).
const GROWTH: u64 = 8 << 20;

/// The ID of the query that ends a batch. Packets have lower ones.
const LAST: u16 = 0xffff;

/// A node, warmed up: threads, buffers and allocator arenas are there.
fn node() -> Node {
    let node = Setup::default().dns("udp_threads = 1").dns("tcp_idle_timeout = \"2s\"").start();
    flood(&node, &mut Mutator::new(7), PACKETS / 10);
    streams(&node, &mut Mutator::new(7), STREAMS / 5);
    node
}

/// Sends mutated packets and judges every reply. A proper query after each batch must be answered.
fn flood(node: &Node, mutator: &mut Mutator, count: usize) {
    let udp = Udp::to(node.address());
    for batch in 0..count / BATCH {
        let mut sent = BTreeMap::new();
        for n in 0..BATCH {
            let mut packet = mutator.packet();
            let id = (n as u16).to_be_bytes();
            if let Some(place) = packet.first_chunk_mut() {
                *place = id;
                sent.insert(n as u16, packet.clone());
            }
            udp.send(&packet);
        }
        udp.send(&query("gslb.test", SOA).id(LAST).bytes());
        loop {
            let reply = udp.receive();
            if reply.id() == LAST {
                assert_eq!(reply.counts()[1], 1, "batch {batch}");
                break;
            }
            let request = sent.remove(&reply.id()).expect("one reply to each packet, with its ID");
            judge(&request, &reply);
        }
        // One socket, one thread: what has no reply by now gets none.
        for silent in sent.values() {
            let is_reply = silent.len() >= HEADER && silent[2] & 0x80 != 0;
            assert!(silent.len() < HEADER || is_reply, "no reply to {silent:02x?}");
        }
    }
}

fn judge(request: &[u8], reply: &Reply) {
    assert!(request.len() >= HEADER && request[2] & 0x80 == 0, "a reply to what is no query: {request:02x?}");
    assert_eq!(reply.bytes[2] & 0xf8, 0x80 | request[2] & 0x78, "QR and opcode: {request:02x?}");
    assert!(reply.bytes.len() <= 1232, "{} octets", reply.bytes.len());
    // 512 octets are what one may get without EDNS.
    assert!(reply.opt().is_some() || reply.bytes.len() <= 512, "{} octets", reply.bytes.len());
    let question = reply.question();
    assert_eq!(question, &request[HEADER..HEADER + question.len()], "the question comes back");
}

/// Opens connections that send anything but what they should, and end in all ways there are.
fn streams(node: &Node, mutator: &mut Mutator, count: usize) {
    for n in 0..count {
        let packet = mutator.packet();
        let frame = framed(&packet);
        let octets = match mutator.below(6) {
            0 => packet,
            1 => frame.repeat(5),
            2 => frame[..1 + mutator.below(frame.len())].to_vec(),
            3 => [&[0xff; 2], &packet[..]].concat(),
            4 => [&[0; 100], &frame[..]].concat(),
            _ => frame,
        };
        let tcp = Tcp::to(node.address());
        let mut stream = tcp.stream();
        // The server may close while we still write.
        let _ = stream.write_all(&octets);
        if mutator.below(2) == 0 {
            let _ = stream.shutdown(Shutdown::Write);
        }
        stream.set_read_timeout(Some(Duration::from_millis(2))).expect("a time-out");
        let mut replies = Vec::new();
        if mutator.below(3) > 0 {
            let ended = stream.read_to_end(&mut replies);
            let waits = |kind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::ConnectionReset);
            assert!(ended.as_ref().err().is_none_or(|error| waits(error.kind())), "{ended:?}");
        }
        let mut rest = &replies[..];
        while let Ok(Some(reply)) = conformance::next_message(&mut rest) {
            Reply::of(reply);
        }
        if n % 25 == 24 {
            assert_eq!(Tcp::to(node.address()).ask(&query("gslb.test", SOA)).counts()[1], 1);
        }
    }
}

#[test]
fn mutated_packets_and_streams_harm_nobody_and_leave_nothing_behind() {
    if !ours() {
        return;
    }
    let node = node();
    let before = node.resident();
    flood(&node, &mut Mutator::new(1), PACKETS);
    streams(&node, &mut Mutator::new(2), STREAMS);
    let grown = node.resident().saturating_sub(before);
    assert!(grown <= GROWTH, "{} KiB", grown >> 10);
    assert!(!node.log().contains("panick"), "{}", node.log());
}

/// Faults I-66: what strangers send is counted, not logged.
#[test]
fn bad_packets_write_no_log() {
    if !ours() {
        return;
    }
    let node = Setup::default().start();
    let lines = node.log().lines().count();
    let udp = Udp::to(node.address());
    let bad = [
        query("gslb.test", SOA).edns(1232).edns_version(1, 0),
        query("gslb.test", SOA).opcode(6),
        query("gslb.test", SOA).lie(0, 2),
        query("www.example.org", SOA),
    ];
    for _ in 0..250 {
        for packet in &bad {
            udp.ask(packet);
        }
    }
    assert!(node.log().lines().count() <= lines + 5, "{}", node.log());
    assert!(node.metric("gslb_dns_replies_total{rcode=\"formerr\"}") >= 250);
}
