//! Frames arrive whole, in order, whatever is in them.

use crate::path::Path;
use crate::support::{Node, Pair, authority, id, join, over_both, pair};
use bytes::Bytes;
use mep_core::carrier::{CarrierEvent, MAX_FRAME, Over};
use mep_io::Limits;
use std::time::Duration;

over_both! {
    nothing_is_readable_on_the_way,
    both_ends_learn_whom_they_are_connected_to,
    a_thousand_frames_cross_both_ways_in_order,
    the_largest_frame_passes_and_so_does_an_empty_one,
    what_is_in_a_frame_does_not_matter,
    a_frame_too_long_is_never_sent_and_costs_the_connection,
    the_path_round_trip_is_reported_at_both_ends,
}

/// Different for each number, and every fortieth 200 KiB long.
fn frame(number: usize) -> Bytes {
    let size = if number % 40 == 39 { 200 * 1024 } else { number % 97 };
    (0..size).map(|at| (number.wrapping_mul(31) ^ at.wrapping_mul(7)) as u8).collect()
}

async fn both_ends_learn_whom_they_are_connected_to(over: Over) {
    let ca = authority();
    let (mut a, mut b) = (Node::start(over, &ca, "fra_1/n-2"), Node::start(over, &ca, "ams/1"));
    a.dial("ams/1", b.address).await;
    let CarrierEvent::Connected { peer, dialled, address, certificate_expires, .. } = a.event().await else {
        panic!("not connected");
    };
    assert_eq!((peer, dialled, address), (id("ams/1"), true, b.address));
    assert_eq!(certificate_expires, b.identity.subject().expires);
    let CarrierEvent::Connected { peer, dialled, address, certificate_expires, .. } = b.event().await else {
        panic!("not connected");
    };
    assert_eq!((peer, dialled), (id("fra_1/n-2"), false));
    match over {
        Over::Quic => assert_eq!(address, a.address, "one socket for all"),
        Over::Grpc => assert_eq!(address.ip(), a.address.ip()),
    }
    assert_eq!(certificate_expires, a.identity.subject().expires);
}

async fn a_thousand_frames_cross_both_ways_in_order(over: Over) {
    const COUNT: usize = 1000;
    let Pair { mut a, mut b, at_a, at_b } = pair(over).await;
    let (to_b, to_a) = (a.commands.clone(), b.commands.clone());
    let send = |commands: tokio::sync::mpsc::Sender<_>, conn| async move {
        for number in 0..COUNT {
            let frame = frame(number);
            commands.send(mep_core::carrier::CarrierCommand::Send { conn, frame }).await.unwrap();
        }
    };
    let receive = async |node: &mut Node| {
        for number in 0..COUNT {
            assert_eq!(node.received().await, frame(number), "frame {number}");
        }
    };
    tokio::join!(send(to_b, at_a), send(to_a, at_b), receive(&mut a), receive(&mut b));
}

async fn the_largest_frame_passes_and_so_does_an_empty_one(over: Over) {
    let Pair { a, mut b, at_a, .. } = pair(over).await;
    for size in [MAX_FRAME, 0, 1] {
        a.send(at_a, vec![7; size]).await;
        assert_eq!(b.received().await, vec![7; size]);
    }
}

async fn what_is_in_a_frame_does_not_matter(over: Over) {
    let Pair { a, mut b, at_a, .. } = pair(over).await;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64; // xorshift; the seed is this constant
    for _ in 0..500 {
        let noise: Vec<u8> = (0..state % 300)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect();
        state = state.wrapping_add(1);
        a.send(at_a, noise.clone()).await;
        assert_eq!(b.received().await, noise);
    }
}

async fn a_frame_too_long_is_never_sent_and_costs_the_connection(over: Over) {
    let Pair { mut a, mut b, at_a, .. } = pair(over).await;
    a.send(at_a, vec![0; MAX_FRAME + 1]).await;
    assert_eq!(a.closed().await, "asked to send a frame of 262145 bytes; 262144 are allowed");
    assert!(b.closed().await.starts_with("closed by the peer: asked to send"));
}

async fn the_path_round_trip_is_reported_at_both_ends(over: Over) {
    let ca = authority();
    let limits = Limits { path_rtt: Duration::from_millis(50), ..Limits::default() };
    let node = |me| {
        let pem = ca.issue(&id(me)).unwrap();
        Node::start_with(over, crate::support::identity(&pem, me), limits, 256)
    };
    let Pair { mut a, mut b, at_a, at_b } = join(node("fra/1"), node("ams/1")).await;
    for (node, at) in [(&mut a, at_a), (&mut b, at_b)] {
        for _ in 0..3 {
            let CarrierEvent::PathRtt { conn, rtt } = node.any_event().await else { panic!("no round trip") };
            assert_eq!(conn, at);
            assert!(rtt > Duration::ZERO && rtt < Duration::from_secs(2), "{rtt:?}");
        }
    }
}

/// Threat T7: what a tap on the line sees.
async fn nothing_is_readable_on_the_way(over: Over) {
    const SECRET: &[u8] = b"the quick brown site jumps over the lazy peer";
    let ca = authority();
    let (mut a, mut b) = (Node::start(over, &ca, "fra/1"), Node::start(over, &ca, "ams/1"));
    let path = Path::to(over, b.address).await;
    a.dial("ams/1", path.address).await;
    let ((at_a, _), (at_b, _)) = (a.connected().await, b.connected().await);
    a.send(at_a, SECRET).await;
    assert_eq!(b.received().await, SECRET);
    b.send(at_b, SECRET).await;
    assert_eq!(a.received().await, SECRET);
    b.close(at_b, "a goodbye in words").await;
    assert_eq!(a.closed().await, "closed by the peer: a goodbye in words");
    let seen = path.seen();
    assert!(seen.len() > 2 * SECRET.len(), "the tap works");
    let texts = [SECRET, b"goodbye", b"Exchange", b"mep.gslb.internal", b"spiffe", b"fra/1", b"ams/1"];
    for text in texts {
        let readable = seen.windows(text.len()).any(|window| window == text);
        assert!(!readable, "{} of {} bytes are in clear text", String::from_utf8_lossy(text), seen.len());
    }
    println!("{over}: {} bytes on the way, none of them readable", seen.len());
}
