//! What strangers and broken peers send over TCP, in TLS and in HTTP/2.

use crate::stranger::{Call, METHOD, connect, request};
use crate::support::{Node, PATIENCE, authority, id, identity};
use bytes::Bytes;
use h2::Reason;
use http::HeaderMap;
use mep_core::carrier::{CarrierEvent, MAX_FRAME, Over};
use mep_io::pki::Authority;
use mep_io::{Limits, Pem};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

fn node(ca: &Authority) -> Node {
    Node::start(Over::Grpc, ca, "ams/1")
}

fn bad(ca: &Authority) -> Pem {
    ca.issue(&id("bad/1")).unwrap()
}

async fn call(ca: &Authority, node: &Node, method: &str) -> Call {
    let tls = connect(ca.certificate(), Some(&bad(ca)), b"h2", node.address).await.unwrap();
    Call::open(tls, request(method)).await.unwrap()
}

/// A node of the group that speaks HTTP/2 well and MEP as the test wants.
async fn greeted(ca: &Authority, node: &mut Node) -> Call {
    let mut call = call(ca, node, METHOD).await;
    call.send.send_data(Bytes::from_static(&[0; 5]), false).unwrap();
    assert_eq!(node.connected().await.1, id("bad/1"));
    call
}

fn message(announced: u32, bytes: &[u8]) -> Bytes {
    [&[0], announced.to_be_bytes().as_slice(), bytes].concat().into()
}

#[tokio::test]
async fn a_plaintext_client_is_turned_away() {
    let ca = authority();
    let mut node = node(&ca);
    for words in [&b"GET / HTTP/1.1\r\nHost: ams\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut tcp = TcpStream::connect(node.address).await.unwrap();
        tcp.write_all(words).await.unwrap();
        assert_eq!(node.refused().await, "it does not speak TLS");
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, tcp.read_to_end(&mut answer)).await.expect("it hangs up");
        assert!(!String::from_utf8_lossy(&answer).contains("HTTP"), "{answer:?}");
    }
    node.assert_quiet();
}

#[tokio::test]
async fn another_protocol_in_tls_is_turned_away() {
    let ca = authority();
    let mut node = node(&ca);
    assert!(connect(ca.certificate(), Some(&bad(&ca)), b"http/1.1", node.address).await.is_err());
    let reason = "it does not speak this version of MEP (no common application protocol)";
    assert_eq!(node.refused().await, reason);
}

#[tokio::test]
async fn a_frame_above_the_maximum_closes_the_connection() {
    let ca = authority();
    let mut node = node(&ca);
    for announced in [MAX_FRAME as u32 + 1, u32::MAX] {
        let mut call = greeted(&ca, &mut node).await;
        call.send.send_data(message(announced, &[1; 100]), false).unwrap();
        let told = tokio::spawn(call.told());
        let reason = node.closed().await;
        assert!(
            reason.starts_with("the other end broke the framing: Error, decoded message length"),
            "{reason}"
        );
        let told = told.await.unwrap();
        assert!(told.starts_with("status 3: the other end broke the framing"), "{told}");
    }
}

#[tokio::test]
async fn what_is_no_message_closes_the_connection() {
    let ca = authority();
    let mut node = node(&ca);
    for (bytes, ends) in [
        (message(9, &[1, 2]), true),                       // ends within
        (Bytes::from_static(&[1, 0, 0, 0, 1, 65]), false), // compressed, and nobody agreed to that
        (Bytes::from_static(&[0xff; 64]), false),
    ] {
        let mut call = greeted(&ca, &mut node).await;
        call.send.send_data(bytes, ends).unwrap();
        let reason = node.closed().await;
        assert!(reason.starts_with("the other end broke the framing: "), "{reason}");
    }
}

#[tokio::test]
async fn a_stream_that_is_reset_closes_the_connection() {
    let ca = authority();
    let mut node = node(&ca);
    for (reset, why) in [
        (Reason::CANCEL, "closed by the peer: no reason given"),
        (Reason::ENHANCE_YOUR_CALM, "closed by the peer: too slow: it could not bring its frames across"),
        (Reason::INTERNAL_ERROR, "closed by the peer's HTTP/2: unexpected internal error encountered"),
    ] {
        let mut call = greeted(&ca, &mut node).await;
        call.send.send_reset(reset);
        assert_eq!(node.closed().await, why);
    }
}

#[tokio::test]
async fn a_peer_that_hangs_up_without_a_word_is_gone() {
    let ca = authority();
    let mut node = node(&ca);
    drop(greeted(&ca, &mut node).await);
    let reason = node.closed().await;
    assert!(
        ["the connection broke: the other end hung up", "closed by the peer: no reason given"]
            .contains(&reason.as_str()),
        "{reason}"
    );
}

#[tokio::test]
async fn trailers_say_the_reason_whatever_else_is_in_them() {
    let ca = authority();
    let mut node = node(&ca);
    for (headers, why) in [
        (&[("grpc-status", "14"), ("grpc-message", "bye%0a%1b[2J")][..], "closed by the peer: bye??[2J"),
        (&[("grpc-status", "0")], "the other end finished without a reason"),
        (
            &[("grpc-status", "no number"), ("grpc-message", "%zz%ff")],
            "the other end finished without a reason",
        ),
        (
            &[("grpc-status", "14"), ("grpc-message", "x"), ("grpc-status-details-bin", "!!")],
            "closed by the peer: x",
        ),
        (&[("x-unknown", "1")], "the other end finished without a reason"),
    ] {
        let mut call = greeted(&ca, &mut node).await;
        let mut trailers = HeaderMap::new();
        for (name, value) in headers {
            trailers.insert(*name, value.parse().unwrap());
        }
        call.send.send_trailers(trailers).unwrap();
        let told = tokio::spawn(call.told());
        let reason = node.closed().await;
        let undecodable = reason.starts_with("closed by the peer: Error deserializing status message");
        assert!(reason == why || undecodable, "{headers:?}: {reason}");
        let told = told.await.unwrap();
        assert!(told.starts_with("status 0"), "it is answered in order: {told}");
    }
}

