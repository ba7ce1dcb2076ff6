//! How connections end, and what both ends are told.

use crate::path::Path;
use crate::support::{Node, PATIENCE, Pair, authority, id, identity, join, loopback, over_both, pair};
use mep_core::carrier::{CarrierCommand, CarrierEvent, Over};
use mep_io::{Carrier, Limits, Settings};
use std::net::{TcpListener, UdpSocket};
use std::time::{Duration, Instant};
use tokio::time::timeout;

over_both! {
    what_was_queued_before_a_close_arrives_and_then_the_reason,
    both_ends_may_close_at_once,
    commands_for_a_connection_that_is_gone_do_nothing,
    a_peer_that_does_not_keep_up_is_closed_as_too_slow,
    a_close_does_not_wait_for_ever_for_a_peer_that_reads_nothing,
    an_address_of_the_other_family_is_a_failed_dial,
    a_peer_that_vanishes_is_closed_by_the_idle_timeout,
    a_session_that_says_nothing_is_not_kept_alive_by_the_transport,
    a_peer_may_come_back_as_often_as_it_likes,
    stopping_delivers_the_goodbye_and_ends_every_task_soon,
    stopping_does_not_wait_for_a_node_that_takes_no_events,
    a_node_whose_commands_end_says_so_to_its_peers,
    events_that_nobody_takes_do_not_hold_up_commands,
}

async fn what_was_queued_before_a_close_arrives_and_then_the_reason(over: Over) {
    let Pair { mut a, mut b, at_a, .. } = pair(over).await;
    for number in 0..200_u8 {
        a.send(at_a, vec![number; 10_000]).await;
    }
    a.close(at_a, "goodbye: going for maintenance").await;
    for number in 0..200_u8 {
        assert_eq!(b.received().await, vec![number; 10_000]);
    }
    assert_eq!(b.closed().await, "closed by the peer: goodbye: going for maintenance");
    assert_eq!(a.closed().await, "goodbye: going for maintenance");
}

async fn both_ends_may_close_at_once(over: Over) {
    let Pair { mut a, mut b, at_a, at_b } = pair(over).await;
    tokio::join!(a.close(at_a, "first"), b.close(at_b, "second"));
    assert!(["first", "closed by the peer: second"].contains(&a.closed().await.as_str()));
    assert!(["second", "closed by the peer: first"].contains(&b.closed().await.as_str()));
}

async fn commands_for_a_connection_that_is_gone_do_nothing(over: Over) {
    let Pair { mut a, mut b, at_a, .. } = pair(over).await;
    a.close(at_a, "done").await;
    a.send(at_a, "late").await;
    a.close(at_a, "again").await;
    assert_eq!(a.closed().await, "done");
    assert_eq!(b.closed().await, "closed by the peer: done");
    a.send(at_a, "later").await;
    a.dial("ams/1", b.address).await;
    assert!(a.connected().await.0 > at_a, "numbers are not used again");
}

async fn a_peer_that_does_not_keep_up_is_closed_as_too_slow(over: Over) {
    let ca = authority();
    let limits = Limits { queue_frames: 64, ..Limits::default() };
    let node = |me, room| Node::start_with(over, identity(&ca.issue(&id(me)).unwrap(), me), limits, room);
    let Pair { mut a, mut b, at_a, .. } = join(node("fra/1", 256), node("ams/1", 1)).await;
    let start = Instant::now();
    let slow = loop {
        a.send(at_a, vec![1; 100_000]).await;
        match a.events.try_recv() {
            Ok(CarrierEvent::Closed { reason, .. }) => break reason,
            Ok(CarrierEvent::PathRtt { .. }) | Err(_) => tokio::task::yield_now().await,
            Ok(other) => panic!("{other:?}"),
        }
        assert!(start.elapsed() < PATIENCE);
    };
    assert!(slow.starts_with("too slow: 64 frames with"), "{slow}");
    let told = loop {
        match b.event().await {
            CarrierEvent::Received { .. } => {}
            CarrierEvent::Closed { reason, .. } => break reason,
            other => panic!("{other:?}"),
        }
    };
    assert!(told.starts_with("closed by the peer: too slow"), "{told}");
}

