//! WebSockets with real frames, through http and ssl.
//!
//! Over HTTP/2 they need extended CONNECT (RFC 8441), which virtual servers do not offer: clients that find no
//! `SETTINGS_ENABLE_CONNECT_PROTOCOL` use HTTP/1.1, and the last test holds that.

#![allow(clippy::unwrap_used, reason = "an integration test is all test")]

mod support;

use futures_util::{SinkExt, StreamExt};
use lb_proxy::Kind;
use std::net::SocketAddr;
use support::raw_h2;
use support::tls::{tls, write_pair};
use support::{eventually, start, vserver, within};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_tungstenite::{accept_async, client_async};

/// A service that sends back every message, for as many clients as come. It ends with the runtime.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut socket = accept_async(stream).await.unwrap();
                while let Some(Ok(message)) = socket.next().await {
                    if message.is_text() || message.is_binary() {
                        socket.send(message).await.unwrap();
                    }
                }
            });
        }
    });
    address
}

/// Talks until the proper end: short and long messages, a ping, a close with its reason.
async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin, number: u32) {
    let (mut socket, response) = within(client_async("ws://a.test/echo", stream)).await.unwrap();
    assert_eq!(response.status(), 101);
    let long: Bytes = (0..1_000_000u32).map(|n| (n ^ number) as u8).collect::<Vec<_>>().into();
    for message in [Message::text(format!("hello {number}")), Message::binary(long), Message::text("")] {
        socket.send(message.clone()).await.unwrap();
        assert_eq!(within(socket.next()).await.unwrap().unwrap(), message);
    }
    socket.send(Message::Ping(Bytes::from_static(b"p"))).await.unwrap();
    assert_eq!(within(socket.next()).await.unwrap().unwrap(), Message::Pong(Bytes::from_static(b"p")));
    let close = CloseFrame { code: CloseCode::Away, reason: "done".into() };
    socket.close(Some(close.clone())).await.unwrap();
    assert_eq!(within(socket.next()).await.unwrap().unwrap(), Message::Close(Some(close)));
    assert!(within(socket.next()).await.is_none(), "and no reset");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websockets_echo_through_http() {
    let running = start(vserver(Kind::Http, &[echo().await, echo().await]));
    let mut clients = JoinSet::new();
    for number in 0..10 {
        let stream = running.connect().await;
        clients.spawn(talk(stream, number));
    }
    clients.join_all().await;
    eventually("all over", || running.active() == [0, 0] && running.view().connections == 0).await;
    assert_eq!((running.view().counts.tunnels, running.requests()), (10, vec![5, 5]));
    let bytes: u64 = running.view().balancer.members.iter().map(|m| m.bytes).sum();
    assert!((20_000_000..20_100_000).contains(&bytes), "{bytes} bytes counted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websockets_echo_through_ssl() {
    let folder = tempfile::tempdir().unwrap();
    let files = write_pair(folder.path(), "a", &["a.test"]);
    let running = start(vserver(Kind::Ssl { certificates: vec![files.clone()] }, &[echo().await]));
    for number in 0..2 {
        let stream = tls(&running, &files.certificate, &[b"http/1.1"], "a.test").await.unwrap();
        talk(stream, number).await;
    }
    eventually("all over", || running.active() == [0] && running.view().connections == 0).await;
    assert_eq!(running.view().counts.tunnels, 2);
}

/// RFC 8441 section 3: who does not say this number, `1`, has no WebSockets over HTTP/2.
#[tokio::test]
async fn http_2_does_not_offer_websockets() {
    const ENABLE_CONNECT_PROTOCOL: [u8; 2] = [0, 8];
    let running = start(vserver(Kind::Http, &[echo().await]));
    let mut stream = raw_h2::connect(&running).await;
    let mut head = [0; 9];
    within(stream.read_exact(&mut head)).await.unwrap();
    assert_eq!((head[3], head[4]), (4, 0), "SETTINGS come first");
    let mut settings = vec![0; usize::from(head[2])];
    within(stream.read_exact(&mut settings)).await.unwrap();
    assert!(settings.len() >= 6 && settings.len().is_multiple_of(6));
    assert!(settings.chunks(6).all(|setting| setting[..2] != ENABLE_CONNECT_PROTOCOL), "{settings:?}");
}
