//! What strangers and broken peers send.

use crate::path::Path;
use crate::support::{Node, PATIENCE, Pair, authority, id, join, loopback, stranger};
use mep_core::carrier::{MAX_FRAME, Over};
use mep_io::pki::Authority;
use quinn::{Connection, Endpoint, RecvStream, SendStream};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
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
        let config = stranger::client(ca.certificate(), Some(&own), stranger::ALPN);
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

/// First packets of that many handshakes, genuine but for nobody waiting for the answers.
async fn first_packets(ca: &Authority, count: usize) -> Vec<Vec<u8>> {
    let catcher = UdpSocket::bind(loopback()).await.unwrap();
    let endpoint = stranger::endpoint();
    let address = catcher.local_addr().unwrap();
    let config = stranger::client(ca.certificate(), None, stranger::ALPN);
    let (mut seen, mut dialling) = (BTreeMap::new(), Vec::new());
    let mut packet = vec![0; 2000];
    while seen.len() < count {
        dialling
            .push(endpoint.connect_with(config.clone(), address, "1.ams.test.mep.gslb.internal").unwrap());
        let size = timeout(PATIENCE, catcher.recv(&mut packet)).await.unwrap().unwrap();
        let connection_id = packet[6..6 + usize::from(packet[5])].to_vec();
        seen.entry(connection_id).or_insert(packet[..size].to_vec()); // later ones of a handshake are repetitions
    }
    seen.into_values().collect()
}

/// Sends each packet from an address of its own, as if forged, and counts how many were answered with a handshake, and how
/// many with a demand to prove the address (Retry, RFC 9000 section 17.2.5).
async fn flood(packets: &[Vec<u8>], to: SocketAddr) -> (usize, usize) {
    let (mut handshakes, mut demands) = (0, 0);
    let mut answer = vec![0; 2000];
    for (number, packet) in packets.iter().enumerate() {
        let source = Ipv4Addr::from_bits(0x7f01_0000 + number as u32 + 1);
        let socket = UdpSocket::bind((source, 0)).await.unwrap();
        socket.send_to(packet, to).await.unwrap();
        timeout(PATIENCE, socket.recv(&mut answer)).await.expect("every first packet is answered").unwrap();
        if answer[0] >> 4 == 0b1111 { demands += 1 } else { handshakes += 1 }
    }
    (handshakes, demands)
}

#[tokio::test]
async fn handshakes_from_forged_addresses_take_no_room_and_peers_still_get_in() {
    let ca = authority();
    let (mut a, mut b) = (Node::start(Over::Quic, &ca, "fra/1"), Node::start(Over::Quic, &ca, "ams/1"));
    let packets = first_packets(&ca, 400).await;
    let start = Instant::now();
    let (handshakes, demands) = flood(&packets, b.address).await;
    assert_eq!(handshakes + demands, packets.len());
    let rounds = 1 + start.elapsed().as_secs() as usize / 5; // an unfinished handshake is given up after 5 s
    assert!(handshakes <= 32 * rounds, "{handshakes} forged addresses were believed");
    let start = Instant::now();
    a.dial("ams/1", b.address).await;
    assert_eq!(a.connected().await.1, id("ams/1"));
    println!("{handshakes} handshakes, {demands} demands; a peer got in after {:?}", start.elapsed());
    loop {
        match b.event().await {
            mep_core::carrier::CarrierEvent::Connected { peer, .. } => break assert_eq!(peer, id("fra/1")),
            mep_core::carrier::CarrierEvent::Refused { reason, .. } => {
                assert!(reason.contains("not finished"))
            }
            other => panic!("{other:?}"),
        }
    }
}
