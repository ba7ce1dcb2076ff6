//! Clients that mean no good, or do not know better: bounded, refused, and never passed on.

#![allow(clippy::unwrap_used, reason = "an integration test is all test")]

mod support;

use lb_proxy::{Kind, VserverSettings};
use std::time::{Duration, Instant};
use support::service::Service;
use support::{Running, body, eventually, header, rest, start, until, vserver};
use tokio::io::AsyncWriteExt;

/// A proxy before one service.
async fn before_one() -> (Running, Service) {
    let service = Service::fixed("x").await;
    (start(vserver(Kind::Http, &[service.address])), service)
}

#[tokio::test]
async fn a_request_with_two_lengths_is_found_in_single_bytes_and_after_others() {
    let (running, service) = before_one().await;
    let mut client = running.connect().await;
    for _ in 0..2 {
        client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").await.unwrap();
        assert!(until(&mut client, "\r\n\r\nx").await.starts_with("HTTP/1.1 200"));
    }
    for byte in b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" {
        client.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let response = rest(&mut client).await;
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
    assert_eq!((header(&response, "gslb-reason"), service.heads().len()), (Some("framing"), 2));
}

#[tokio::test]
async fn one_host_is_needed() {
    let (running, service) = before_one().await;
    for hosts in
        ["", "Host: a\r\nHost: a\r\n", "Host: a b\r\n", "Host: a,b\r\n", "Host: a/b\r\n", "Host: u@a\r\n"]
    {
        let response = running.say(format!("GET / HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n")).await;
        assert_eq!(header(&response, "gslb-reason"), Some("host"), "{hosts:?}: {response}");
    }
    assert_eq!(service.heads(), [""; 0]);
    // HTTP/1.0 knows no Host; the service is given the one that the client has connected to.
    assert_eq!(body(&running.say("GET / HTTP/1.0\r\n\r\n").await), "x");
    assert_eq!(header(&service.heads()[0], "host"), Some(running.address.to_string().as_str()));
    // The host of an absolute target is the one that counts.
    running.say("GET http://b:81/p?q HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    let sent = service.heads()[1].clone();
    assert!(sent.starts_with("GET /p?q HTTP/1.1\r\n"), "{sent}");
    assert_eq!(header(&sent, "host"), Some("b:81"));
}

#[tokio::test]
async fn the_proxy_is_no_open_one() {
    let (running, service) = before_one().await;
    let response = running.say("CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\nConnection: close\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 405"), "{response}");
    assert_eq!((header(&response, "gslb-reason"), service.connections()), (Some("method"), 0));
}

#[tokio::test]
async fn heads_beyond_bounds_are_refused() {
    let (running, service) = before_one().await;
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(40_000));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(200));
    let endless = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "y".repeat(1_000_000));
    for (what, request) in [("long", long), ("many", many), ("endless", endless)] {
        let response = running.say(request).await;
        assert!(
            response.is_empty() && what == "endless" || response.starts_with("HTTP/1.1 431"),
            "{what}: {response}"
        );
    }
    let uri = running.say(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "y".repeat(70_000))).await;
    assert!(uri.starts_with("HTTP/1.1 4"), "{uri}");
    assert_eq!(service.connections(), 0);
    let fits = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: {}\r\n\r\n", "y".repeat(30_000));
    assert_eq!(body(&running.say(fits).await), "x");
}

