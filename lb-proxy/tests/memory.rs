//! The memory of a transfer does not depend on its length.

#![allow(clippy::unwrap_used, clippy::panic, reason = "an integration test is all test")]

mod support;

use lb_proxy::Kind;
use std::time::{Duration, Instant};
use support::alone::{alone, peak, resident};
use support::service::{Connection, Service};
use support::tls::{tls, write_pair};
use support::{Running, eventually, must_run, start, until, vserver};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const MIB: u64 = 1024 * 1024;

/// 2 GiB in the continuous integration, or where `GSLB_TRANSFER_MIB=2048` asks for it.
fn size() -> u64 {
    let ordinary = if must_run() { 2048 } else { 256 };
    std::env::var("GSLB_TRANSFER_MIB").map_or(ordinary, |text| text.parse().unwrap()) * MIB
}

/// A service that sends `size` bytes for GET and counts what it is sent for POST.
async fn mill(size: u64) -> Service {
    Service::start(move |mut connection: Connection| async move {
        while let Some(head) = connection.request().await {
            if head.starts_with("GET") {
                connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n")).await;
                pour(&mut connection.stream, size).await;
            } else {
                drain(&mut connection.stream, size).await;
                connection.respond("all").await;
            }
        }
    })
    .await
}

async fn pour(to: &mut (impl AsyncWrite + Unpin), mut left: u64) {
    let piece = vec![b'y'; 64 * 1024];
    while left > 0 {
        let now = left.min(piece.len() as u64);
        if to.write_all(&piece[..now as usize]).await.is_err() {
            return; // the client has left
        }
        left -= now;
    }
    let _ = to.flush().await;
}

async fn drain(from: &mut (impl AsyncRead + Unpin), mut left: u64) {
    let mut piece = vec![0; 64 * 1024];
    while left > 0 {
        let room = left.min(piece.len() as u64);
        let read = from.read(&mut piece[..room as usize]).await.unwrap() as u64;
        assert!(read > 0, "{left} bytes are missing");
        left -= read;
    }
}

/// Downloads and uploads through a virtual server; prints and bounds what that adds to memory.
async fn transfer<S: AsyncRead + AsyncWrite + Unpin>(
    what: &str,
    running: &Running,
    client: &mut S,
    size: u64,
) {
    let before = resident();
    let begun = Instant::now();
    let exchange = async {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        until(client, "\r\n\r\n").await;
        drain(client, size).await;
        let post = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n");
        client.write_all(post.as_bytes()).await.unwrap();
        pour(client, size).await;
        until(client, "all").await;
    };
    tokio::time::timeout(Duration::from_secs(600), exchange).await.unwrap();
    let (grown, lasted) = (peak().saturating_sub(before), begun.elapsed());
    println!(
        "{what}: {} MiB each way in {lasted:.1?}, {} KiB more in memory at the peak",
        size / MIB,
        grown / 1024
    );
    assert!(grown < 16 * MIB, "{what}: {grown} bytes more");
    let bytes = || running.view().balancer.members[0].bytes;
    eventually("counted", || bytes() > 2 * size).await;
    assert!(bytes() < 2 * size + 4096, "{} counted", bytes());
}

#[test]
fn long_bodies_pass_through_http_without_growth() {
    alone("long_bodies_pass_through_http_without_growth", || async {
        let service = mill(size()).await;
        let running = start(vserver(Kind::Http, &[service.address]));
        let mut client = running.connect().await;
        transfer("http", &running, &mut client, size()).await;
    });
}

#[test]
fn long_streams_pass_through_tcp_without_growth() {
    alone("long_streams_pass_through_tcp_without_growth", || async {
        let service = mill(size()).await;
        let running = start(vserver(Kind::Tcp { proxy_protocol: false }, &[service.address]));
        let mut client = running.connect().await;
        transfer("tcp", &running, &mut client, size()).await;
    });
}

#[test]
fn long_bodies_pass_through_ssl_without_growth() {
    alone("long_bodies_pass_through_ssl_without_growth", || async {
        let size = size();
        let service = mill(size).await;
        let folder = tempfile::tempdir().unwrap();
        let files = write_pair(folder.path(), "a", &["a.test"]);
        let running = start(vserver(Kind::Ssl { certificates: vec![files.clone()] }, &[service.address]));
        let mut client = tls(&running, &files.certificate, &[b"http/1.1"], "a.test").await.unwrap();
        transfer("ssl", &running, &mut client, size).await;
    });
}
