//! What strangers and broken peers send over QUIC.

use crate::path::Path;
use crate::stranger;
use crate::support::{Node, PATIENCE, Pair, authority, id, join, loopback};
use mep_core::carrier::{MAX_FRAME, Over};
use mep_io::pki::Authority;
use quinn::{Connection, Endpoint, RecvStream, SendStream};
use std::time::Instant;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// A node of the group that speaks QUIC well and MEP as the test wants.
struct Broken {
    connection: Connection,
    _endpoint: Endpoint,
}

impl Broken {
    async fn dial(ca: &Authority, node: &Node) -> Broken {
        let own = ca.issue(&id("bad/1")).unwrap();
        let endpoint = stranger::endpoint();
        let config = stranger::client(ca.certificate(), Some(&own), stranger::alpn(Over::Quic));
        let connection = stranger::dial(&endpoint, config, node.address).await.unwrap();
        Broken { connection, _endpoint: endpoint }
    }

    async fn greeted(ca: &Authority, node: &mut Node) -> (Broken, SendStream, RecvStream) {
        let broken = Broken::dial(ca, node).await;
        let (mut send, mut receive) = broken.connection.open_bi().await.unwrap();
        send.write_all(&[0; 4]).await.unwrap();
        receive.read_exact(&mut [0; 4]).await.unwrap();
        assert_eq!(node.connected().await.1, id("bad/1"));
        (broken, send, receive)
    }

    async fn told(&self) -> String {
        timeout(PATIENCE, self.connection.closed()).await.unwrap().to_string()
    }
}

#[tokio::test]
async fn a_frame_above_the_maximum_closes_the_connection() {
    let ca = authority();
    let mut node = Node::start(Over::Quic, &ca, "ams/1");
    for announced in [MAX_FRAME as u32 + 1, u32::MAX] {
        let (broken, mut send, _receive) = Broken::greeted(&ca, &mut node).await;
        send.write_all(&announced.to_be_bytes()).await.unwrap();
        let reason = node.closed().await;
        assert!(reason.starts_with("the other end broke the framing: frame size too big"), "{reason}");
        assert!(broken.told().await.contains("frame size too big"));
    }
}

#[tokio::test]
async fn a_stream_that_ends_within_a_frame_closes_the_connection() {
    let ca = authority();
    let mut node = Node::start(Over::Quic, &ca, "ams/1");
    let (_broken, mut send, _receive) = Broken::greeted(&ca, &mut node).await;
    send.write_all(&[0, 0, 0, 9, 1, 2]).await.unwrap();
    send.finish().unwrap();
    let reason = node.closed().await;
    assert!(reason.starts_with("the other end broke the framing"), "{reason}");
}

#[tokio::test]
async fn a_stream_that_is_reset_closes_the_connection() {
    let ca = authority();
    let mut node = Node::start(Over::Quic, &ca, "ams/1");
    let (_broken, mut send, _receive) = Broken::greeted(&ca, &mut node).await;
    send.reset(7_u32.into()).unwrap();
    let reason = node.closed().await;
    assert!(reason.starts_with("the other end broke the framing"), "{reason}");
}

#[tokio::test]
async fn a_stream_that_ends_without_a_close_is_closed_all_the_same() {
    let ca = authority();
    let mut node = Node::start(Over::Quic, &ca, "ams/1");
    let (_broken, mut send, _receive) = Broken::greeted(&ca, &mut node).await;
    send.finish().unwrap();
    assert_eq!(node.closed().await, "the other end finished without a reason");
}

#[tokio::test]
async fn whoever_does_not_greet_is_no_connection() {
    let ca = authority();
    let mut node = Node::start(Over::Quic, &ca, "ams/1");
    let broken = Broken::dial(&ca, &node).await;
    let (mut send, _receive) = broken.connection.open_bi().await.unwrap();
    send.write_all(&[0, 0, 0, 1, 65]).await.unwrap();
    assert_eq!(node.refused().await, "bad/1: the first frame was not the greeting");
    assert!(broken.told().await.contains("not the greeting"));

    let silent = Broken::dial(&ca, &node).await;
    assert_eq!(node.refused().await, "bad/1 did not greet within 5s");
    assert!(silent.told().await.contains("did not greet"));
    node.assert_quiet();
}