#[tokio::test]
async fn whoever_does_not_greet_is_no_connection() {
    let ca = authority();
    let mut node = node(&ca);
    let mut loud = call(&ca, &node, METHOD).await;
    loud.send.send_data(message(1, b"A"), false).unwrap();
    assert_eq!(node.refused().await, "bad/1: the first frame was not the greeting");

    let other = call(&ca, &node, "/grpc.health.v1.Health/Watch").await;
    let why = "bad/1: it calls for another service than the carrying of MEP";
    assert_eq!(other.told().await, format!("status 3: {why}"));
    assert_eq!(node.refused().await, why);

    // Silent at each of the steps: TCP, TLS, HTTP/2, the call.
    let start = Instant::now();
    let _tcp = TcpStream::connect(node.address).await.unwrap();
    let _tls = connect(ca.certificate(), Some(&bad(&ca)), b"h2", node.address).await.unwrap();
    let tls = connect(ca.certificate(), Some(&bad(&ca)), b"h2", node.address).await.unwrap();
    let (_requests, _connection) = h2::client::handshake(tls).await.unwrap();
    let _call = call(&ca, &node, METHOD).await;
    for _ in 0..4 {
        assert_eq!(node.refused().await, "the handshake was not finished within 5s");
    }
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    node.assert_quiet();
}

#[tokio::test]
async fn a_second_call_on_a_connection_is_refused_and_the_first_goes_on() {
    let ca = authority();
    let mut node = node(&ca);
    let mut call = greeted(&ca, &mut node).await;
    let (second, _send) = match call.requests.clone().ready().await {
        Ok(mut ready) => ready.send_request(request(METHOD), false).unwrap(),
        Err(error) => panic!("{error}"),
    };
    // One call at a time is announced, so it waits in the client, or it is refused.
    let refused = timeout(Duration::from_millis(300), second).await;
    assert!(!matches!(refused, Ok(Ok(_))), "{refused:?}");
    call.send.send_data(message(2, b"on"), false).unwrap();
    assert_eq!(node.received().await, "on");
}

#[tokio::test]
async fn one_peer_gets_eight_connections_and_no_more() {
    let ca = authority();
    let mut node = node(&ca);
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(greeted(&ca, &mut node).await);
    }
    let mut ninth = call(&ca, &node, METHOD).await;
    ninth.send.send_data(Bytes::from_static(&[0; 5]), false).unwrap();
    let told = tokio::spawn(ninth.told());
    assert_eq!(node.refused().await, "bad/1 has too many connections");
    assert_eq!(told.await.unwrap(), "status 7: bad/1 has too many connections");
}

#[tokio::test]
async fn nobody_listening_is_told_at_once() {
    let unbound = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut a = Node::start(Over::Grpc, &authority(), "fra/1");
    a.dial("ams/1", unbound).await;
    let why = format!("{unbound} refused the connection: nobody listens there (TCP)");
    assert_eq!(a.dial_failed().await, why);
}

/// Its kernel takes every byte and its process none: a SIGSTOP, or a machine that hangs (faults I-44).
#[tokio::test]
async fn a_dial_to_a_process_that_stands_still_is_given_up() {
    let ca = authority();
    let stopped = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let limits = Limits { handshake: Duration::from_millis(700), ..Limits::default() };
    let own = identity(&ca.issue(&id("fra/1")).unwrap(), "fra/1");
    let mut a = Node::start_with(Over::Grpc, own, limits, 16);
    let address = stopped.local_addr().unwrap();
    a.dial("ams/1", address).await;
    let why = format!("{address} took the connection and did not greet within 700ms");
    assert_eq!(a.dial_failed().await, why);
}

/// Faults I-71: neither who never began nor who reads nothing holds up the end.
#[tokio::test]
async fn stopping_waits_neither_for_a_silent_client_nor_for_a_peer_that_reads_nothing() {
    let ca = authority();
    let mut node = node(&ca);
    let _silent = TcpStream::connect(node.address).await.unwrap();
    let _half = connect(ca.certificate(), Some(&bad(&ca)), b"h2", node.address).await.unwrap();
    let _deaf = greeted(&ca, &mut node).await; // its flow control never opens again
    let CarrierEvent::Connected { conn, .. } = ({
        let other = Node::start(Over::Grpc, &ca, "fra/1");
        other.dial("ams/1", node.address).await;
        let event = node.event().await;
        drop(other);
        event
    }) else {
        panic!("not connected")
    };
    for _ in 0..20 {
        node.send(conn, vec![1; 200_000]).await;
    }
    let start = Instant::now();
    node.stop.cancel();
    timeout(Duration::from_secs(2), node.running).await.expect("stops in 2 s").unwrap();
    println!("stopped after {:?}", start.elapsed());
    std::net::TcpListener::bind(node.address).expect("the port is free again");
}
