//! TCP virtual servers: any protocol, and its ends.

#![allow(clippy::unwrap_used, reason = "an integration test is all test")]

mod support;

use gslb_types::ServiceState;
use lb_proxy::Kind;
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use support::service::{Connection, Service};
use support::{eventually, name, start, until, vserver, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const TCP: Kind = Kind::Tcp { proxy_protocol: false };

/// Reads to the end, counts, and only then answers: it needs the client's end passed on, and its own side open after it.
async fn counting() -> Service {
    Service::start(|mut connection: Connection| async move {
        let mut all = Vec::new();
        connection.stream.read_to_end(&mut all).await.unwrap();
        connection.send(format!("{} bytes", all.len())).await;
    })
    .await
}

/// How a connection ends: `None` for a proper end.
async fn end_of(mut client: TcpStream) -> Option<ErrorKind> {
    let mut all = Vec::new();
    within(client.read_to_end(&mut all)).await.err().map(|error| error.kind())
}

#[tokio::test]
async fn the_end_of_one_side_is_passed_on_and_the_other_goes_on() {
    let service = counting().await;
    let running = start(vserver(TCP, &[service.address]));
    let mut client = running.connect().await;
    client.write_all(&vec![7; 300_000]).await.unwrap();
    eventually("active", || running.active() == [1]).await;
    client.shutdown().await.unwrap();
    assert_eq!(support::rest(&mut client).await, "300000 bytes");
    eventually("ended", || running.active() == [0] && running.view().connections == 0).await;
    let member = running.view().balancer.members[0].clone();
    assert_eq!((member.bytes, member.requests), (300_012, 1));
    // 300,000 bytes are 208 full segments at least, and no more than the reads and writes they passed in.
    assert!((208..=300).contains(&member.packets), "{} packets", member.packets);
    println!("300,012 bytes counted as {} packets", member.packets);
}

#[tokio::test]
async fn the_service_may_speak_first() {
    let service = Service::start(|mut connection: Connection| async move {
        connection.send("220 ready\r\n").await;
        assert_eq!(connection.exactly(6).await, b"QUIT\r\n");
    })
    .await;
    let running = start(vserver(TCP, &[service.address]));
    let mut client = running.connect().await;
    assert_eq!(until(&mut client, "\r\n").await, "220 ready\r\n");
    client.write_all(b"QUIT\r\n").await.unwrap();
    assert_eq!(end_of(client).await, None);
}

#[tokio::test]
async fn a_reset_of_one_side_is_a_reset_for_the_other() {
    let service = Service::start(|mut connection: Connection| async move {
        connection.exactly(1).await;
        connection.stream.get_ref().set_zero_linger().unwrap();
    })
    .await;
    let running = start(vserver(TCP, &[service.address]));
    let mut client = running.connect().await;
    client.write_all(b"x").await.unwrap();
    assert_eq!(end_of(client).await, Some(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn without_a_service_the_client_is_reset() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let running = start(vserver(TCP, &[gone]));
    assert_eq!(end_of(running.connect().await).await, Some(ErrorKind::ConnectionReset));
    running.proxy.handle_health(&name("s1"), ServiceState::Down, None);
    assert_eq!(end_of(running.connect().await).await, Some(ErrorKind::ConnectionReset));
    let counts = running.view().counts;
    assert_eq!((counts.failed, counts.no_service, running.requests()), (1, 1, vec![0]));
}

#[tokio::test]
async fn a_connection_goes_to_another_member_if_the_first_can_not_be_reached() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let service = counting().await;
    let running = start(vserver(TCP, &[gone, service.address]));
    let mut client = running.connect().await;
    client.shutdown().await.unwrap();
    assert_eq!(support::rest(&mut client).await, "0 bytes");
    assert_eq!(running.requests(), [0, 1]);
}

#[tokio::test]
async fn the_proxy_protocol_names_the_client_first() {
    let service = Service::start(|mut connection: Connection| async move {
        let header = connection.exactly(28).await;
        assert_eq!(header[..16], *b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c");
        assert_eq!(header[16..24], [127, 0, 0, 1, 127, 0, 0, 1]);
        let port = u16::from_be_bytes([header[24], header[25]]);
        assert_eq!(connection.exactly(2).await, b"hi");
        connection.send(port.to_string()).await;
    })
    .await;
    let running = start(vserver(Kind::Tcp { proxy_protocol: true }, &[service.address]));
    let mut client = running.connect().await;
    let port = client.local_addr().unwrap().port();
    client.write_all(b"hi").await.unwrap();
    assert_eq!(support::rest(&mut client).await, port.to_string());
}

#[tokio::test]
async fn a_connection_that_rests_is_closed_and_one_that_moves_is_not() {
    let service = Service::start(|mut connection: Connection| async move {
        while let Ok(byte) = connection.stream.read_u8().await {
            connection.send([byte]).await;
        }
    })
    .await;
    let mut settings = vserver(TCP, &[service.address]);
    settings.timeouts.idle = Duration::from_millis(300);
    let running = start(settings);
    let mut client = running.connect().await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(700) {
        client.write_all(b"x").await.unwrap();
        assert_eq!(until(&mut client, "x").await, "x");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(end_of(client).await, Some(ErrorKind::ConnectionReset));
    assert_eq!(running.view().counts.timed_out, 1);
}

#[tokio::test]
async fn the_end_of_a_drain_cuts_what_still_runs() {
    let service = Service::start(|mut connection: Connection| async move {
        connection.send("hello\n").await;
        connection.request().await;
    })
    .await;
    let running = start(vserver(TCP, &[service.address]));
    let mut client = running.connect().await;
    until(&mut client, "hello\n").await;
    let begun = Instant::now();
    running.proxy.drain(&name("s1"), Some(Duration::from_millis(300)));
    assert!(!running.proxy.is_drained(&name("s1")));
    assert_eq!(end_of(running.connect().await).await, Some(ErrorKind::ConnectionReset), "nothing new");
    assert_eq!(running.active(), [1], "what runs goes on");
    assert_eq!(end_of(client).await, Some(ErrorKind::ConnectionReset));
    let lasted = begun.elapsed();
    assert!(lasted >= Duration::from_millis(300) && lasted < Duration::from_secs(2), "{lasted:?}");
    eventually("drained", || running.proxy.is_drained(&name("s1"))).await;
}
