//! Checks over TLS: certificates of every kind of trouble, and what is no TLS at all.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

mod common;

use common::certificates::Ca;
use common::checks::*;
use common::failing::{fails, fails_over_tls};
use common::script::{Hear, Hold, Server, Tls, say};
use common::{LONG, Running, v4};
use gslb_types::Check;
use probes_core::wire::CheckOutcome;
use rustls::{HandshakeKind, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

const END: &str = "\r\n\r\n";

#[tokio::test]
async fn a_certificate_that_is_verified_fails_for_what_is_wrong_with_it() {
    let (ca, other, impostor) = (Ca::new(), Ca::named("another"), Ca::new());
    let show = |names: &[&str], from, to| Tls { config: ca.server(names, from, to), wait: 0, counts: false };
    let good = || vec![Hear(END), say("HTTP/1.1 200 OK\r\n\r\n")];
    let www = || verified("www.test", ca.file());
    for kind in [https, Check::Ssl] {
        let expired = show(&["www.test"], -30, -3);
        fails_over_tls(&expired, &kind(www()), good(), "the certificate expired 2 days ago").await;
        let early = show(&["www.test"], 5, 9);
        fails_over_tls(&early, &kind(www()), good(), "the certificate is valid only in 4 days").await;
        let theirs = show(&["mail.test"], -1, 1);
        let reason = "the certificate is not for www.test, but for mail.test";
        fails_over_tls(&theirs, &kind(www()), good(), reason).await;
        let unknown = kind(verified("www.test", other.file()));
        let reason = "the certificate descends from none of the CA certificates";
        fails_over_tls(&show(&["www.test"], -1, 1), &unknown, good(), reason).await;
        let unsigned = kind(verified("www.test", impostor.file()));
        let reason = "the certificate is not signed by the CA that it names";
        fails_over_tls(&show(&["www.test"], -1, 1), &unsigned, good(), reason).await;
    }
    // Not verified, each will do.
    let mut running = Running::on_port(53);
    for (names, from, to) in [(["www.test"], -30, -3), (["www.test"], 5, 9), (["mail.test"], -1, 1)] {
        let server = Server::with(v4(51, 1, 8), Some(show(&names, from, to)), good());
        for check in [https(unverified()), Check::Ssl(unverified())] {
            let outcome = running.check(server.addr, check, LONG).await;
            assert!(matches!(outcome, CheckOutcome::Passed(_)), "{outcome:?}");
        }
    }
    // Without a name it is the address that the certificate must hold.
    let server = Server::with(v4(51, 1, 9), Some(show(&["127.51.1.9"], -1, 1)), good());
    let outcome = running.check(server.addr, https(verified("", ca.file())), LONG).await;
    assert!(matches!(outcome, CheckOutcome::Passed(_)), "{outcome:?}");
    running.stop().await;
}

#[tokio::test]
async fn a_certificate_is_shown_every_time() {
    // A resumed session would show none: one that expires meanwhile would not be noticed.
    let ca = Ca::new();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = ca.server_of(&["www.test"], -1, 1, &[version]);
        let listener = TcpListener::bind((v4(51, 1, 10), 0)).unwrap();
        let (target, (told, kinds)) = (listener.local_addr().unwrap(), mpsc::channel());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let session = ServerConnection::new(config.clone()).unwrap();
                let mut stream = StreamOwned::new(session, stream.unwrap());
                if matches!(stream.read(&mut [0; 1024]), Ok(1..)) {
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
                    stream.conn.send_close_notify();
                    let _ = stream.conn.complete_io(&mut stream.sock);
                }
                told.send(stream.conn.handshake_kind()).unwrap();
            }
        });
        let mut running = Running::on_port(53);
        for _ in 0..3 {
            let outcome = running.check(target, https(verified("www.test", ca.file())), LONG).await;
            assert!(matches!(outcome, CheckOutcome::Passed(_)), "{outcome:?}");
            assert_eq!(kinds.recv().unwrap(), Some(HandshakeKind::Full));
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn what_is_not_tls_or_not_http_is_named() {
    fails(&https(unverified()), vec![say("HTTP/1.1 400 Bad Request\r\n\r\n"), Hold], "not TLS").await;
    fails(&Check::Ssl(unverified()), vec![say("220 ready\r\n"), Hold], "not TLS").await;
    let closed = "connection closed before the TLS handshake was complete";
    fails(&Check::Ssl(unverified()), vec![Hear("\x16")], closed).await;
    let tls = Tls { config: Ca::new().server(&["www.test"], -1, 1), wait: 0, counts: false };
    fails_over_tls(&tls, &https(unverified()), vec![Hear(END), say("SSH-2.0-x\r\n")], "not HTTP").await;
    let half = vec![Hear(END), say("HTTP/1.1 200 OK\r\nContent-")];
    fails_over_tls(&tls, &https(unverified()), half, "connection closed before the response was complete")
        .await;
    fails_over_tls(&tls, &https(unverified()), vec![Hear(END), Hold], "no answer within 300ms").await;
}

#[tokio::test]
async fn a_file_of_ca_certificates_that_holds_none_says_nothing_about_the_service() {
    let mut running = Running::on_port(53);
    let server = Server::start(v4(51, 1, 12), vec![Hold]);
    for (file, why) in [
        ("/nonexistent/ca.crt", "/nonexistent/ca.crt: no such file or directory"),
        ("/etc/hostname", "/etc/hostname: holds no CA certificate"),
    ] {
        let outcome = running.check(server.addr, https(verified("www.test", file.into())), LONG).await;
        assert_eq!(outcome, CheckOutcome::Unable(why.to_owned()));
    }
    running.stop().await;
}
