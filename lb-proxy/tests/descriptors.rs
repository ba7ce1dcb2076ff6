//! What happens when the process has no descriptors left: nothing ends, and it goes on as soon as there are some.

#![allow(clippy::unwrap_used, clippy::panic, reason = "an integration test is all test")]

mod support;

use lb_proxy::Kind;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs::File;
use std::time::{Duration, Instant};
use support::alone::alone;
use support::service::Service;
use support::{body, eventually, header, rest, start, until, vserver, within};
use tokio::io::AsyncWriteExt;

/// Opens files until no more can be.
fn exhaust() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[test]
fn without_descriptors_clients_wait_and_are_served_once_there_are_some() {
    alone("without_descriptors_clients_wait_and_are_served_once_there_are_some", || async {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 128, hard).unwrap();
        let service = Service::fixed("x").await;
        let running = start(vserver(Kind::Http, &[service.address]));
        // One that is in, and has a connection to the service; one that knocks; and nothing is left.
        let mut kept = running.connect().await;
        kept.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        until(&mut kept, "\r\n\r\nx").await;
        let mut files = exhaust();
        drop(files.pop());
        let mut waits = running.connect().await; // by the kernel: there is no descriptor for the other end
        waits.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        eventually("noticed", || running.view().counts.accept_failed >= 2).await;
        // Who is in is served over what is open, and told if something would have to be opened.
        kept.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        assert!(until(&mut kept, "\r\n\r\nx").await.starts_with("HTTP/1.1 200"));
        let (begun, before) = (Instant::now(), running.view().counts.accept_failed);
        tokio::time::sleep(Duration::from_millis(500)).await;
        let tries = running.view().counts.accept_failed - before;
        println!("{tries} tries to accept in {:?}", begun.elapsed());
        assert!(tries <= 20, "{tries}: it must not spin");
        drop(files);
        assert_eq!(body(&rest(&mut waits).await), "x");
        assert_eq!(body(&running.get("/").await), "x");
    });
}

#[test]
fn a_request_for_which_no_connection_can_be_opened_is_answered() {
    alone("a_request_for_which_no_connection_can_be_opened_is_answered", || async {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 128, hard).unwrap();
        let service = Service::fixed("x").await;
        let running = start(vserver(Kind::Http, &[service.address]));
        let mut client = running.connect().await;
        eventually("in", || running.view().connections == 1).await;
        let files = exhaust();
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let head = until(&mut client, "\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 502"), "{head}");
        assert_eq!(header(&head, "gslb-reason"), Some("connect_failed"));
        until(&mut client, "\n").await;
        drop(files);
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        assert!(within(until(&mut client, "\r\n\r\nx")).await.starts_with("HTTP/1.1 200"));
        assert_eq!(running.active(), [0]);
    });
}