#[tokio::test]
async fn another_protocol_is_turned_away() {
    let ca = authority();
    let mut node = Node::start(Over::Quic, &ca, "ams/1");
    let own = ca.issue(&id("bad/1")).unwrap();
    let config = stranger::client(ca.certificate(), Some(&own), b"h3");
    let endpoint = stranger::endpoint();
    assert!(stranger::dial(&endpoint, config, node.address).await.is_err());
    assert_eq!(
        node.refused().await,
        "it does not speak this version of MEP (no common application protocol)"
    );
}

#[tokio::test]
async fn one_peer_gets_eight_connections_and_no_more() {
    let ca = authority();
    let mut node = Node::start(Over::Quic, &ca, "ams/1");
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(Broken::greeted(&ca, &mut node).await);
    }
    let ninth = Broken::dial(&ca, &node).await;
    let (mut send, _receive) = ninth.connection.open_bi().await.unwrap();
    send.write_all(&[0; 4]).await.unwrap();
    assert_eq!(node.refused().await, "bad/1 has too many connections");
    assert!(ninth.told().await.contains("too many connections"));
}

#[tokio::test]
async fn garbage_on_the_port_is_ignored() {
    let ca = authority();
    let Pair { a, mut b, at_a, .. } =
        join(Node::start(Over::Quic, &ca, "fra/1"), Node::start(Over::Quic, &ca, "ams/1")).await;
    let socket = UdpSocket::bind(loopback()).await.unwrap();
    let mut packet = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    for round in 0..300_usize {
        packet.resize(1 + (round * 17) % 1400, round as u8);
        let bits = round as u8;
        if let Some(first) = packet.first_mut() {
            *first = bits; // with and without the long-header bit
        }
        socket.send_to(&packet, b.address).await.unwrap();
    }
    a.send(at_a, "undisturbed").await;
    assert_eq!(b.received().await, "undisturbed");
}

#[tokio::test]
async fn large_packets_that_vanish_do_not_stop_large_frames() {
    let ca = authority();
    let (mut a, mut b) = (Node::start(Over::Quic, &ca, "fra/1"), Node::start(Over::Quic, &ca, "ams/1"));
    let path = Path::to(Over::Quic, b.address).await;
    a.dial("ams/1", path.address).await;
    let ((at_a, _), _) = (a.connected().await, b.connected().await);
    a.send(at_a, vec![1; 200_000]).await;
    assert_eq!(b.received().await.len(), 200_000);
    path.narrow(1252); // faults I-53: after the larger size has been found to work
    for _ in 0..5 {
        a.send(at_a, vec![2; 200_000]).await;
        assert_eq!(b.received().await.len(), 200_000);
    }
}

/// Faults I-53: a path that never carried more than QUIC must (RFC 9000 section 14).
#[tokio::test]
async fn a_path_of_the_smallest_packets_carries_large_frames_both_ways() {
    let ca = authority();
    let (mut a, mut b) = (Node::start(Over::Quic, &ca, "fra/1"), Node::start(Over::Quic, &ca, "ams/1"));
    let path = Path::to(Over::Quic, b.address).await;
    path.narrow(1200);
    a.dial("ams/1", path.address).await;
    let ((at_a, _), (at_b, _)) = (a.connected().await, b.connected().await);
    let start = Instant::now();
    for _ in 0..5 {
        a.send(at_a, vec![1; MAX_FRAME]).await;
        b.send(at_b, vec![2; MAX_FRAME]).await;
        assert_eq!(b.received().await, vec![1; MAX_FRAME]);
        assert_eq!(a.received().await, vec![2; MAX_FRAME]);
    }
    println!("ten frames of {MAX_FRAME} bytes in packets of 1,200: {:?}", start.elapsed());
}

/// Faults I-53: a firewall that drops UDP is told within seconds, and TCP at the same port number passes.
#[tokio::test]
async fn blocked_udp_is_a_connect_timeout_within_seconds_and_tcp_gets_through() {
    let ca = authority();
    let (mut a, mut b) = (Node::start(Over::Quic, &ca, "fra/1"), Node::start(Over::Grpc, &ca, "ams/1"));
    let path = Path::to(Over::Quic, b.address).await;
    path.narrow(0);
    let start = Instant::now();
    a.dial("ams/1", path.address).await;
    let reason = a.dial_failed().await;
    println!("told after {:?}: {reason}", start.elapsed());
    assert!(reason.starts_with("connect timeout: no answer from"), "{reason}");
    assert!(start.elapsed().as_secs() < 8);
    a.over = Over::Grpc;
    a.dial("ams/1", b.address).await;
    a.connected().await;
    b.connected().await;
}
