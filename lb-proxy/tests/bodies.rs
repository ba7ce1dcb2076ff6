//! Bodies in unusual order or framing: what was sent arrives, and nothing else is taken for it.

#![allow(clippy::unwrap_used, reason = "an integration test is all test")]

mod support;

use http_body_util::StreamBody;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lb_proxy::Kind;
use std::convert::Infallible;
use std::time::{Duration, Instant};
use support::service::{Connection, Service};
use support::{body, eventually, header, rest, start, until, vserver, within};
use tokio::io::AsyncWriteExt;

/// Takes a chunked body of `abc`, and says so.
async fn takes_chunks() -> Service {
    Service::start(|mut connection: Connection| async move {
        while let Some(head) = connection.request().await {
            assert_eq!(header(&head, "transfer-encoding"), Some("chunked"), "{head}");
            assert_eq!(until(&mut connection.stream, "0\r\n\r\n").await, "3\r\nabc\r\n0\r\n\r\n");
            let text = if head.starts_with("HEAD") { "" } else { "taken" };
            connection.respond(text).await;
        }
    })
    .await
}

#[tokio::test]
async fn a_body_passes_whatever_the_method_and_whether_or_not_its_length_is_known() {
    let service = takes_chunks().await;
    let running = start(vserver(Kind::Http, &[service.address]));
    for method in ["GET", "HEAD", "DELETE", "POST"] {
        let request = format!(
            "{method} / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        );
        let response = running.say(request).await;
        assert!(response.starts_with("HTTP/1.1 200"), "{method}: {response}");
    }
    let stream = TokioIo::new(running.connect().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let frame = || Ok::<_, Infallible>(http_body::Frame::data(bytes::Bytes::from_static(b"abc")));
    let pieces = StreamBody::new(futures_util::stream::iter([frame()]));
    let request = hyper::Request::get("http://a.test/").body(pieces).unwrap();
    assert_eq!(within(sender.send_request(request)).await.unwrap().status(), 200);
    assert_eq!(service.heads().len(), 5);
}

/// An answer may come before the request is through. What then follows is still that request's body: it has no head's time, and
/// the head after it is looked at from its own first byte.
#[tokio::test]
async fn the_rest_of_an_upload_after_its_answer_is_not_taken_for_a_head() {
    let service = Service::start(|mut connection: Connection| async move {
        while let Some(head) = connection.request().await {
            if header(&head, "content-length") == Some("32") {
                connection.respond("early").await;
                connection.exactly(32).await;
            } else {
                connection.exactly(3).await;
                connection.respond("next").await;
            }
        }
    })
    .await;
    let mut settings = vserver(Kind::Http, &[service.address]);
    settings.timeouts.request_header = Duration::from_millis(300);
    let running = start(settings);
    let mut client = running.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 32\r\n\r\n").await.unwrap();
    until(&mut client, "early").await;
    for piece in [b"Content-", b"Length: ", b"3\r\nxxxx\n", b"x: y\r\n\r\n"] {
        client.write_all(piece).await.unwrap();
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n";
    client.write_all(format!("{post}\r\nabc").as_bytes()).await.unwrap();
    let answer = until(&mut client, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    until(&mut client, "next").await;
    // What follows an early answer must not blind the look at the next head either.
    let mut blinded = running.connect().await;
    blinded.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 32\r\n\r\n").await.unwrap();
    until(&mut blinded, "early").await;
    blinded.write_all(b"a: b\r\n\r\nxxxxxxxxxxxxxxxxxxxxxxxx").await.unwrap();
    eventually("through", || running.view().idle == [1]).await;
    let both = format!("{post}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    blinded.write_all(both.as_bytes()).await.unwrap();
    let refused = rest(&mut blinded).await;
    assert_eq!(header(&refused, "gslb-reason"), Some("framing"), "{refused}");
}

#[tokio::test]
async fn a_body_that_is_malformed_is_the_clients_fault() {
    let service = Service::start(|mut connection: Connection| async move {
        connection.request().await.unwrap();
        assert_eq!(connection.request().await, None);
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let response = running
        .say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\nabc\r\n")
        .await;
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
    let counts = running.view().counts;
    assert_eq!((header(&response, "gslb-reason"), counts.failed, counts.refused), (Some("body"), 0, 1));
    assert_eq!((running.active(), running.view().idle), (vec![0], vec![0]));
}

/// RFC 9112 section 6.3: the coding wins, and a length beside it must not go on.
#[tokio::test]
async fn a_response_with_two_lengths_passes_with_one() {
    let service = Service::start(|mut connection: Connection| async move {
        connection.request().await.unwrap();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
        connection.send(format!("{head}5\r\nhello\r\n0\r\n\r\n")).await;
        connection.request().await;
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let response = running.get("/").await;
    assert_eq!(header(&response, "content-length"), None, "{response}");
    assert_eq!(body(&response), "5\r\nhello\r\n0\r\n\r\n");
}

/// RFC 9110 section 15.5.22: a 426 says what to change to.
#[tokio::test]
async fn a_426_keeps_its_upgrade() {
    let service = Service::start(|mut connection: Connection| async move {
        connection.request().await.unwrap();
        let head = "HTTP/1.1 426 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n";
        connection.send(head).await;
        connection.request().await;
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    assert_eq!(header(&running.get("/").await, "upgrade"), Some("websocket"));
}

/// What a client takes to send its body is not its service's slowness.
#[tokio::test(start_paused = true)]
async fn the_first_byte_is_awaited_from_the_last_byte_of_the_request() {
    let service = Service::start(|mut connection: Connection| async move {
        connection.request().await.unwrap();
        connection.exactly(6).await;
        tokio::time::sleep(Duration::from_millis(7)).await;
        connection.respond("x").await;
        connection.request().await;
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let mut client = running.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    client.write_all(b"abc").await.unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    client.write_all(b"def").await.unwrap();
    until(&mut client, "\r\n\r\nx").await;
    let ttfb = running.view().balancer.members[0].ttfb.unwrap();
    assert_eq!(ttfb, gslb_types::Rtt::from_micros(7_000));
}

/// A head that comes byte by byte is one answer: the time for it is not begun anew with each byte.
#[tokio::test]
async fn a_head_that_drips_from_a_service_is_given_up_in_time() {
    let service = Service::start(|mut connection: Connection| async move {
        connection.request().await.unwrap();
        connection.send("HTTP/1.1 200 OK\r\nX: ").await;
        loop {
            let gone = tokio::time::timeout(Duration::from_millis(50), connection.request());
            if gone.await.is_ok() {
                return;
            }
            connection.send("y").await;
        }
    })
    .await;
    let mut settings = vserver(Kind::Http, &[service.address]);
    settings.timeouts.first_byte = Duration::from_millis(400);
    let running = start(settings);
    let begun = Instant::now();
    let response = running.get("/").await;
    assert_eq!(header(&response, "gslb-reason"), Some("response_timeout"), "{response}");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}
