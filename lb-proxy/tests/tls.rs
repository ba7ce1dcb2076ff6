//! TLS virtual servers: names, protocols, certificates that change.

#![allow(clippy::unwrap_used, reason = "an integration test is all test")]

mod support;

use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lb_core::LocalPersistence;
use lb_proxy::{CertificateFiles, Kind, Proxy, StartError, VserverSettings};
use std::time::{Duration, Instant};
use support::service::Service;
use support::tls::{tls, write_pair};
use support::{body, header, rest, start, vserver, within};
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

fn ssl(service: &Service, certificates: Vec<CertificateFiles>) -> VserverSettings {
    vserver(Kind::Ssl { certificates }, &[service.address])
}

#[tokio::test]
async fn each_name_has_its_certificate_and_a_strange_one_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let first = write_pair(folder.path(), "first", &["a.test"]);
    let second = write_pair(folder.path(), "second", &["b.test", "*.c.test"]);
    let service = Service::fixed("secret").await;
    let running = start(ssl(&service, vec![first.clone(), second.clone()]));
    for (name, trusts) in
        [("a.test", &first), ("b.test", &second), ("x.c.test", &second), ("B.test", &second)]
    {
        let mut client = tls(&running, &trusts.certificate, &[], name).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        assert_eq!(body(&rest(&mut client).await), "secret", "{name}");
    }
    assert_eq!(header(&service.heads()[0], "x-forwarded-proto"), Some("https"));
    let strange = tls(&running, &first.certificate, &[], "z.test").await.unwrap_err().to_string();
    assert!(strange.contains("not valid for name"), "the first certificate, which is not for it: {strange}");
    assert!(tls(&running, &second.certificate, &[], "x.y.c.test").await.is_err(), "a wildcard is one label");
}

#[tokio::test]
async fn http_2_is_agreed_on_and_cookies_arrive_whole() {
    let folder = tempfile::tempdir().unwrap();
    let pair = write_pair(folder.path(), "a", &["a.test"]);
    let service = Service::fixed("two").await;
    let mut settings = ssl(&service, vec![pair.clone()]);
    settings.balancer.persistence = LocalPersistence::Cookie;
    let running = start(settings);
    let stream = tls(&running, &pair.certificate, &[b"h2", b"http/1.1"], "a.test").await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let http2 = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = http2.await.unwrap();
    tokio::spawn(connection);
    let request = || {
        hyper::Request::get("https://a.test/p")
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .header("te", "trailers")
    };
    let mut responses = Vec::new();
    for _ in 0..3 {
        responses.push(sender.send_request(request().body(Empty::<bytes::Bytes>::new()).unwrap()));
    }
    for response in responses {
        let response = within(response).await.unwrap();
        assert_eq!(response.status(), 200);
        let cookie = response.headers()["set-cookie"].to_str().unwrap();
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "two");
    }
    let sent = service.heads()[0].clone();
    assert!(sent.starts_with("GET /p HTTP/1.1\r\n"), "{sent}");
    assert_eq!(
        (header(&sent, "host"), header(&sent, "cookie"), header(&sent, "te")),
        (Some("a.test"), Some("a=1; b=2"), Some("trailers"))
    );
    let http1 = tls(&running, &pair.certificate, &[b"http/1.1"], "a.test").await.unwrap();
    assert_eq!(http1.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[tokio::test]
async fn a_new_certificate_is_served_and_a_bad_pair_keeps_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let files = write_pair(folder.path(), "a", &["a.test"]);
    let service = Service::fixed("x").await;
    let running = start(ssl(&service, vec![files.clone()]));
    let old = folder.path().join("old.pem");
    std::fs::copy(&files.certificate, &old).unwrap();
    let mut before = tls(&running, &old, &[], "a.test").await.unwrap();

    write_pair(folder.path(), "other", &["a.test"]);
    std::fs::copy(folder.path().join("other.pem"), &files.certificate).unwrap(); // its key is not there yet
    let failed = running.proxy.reload_certificates();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].1.to_string().contains("does not fit the certificate"), "{}", failed[0].1);
    tls(&running, &old, &[], "a.test").await.unwrap();

    std::fs::copy(folder.path().join("other.key"), &files.key).unwrap();
    assert!(running.proxy.reload_certificates().is_empty());
    tls(&running, &files.certificate, &[], "a.test").await.unwrap();
    assert!(tls(&running, &old, &[], "a.test").await.is_err());
    before.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
    assert_eq!(body(&rest(&mut before).await), "x", "connections that are open go on");

    std::fs::write(&files.certificate, "nothing").unwrap();
    assert!(running.proxy.reload_certificates()[0].1.to_string().contains("a.pem: holds no certificate"));
}

/// Nobody says anything but the files themselves. A look every ten seconds.
#[tokio::test]
async fn changed_files_are_noticed_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let files = write_pair(folder.path(), "a", &["a.test"]);
    let service = Service::fixed("x").await;
    let running = start(ssl(&service, vec![files.clone()]));
    let old = folder.path().join("old.pem");
    std::fs::copy(&files.certificate, &old).unwrap();
    let is_new = async || tls(&running, &files.certificate, &[], "a.test").await.is_ok();
    let begun = Instant::now();
    write_pair(folder.path(), "a", &["a.test"]);
    assert!(!is_new().await, "not yet");
    while !is_new().await {
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert!(
            tls(&running, &old, &[], "a.test").await.is_ok() || is_new().await,
            "one of the two at any time"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("noticed after {:?}", begun.elapsed());
    assert!(tls(&running, &old, &[], "a.test").await.is_err());
}

#[tokio::test]
async fn certificates_that_can_not_be_used_are_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::fixed("x").await;
    let files =
        CertificateFiles { certificate: folder.path().join("no.pem"), key: folder.path().join("no.key") };
    for certificates in [vec![], vec![files]] {
        let refused = Proxy::start(vec![ssl(&service, certificates)], &CancellationToken::new()).unwrap_err();
        assert!(matches!(refused, StartError::Certificate(..)), "{refused}");
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_come_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let files = write_pair(folder.path(), "a", &["a.test"]);
    let service = Service::fixed("x").await;
    let mut settings = ssl(&service, vec![files]);
    settings.timeouts.connect = Duration::from_millis(200);
    let running = start(settings);
    let mut silent = running.connect().await;
    let mut plain = running.connect().await;
    plain.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    assert_eq!(rest(&mut silent).await, "");
    rest(&mut plain).await;
    assert_eq!((running.view().counts.handshake_failed, running.view().counts.requests), (2, 0));
}
