//! Services that die or are drained while requests come: who fails, and who may not.

#![allow(clippy::unwrap_used, reason = "an integration test is all test")]

mod support;

use lb_proxy::Kind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::service::{Connection, Service};
use support::{Running, eventually, header, name, start, until, vserver};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

const CLIENTS: usize = 16;

/// A service that takes a moment for each request.
async fn busy(text: &'static str) -> Service {
    Service::start(move |mut connection: Connection| async move {
        while connection.request().await.is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            connection.respond(text).await;
        }
    })
    .await
}

/// Clients that ask again and again, until they are told to stop.
struct Load {
    running: Arc<Running>,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: JoinSet<Vec<String>>,
}

impl Load {
    fn start(running: Running, request: &'static str) -> Self {
        let running = Arc::new(running);
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            clients.spawn(ask(running.clone(), request, stop.clone(), answered.clone()));
        }
        Load { running, stop, answered, clients }
    }

    async fn answers(&self, more: usize) {
        let from = self.answered.load(SeqCst);
        eventually("answered", || self.answered.load(SeqCst) >= from + more).await;
    }

    /// The heads of all responses that were no 200.
    async fn end(self) -> (Arc<Running>, Vec<String>) {
        self.stop.store(true, SeqCst);
        let failures = self.clients.join_all().await.concat();
        println!("{} answers, {} failures", self.answered.load(SeqCst), failures.len());
        (self.running, failures)
    }
}

async fn ask(
    running: Arc<Running>,
    request: &'static str,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
) -> Vec<String> {
    let mut failures = Vec::new();
    let mut client = running.connect().await;
    while !stop.load(SeqCst) {
        client.write_all(request.as_bytes()).await.unwrap();
        let head = until(&mut client, "\r\n\r\n").await;
        let length: usize = header(&head, "content-length").unwrap().parse().unwrap();
        let mut body = vec![0; length];
        tokio::io::AsyncReadExt::read_exact(&mut client, &mut body).await.unwrap();
        if !head.starts_with("HTTP/1.1 200") {
            failures.push(head);
        }
        answered.fetch_add(1, SeqCst);
    }
    failures
}

/// Those alone may fail whose bytes were on their way to the service that died: at most one for each client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_killed_under_load_takes_only_requests_with_it_that_were_sent_to_it() {
    for request in
        ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"]
    {
        let (first, second, third) = (busy("a").await, busy("b").await, busy("c").await);
        let running = start(vserver(Kind::Http, &[first.address, second.address, third.address]));
        let load = Load::start(running, request);
        load.answers(300).await;
        let reached = second.heads().len();
        drop(second);
        load.answers(1000).await;
        let (running, failures) = load.end().await;
        assert!(reached > 0 && failures.len() <= CLIENTS, "{failures:?}");
        for head in &failures {
            assert_eq!(header(head, "gslb-reason"), Some("bad_response"), "{head}");
        }
        let view = running.view();
        assert_eq!((view.counts.failed as usize, view.counts.no_service), (failures.len(), 0));
        assert!(view.counts.retried > 0, "the turn came to the dead one, and went on");
        assert_eq!(running.active(), [0, 0, 0]);
        // Each request is one of exactly one member, however often it was tried.
        assert_eq!(running.requests().iter().sum::<u64>(), view.counts.requests);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_drained_under_load_fails_nobody() {
    let (first, second) = (busy("a").await, busy("b").await);
    let running = start(vserver(Kind::Http, &[first.address, second.address]));
    let load = Load::start(running, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    load.answers(300).await;
    load.running.proxy.drain(&name("s2"), Some(Duration::from_secs(20)));
    eventually("drained", || load.running.proxy.is_drained(&name("s2"))).await;
    let reached = load.running.requests()[1];
    drop(second);
    load.answers(300).await;
    let (running, failures) = load.end().await;
    assert_eq!(failures, [""; 0]);
    assert_eq!((running.requests()[1], running.view().counts.retried), (reached, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_is_restarted_under_load_gets_its_share_again() {
    let (first, second) = (busy("a").await, busy("b").await);
    let at = second.address;
    let running = start(vserver(Kind::Http, &[first.address, at]));
    let load = Load::start(running, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    load.answers(300).await;
    drop(second);
    load.answers(100).await;
    let revived = Service::on(at, |mut connection: Connection| async move {
        while connection.request().await.is_some() {
            connection.respond("b").await;
        }
    })
    .await;
    eventually("back", || revived.heads().len() > 100).await;
    let (_, failures) = load.end().await;
    assert!(failures.len() <= CLIENTS, "{failures:?}");
}

/// Faults I-58: equal members, clients at once; nobody is favoured, whatever threads the requests come in on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_thousand_requests_of_eight_clients_are_a_thousand_for_each_of_three() {
    let services = [Service::fixed("a").await, Service::fixed("b").await, Service::fixed("c").await];
    let running = Arc::new(start(vserver(Kind::Http, &services.each_ref().map(|s| s.address))));
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        let running = running.clone();
        clients.spawn(async move {
            let mut client = running.connect().await;
            for _ in 0..375 {
                client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
                until(&mut client, "\r\n\r\n").await;
                tokio::io::AsyncReadExt::read_u8(&mut client).await.unwrap();
            }
        });
    }
    clients.join_all().await;
    let got = services.each_ref().map(|s| s.heads().len());
    println!("requests that arrived: {got:?}");
    assert_eq!((got, running.requests()), ([1000, 1000, 1000], vec![1000, 1000, 1000]));
    // To the byte: no transaction counts what belongs to the next one on its connection.
    let each = services[0].heads()[0].len() + "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na".len();
    let bytes: Vec<_> = running.view().balancer.members.iter().map(|m| m.bytes).collect();
    assert_eq!(bytes, [1000 * each as u64; 3]);
}
