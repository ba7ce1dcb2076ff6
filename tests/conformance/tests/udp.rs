//! UDP as strangers use it: bursts, ports nobody has, packets that pretend to come from the server itself.
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use conformance::fixture::Setup;
use conformance::packet::{Packet, query, rtype::A, rtype::SOA};
use conformance::{Node, PATIENCE, Udp, eventually, ours};
use lab::{Lab, Topology, can_run};
use nix::sys::signal::Signal;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

/// Faults I-26: what the kernel throws away because nobody takes it in time shows in /metrics, to the packet.
#[test]
fn a_query_is_answered_or_counted_as_lost() {
    if !ours() {
        return;
    }
    for listen in ["127.0.0.1:0", "0.0.0.0:0"] {
        let node = Setup::default()
            .listen(&[listen])
            .dns("udp_receive_buffer = 8192")
            .dns("udp_threads = 2")
            .start();
        let server = SocketAddr::from(([127, 0, 0, 1], node.address().port()));
        let packet = query("v4only.gslb.test", A).bytes();
        node.signal(Signal::SIGSTOP);
        // From several ports, so that both sockets of the server overflow.
        let clients: Vec<_> = (0..8).map(|_| Udp::to(server)).collect();
        let sent = 8 * 500;
        clients.iter().for_each(|udp| (0..500).for_each(|_| udp.send(&packet)));
        node.signal(Signal::SIGCONT);
        let counted = || {
            let [answered, lost] =
                ["gslb_dns_requests_total{transport=\"udp\"}", "gslb_dns_receive_drops_total"]
                    .map(|name| node.metric(name));
            (answered + lost >= sent).then_some((answered, lost))
        };
        let (answered, lost) = eventually("every query is accounted for", PATIENCE, counted);
        println!("{listen}: of {sent} queries {answered} answered, {lost} lost");
        assert_eq!(answered + lost, sent, "{listen}");
        assert!(answered > 0 && lost > sent / 2, "{listen}: {answered} answered, {lost} lost");
    }
}

/// Faults I-26: resolvers come all at once after a cache was flushed.
#[test]
fn of_a_burst_of_a_thousand_queries_none_is_lost() {
    if !ours() {
        return;
    }
    let node = Setup::default().start();
    let udp = Udp::to(node.address());
    // All replies have room in the asker's buffer: it is the server's that is tested.
    socket2::SockRef::from(udp.socket()).set_recv_buffer_size(4 << 20).expect("a receive buffer");
    for burst in [300, 1000, 1000] {
        let packets: Vec<_> = (0..burst).map(|id| query("v4only.gslb.test", A).id(id).bytes()).collect();
        for packet in &packets {
            udp.send(packet);
        }
        let ids: BTreeSet<_> = (0..burst).map(|_| udp.receive().id()).collect();
        assert_eq!(ids.len(), usize::from(burst));
    }
}

#[test]
fn a_reply_goes_to_the_port_that_asked() {
    if !ours() {
        return;
    }
    let node = Setup::default().start();
    let askers: Vec<_> = (0..50).map(|_| Udp::to(node.address())).collect();
    for (id, asker) in askers.iter().enumerate() {
        asker.send(&query("gslb.test", SOA).id(id as u16).bytes());
    }
    for (id, asker) in askers.iter().enumerate() {
        assert_eq!(usize::from(asker.receive().id()), id);
    }
}

/// A node in a namespace, and an attacker beside it.
fn in_a_lab() -> (Lab, Node) {
    let lab = Topology::new("forged").site("fra").host("mallory").up().expect("a laboratory");
    let setup = Setup::default().listen(&["0.0.0.0:53", "198.18.1.9:5300"]).dns("udp_threads = 1");
    let node = Node::start_with(&setup.text(), &[], |program: Command| {
        let mut inside = lab.command("fra", program.get_program());
        inside.args(program.get_args());
        inside
    });
    (lab, node)
}

/// Faults I-70. The forged packets are followed by an honest one, so that they have been dealt with when it is answered.
#[test]
fn forged_packets_from_port_0_or_from_the_server_itself_start_no_loop() {
    if !ours() || !can_run(&[]) {
        return;
    }
    let (lab, node) = in_a_lab();
    let server = SocketAddr::from((lab.v4("fra"), 53));
    let requests = |node: &Node| {
        let read = || node.metric("gslb_dns_requests_total{transport=\"udp\"}");
        lab.in_namespace("fra", read).expect("the namespace")
    };
    let honest = || {
        let ask = || Udp::to(server).ask(&query("gslb.test", SOA)).counts()[1];
        assert_eq!(lab.in_namespace("mallory", ask).expect("the namespace"), 1);
    };
    honest();
    let before = requests(&node);
    let ask = query("gslb.test", SOA);
    let forged = [
        // From port 0, where nobody is.
        (lab.v4("mallory"), 0, &ask),
        // From the server's own sockets.
        (lab.v4("fra"), 53, &ask),
        (lab.nth_v4("fra", 9), 5300, &ask),
        (lab.v4("fra"), 53, &Packet::new().opcode(9)),
    ];
    for (address, port, packet) in forged {
        for _ in 0..10 {
            lab.in_namespace("mallory", || send_forged((address, port), server, &packet.bytes()))
                .expect("sent");
        }
    }
    honest();
    let counted = || requests(&node) - before;
    // Each forged packet is one request at most, and the reply to it one more that is met with silence.
    eventually("the traffic dies out", PATIENCE, || {
        let first = counted();
        honest();
        (counted() == first + 1).then_some(())
    });
    assert!(counted() <= 2 * 40 + 20, "{} requests", counted());
}

/// Sends a UDP datagram with a source of choice.
fn send_forged((address, port): (Ipv4Addr, u16), to: SocketAddr, payload: &[u8]) {
    let SocketAddr::V4(target) = to else { panic!("IPv4 alone") };
    let length = 8 + payload.len() as u16;
    let total = (20 + length).to_be_bytes();
    // The kernel fills in identification and checksum (raw(7)); UDP over IPv4 may go without one (RFC 768).
    let mut packet = vec![0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend(address.octets());
    packet.extend(target.ip().octets());
    for field in [port, target.port(), length, 0] {
        packet.extend(field.to_be_bytes());
    }
    packet.extend(payload);
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).expect("a raw socket");
    socket.send_to(&packet, &SockAddr::from(SocketAddr::new(to.ip(), 0))).expect("sent");
}