async fn a_close_does_not_wait_for_ever_for_a_peer_that_reads_nothing(over: Over) {
    let ca = authority();
    let node =
        |me, room| Node::start_with(over, identity(&ca.issue(&id(me)).unwrap(), me), Limits::default(), room);
    let Pair { mut a, b: _b, at_a, .. } = join(node("fra/1", 256), node("ams/1", 1)).await;
    for _ in 0..40 {
        a.send(at_a, vec![1; 200_000]).await;
    }
    let start = Instant::now();
    a.close(at_a, "bye").await;
    assert_eq!(a.closed().await, "bye");
    assert!(start.elapsed() < Limits::default().flush + Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test]
async fn nobody_listening_is_told_within_seconds() {
    let unbound = UdpSocket::bind(loopback()).unwrap().local_addr().unwrap();
    let mut a = Node::start(Over::Quic, &authority(), "fra/1");
    let start = Instant::now();
    a.dial("ams/1", unbound).await;
    let reason = a.dial_failed().await;
    assert!(reason.starts_with(&format!("connect timeout: no answer from {unbound} within 5s")), "{reason}");
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}

async fn an_address_of_the_other_family_is_a_failed_dial(over: Over) {
    let mut a = Node::start(over, &authority(), "fra/1");
    a.dial("ams/1", "[::1]:4784".parse().unwrap()).await;
    assert!(a.dial_failed().await.contains("can't be dialled from here"));
}

#[tokio::test]
async fn an_address_that_is_taken_can_not_be_listened_on() {
    let a = Node::start(Over::Quic, &authority(), "fra/1");
    let taken = |listen| {
        let settings = Settings { listen, identity: a.identity.clone(), limits: Limits::default() };
        Carrier::bind(settings).err().expect("the address is taken").to_string()
    };
    let error = taken(a.address);
    assert!(error.starts_with(&format!("cannot listen for MEP on {} (UDP)", a.address)), "{error}");
    let tcp = TcpListener::bind(loopback()).unwrap().local_addr().unwrap();
    let held = TcpListener::bind(tcp).unwrap();
    let error = taken(held.local_addr().unwrap());
    assert!(error.starts_with(&format!("cannot listen for MEP on {tcp} (TCP)")), "{error}");
}

async fn a_peer_that_vanishes_is_closed_by_the_idle_timeout(over: Over) {
    let ca = authority();
    let limits = Limits { idle: Duration::from_millis(500), ..Limits::default() };
    let node = |me| Node::start_with(over, identity(&ca.issue(&id(me)).unwrap(), me), limits, 256);
    let (mut a, mut b) = (node("fra/1"), node("ams/1"));
    let path = Path::to(over, b.address).await;
    a.dial("ams/1", path.address).await;
    a.connected().await;
    b.connected().await;
    path.narrow(0);
    for node in [&mut a, &mut b] {
        // Whoever notices first may be able to say so.
        let reason = node.closed().await;
        assert!(reason.ends_with("nothing was heard from the peer until the idle timeout"), "{reason}");
    }
}

async fn a_session_that_says_nothing_is_not_kept_alive_by_the_transport(over: Over) {
    let ca = authority();
    let limits = Limits { idle: Duration::from_millis(500), ..Limits::default() };
    let node = |me| Node::start_with(over, identity(&ca.issue(&id(me)).unwrap(), me), limits, 256);
    let Pair { mut a, mut b, .. } = join(node("fra/1"), node("ams/1")).await;
    for node in [&mut a, &mut b] {
        // Whoever notices first may be able to say so.
        let reason = node.closed().await;
        assert!(reason.ends_with("nothing was heard from the peer until the idle timeout"), "{reason}");
    }
}

async fn a_peer_may_come_back_as_often_as_it_likes(over: Over) {
    let ca = authority();
    let (mut a, mut b) = (Node::start(over, &ca, "fra/1"), Node::start(over, &ca, "ams/1"));
    for _ in 0..20 {
        a.dial("ams/1", b.address).await;
        let (at_a, _) = a.connected().await;
        b.connected().await;
        a.close(at_a, "again").await;
        assert_eq!(a.closed().await, "again");
        assert_eq!(b.closed().await, "closed by the peer: again");
    }
}

#[tokio::test]
async fn stopping_gives_up_dials_that_are_under_way() {
    let ca = authority();
    let limits = Limits { flush: PATIENCE, handshake: PATIENCE, ..Limits::default() };
    let a = Node::start_with(Over::Quic, identity(&ca.issue(&id("fra/1")).unwrap(), "fra/1"), limits, 256);
    let silent = UdpSocket::bind(loopback()).unwrap();
    a.dial("ams/1", silent.local_addr().unwrap()).await;
    let mut packet = [0; 2000];
    tokio::task::spawn_blocking(move || silent.recv(&mut packet)).await.unwrap().unwrap();
    a.stop.cancel();
    timeout(Duration::from_secs(2), a.running).await.expect("stops in 2 s").unwrap();
}

async fn stopping_delivers_the_goodbye_and_ends_every_task_soon(over: Over) {
    let Pair { mut a, mut b, at_a, .. } = pair(over).await;
    a.dial("syd/1", "127.0.0.1:9".parse().unwrap()).await; // under way when the node stops
    a.send(at_a, "goodbye").await;
    a.close(at_a, "stopping for an upgrade").await;
    let start = Instant::now();
    a.stop.cancel();
    timeout(Duration::from_secs(2), a.running).await.expect("stops in 2 s").unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(b.received().await, "goodbye");
    assert_eq!(b.closed().await, "closed by the peer: stopping for an upgrade");
    assert_eq!(a.events.recv().await.map(|_| ()), Some(()), "our own end is told too");
    while let Some(event) = a.events.recv().await {
        assert!(!matches!(event, CarrierEvent::DialFailed { .. }), "{event:?}");
    }
    UdpSocket::bind(a.address).expect("the port is free again");
    TcpListener::bind(a.address).expect("and that of TCP");
}

async fn stopping_does_not_wait_for_a_node_that_takes_no_events(over: Over) {
    let ca = authority();
    let node =
        |me, room| Node::start_with(over, identity(&ca.issue(&id(me)).unwrap(), me), Limits::default(), room);
    let Pair { a, b, at_a, .. } = join(node("fra/1", 256), node("ams/1", 1)).await;
    for _ in 0..10 {
        a.send(at_a, "unread").await;
    }
    b.stop.cancel();
    timeout(Duration::from_secs(2), b.running).await.expect("stops in 2 s").unwrap();
}

async fn a_node_whose_commands_end_says_so_to_its_peers(over: Over) {
    let Pair { a, mut b, .. } = pair(over).await;
    drop(a.commands);
    assert_eq!(b.closed().await, "closed by the peer: the node stops");
    timeout(PATIENCE, a.running).await.expect("stops").unwrap();
}

async fn events_that_nobody_takes_do_not_hold_up_commands(over: Over) {
    let ca = authority();
    let node =
        |me, room| Node::start_with(over, identity(&ca.issue(&id(me)).unwrap(), me), Limits::default(), room);
    let Pair { a, b, at_a, at_b } = join(node("fra/1", 256), node("ams/1", 1)).await;
    for _ in 0..600 {
        let frame = vec![1; 10].into();
        timeout(PATIENCE, b.commands.send(CarrierCommand::Send { conn: at_b, frame }))
            .await
            .unwrap()
            .unwrap();
        a.send(at_a, vec![1; 10]).await;
    }
}