#[tokio::test]
async fn a_head_that_drips_is_cut_off_while_others_are_served() {
    let service = Service::fixed("x").await;
    let mut settings = vserver(Kind::Http, &[service.address]);
    settings.timeouts.request_header = Duration::from_millis(300);
    let running = start(settings);
    let begun = Instant::now();
    let mut drips = Vec::new();
    for first in ["", "G", "GET / HTTP/1.1\r\nX: "] {
        let mut client = running.connect().await;
        client.write_all(first.as_bytes()).await.unwrap();
        drips.push(tokio::spawn(async move {
            let (mut read, mut write) = client.into_split();
            let drip = tokio::spawn(async move {
                while write.write_all(b"y").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
            let heard = rest(&mut read).await;
            drip.abort();
            heard
        }));
    }
    assert_eq!(body(&running.get("/").await), "x");
    for drip in drips {
        drip.await.unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(running.view().counts.timed_out >= 2, "{:?}", running.view().counts);
    eventually("all gone", || running.view().connections == 0).await;
}

#[tokio::test]
async fn a_client_that_rests_or_does_not_read_is_closed() {
    let service = Service::start(|mut connection| async move {
        while let Some(head) = connection.request().await {
            if head.starts_with("GET /much") {
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n").await;
                connection.send(vec![b'y'; 100_000_000]).await;
            } else {
                connection.respond("x").await;
            }
        }
    })
    .await;
    let mut settings = vserver(Kind::Http, &[service.address]);
    settings.timeouts.idle = Duration::from_millis(300);
    let running = start(settings);
    let mut rests = running.connect().await;
    rests.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    assert!(rest(&mut rests).await.ends_with("x"), "answered, and closed for resting");
    let mut deaf = running.connect().await;
    deaf.write_all(b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    eventually("dispatched", || running.active() == [1]).await;
    eventually("given up", || running.active() == [0] && running.view().connections == 0).await;
    assert_eq!(running.view().counts.timed_out, 2);
}

#[tokio::test]
async fn clients_beyond_the_limit_wait_until_there_is_a_place() {
    let service = Service::fixed("x").await;
    let running = start(VserverSettings { max_connections: 2, ..vserver(Kind::Http, &[service.address]) });
    let (first, _second) = (running.connect().await, running.connect().await);
    eventually("both in", || running.view().connections == 2).await;
    let mut third = running.connect().await; // by the kernel alone
    third.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
    eventually("noticed", || running.view().counts.full == 1).await;
    assert_eq!((running.view().connections, service.connections()), (2, 0));
    drop(first);
    assert!(rest(&mut third).await.ends_with("x"));
}

#[tokio::test]
async fn a_body_that_looks_like_a_head_and_requests_in_one_piece_pass() {
    let service = Service::start(|mut connection| async move {
        while let Some(head) = connection.request().await {
            let length = header(&head, "content-length").unwrap().parse().unwrap();
            let sent = connection.exactly(length).await;
            connection.respond(std::str::from_utf8(&sent).unwrap()).await;
        }
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let body_like = "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
    let post = |body: &str, more: &str| {
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n{more}\r\n{body}", body.len())
    };
    let all = [post(body_like, ""), post("second", ""), post("third", "Connection: close\r\n")].concat();
    let response = running.say(all).await;
    assert_eq!(response.matches("HTTP/1.1 200 OK").count(), 3, "{response}");
    assert!(response.contains(body_like) && response.contains("second") && response.ends_with("third"));
}

#[tokio::test]
async fn a_head_alone_says_nothing_about_a_length_that_nobody_knows() {
    let service = Service::start(|mut connection| async move {
        connection.request().await;
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        connection.request().await;
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let response = running.say("HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert_eq!(header(&response, "content-length"), None, "{response}");
}

#[tokio::test]
async fn an_http_2_client_that_rests_is_told_to_go_away() {
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let service = Service::fixed("x").await;
    let mut settings = vserver(Kind::Http, &[service.address]);
    settings.timeouts.idle = Duration::from_millis(300);
    let running = start(settings);
    let stream = TokioIo::new(running.connect().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let ended = tokio::spawn(connection);
    let request =
        hyper::Request::get("http://a.test/").body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
    assert_eq!(support::within(sender.send_request(request)).await.unwrap().status(), 200);
    let begun = Instant::now();
    support::within(ended).await.unwrap().unwrap(); // a proper end
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    eventually("gone", || running.view().connections == 0).await;
}

/// RFC 9112 section 9.6: a socket closed with bytes unread is reset, and the reset would take the answer from a slow reader.
#[tokio::test]
async fn a_client_that_still_sends_can_read_why_it_was_refused() {
    let (running, _service) = before_one().await;
    let mut client = running.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    eventually("refused", || running.view().counts.refused == 1).await;
    for _ in 0..4 {
        client.write_all(&[b'y'; 20_000]).await.unwrap(); // a reset would be told here
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut response = String::new();
    let end = support::within(tokio::io::AsyncReadExt::read_to_string(&mut client, &mut response)).await;
    assert!(end.is_ok(), "a proper end, and no reset: {end:?}");
    assert_eq!(header(&response, "gslb-reason"), Some("framing"), "{response:?}");
}
