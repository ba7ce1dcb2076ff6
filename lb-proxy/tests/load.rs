//! Services that die or are drained while requests come: who fails, and who may not.

#![allow(clippy::unwrap_used, reason = "an integration test is all test")]

mod support;

use lb_proxy::Kind;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::service::{Connection, Service};
use support::{Running, eventually, header, name, start, until, vserver};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const CLIENTS: usize = 16;

/// A service that takes a moment for each request, and that can be killed like a process: its listener goes, it says the end on
/// all connections at once, and answers nothing more. It goes on listening there, so that it knows what was sent to it.
struct Mortal {
    service: Service,
    kill: CancellationToken,
    /// Requests that came whole, and those of them that were answered.
    log: Arc<Mutex<[BTreeSet<String>; 2]>>,
}

impl Mortal {
    async fn start() -> Self {
        let (kill, log) = (CancellationToken::new(), Arc::<Mutex<[BTreeSet<String>; 2]>>::default());
        let (killed, logged) = (kill.clone(), log.clone());
        let service = Service::start(move |mut connection: Connection| {
            let (killed, log) = (killed.clone(), logged.clone());
            async move {
                loop {
                    let answer = async {
                        let path = path(&connection.request().await?);
                        log.lock().unwrap()[0].insert(path.clone());
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        connection.respond("x").await;
                        log.lock().unwrap()[1].insert(path);
                        Some(())
                    };
                    tokio::select! {
                        biased;
                        () = killed.cancelled() => break,
                        answered = answer => if answered.is_none() { return },
                    }
                }
                let _ = connection.stream.shutdown().await;
                let mut rest = String::new();
                let _ = connection.stream.read_to_string(&mut rest).await; // to the end, or to a reset
                for line in rest.lines().filter(|line| line.ends_with("HTTP/1.1")) {
                    log.lock().unwrap()[0].insert(path(line));
                }
            }
        })
        .await;
        Mortal { service, kill, log }
    }

    /// The requests that had been sent to it, and got no answer.
    fn lost(&self) -> BTreeSet<String> {
        let [came, answered] = &*self.log.lock().unwrap();
        came.difference(answered).cloned().collect()
    }
}

/// What stands between the method and the protocol.
fn path(head: &str) -> String {
    head.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// Clients that ask again and again, until they are told to stop. No two requests have one path.
struct Load {
    running: Arc<Running>,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: JoinSet<Vec<(String, String)>>,
}

impl Load {
    fn start(running: Running, method: &'static str) -> Self {
        let running = Arc::new(running);
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            clients.spawn(ask(running.clone(), method, client, stop.clone(), answered.clone()));
        }
        Load { running, stop, answered, clients }
    }

    async fn answers(&self, more: usize) {
        let from = self.answered.load(SeqCst);
        eventually("answered", || self.answered.load(SeqCst) >= from + more).await;
    }

    /// The requests whose answer was no 200, and those answers.
    async fn end(self) -> (Arc<Running>, Vec<(String, String)>) {
        self.stop.store(true, SeqCst);
        let failures = self.clients.join_all().await.concat();
        println!("{} answers, {} failures", self.answered.load(SeqCst), failures.len());
        (self.running, failures)
    }
}

async fn ask(
    running: Arc<Running>,
    method: &'static str,
    client: usize,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
) -> Vec<(String, String)> {
    let mut failures = Vec::new();
    let mut stream = running.connect().await;
    let length = if method == "POST" { "Content-Length: 0\r\n" } else { "" };
    for number in 0.. {
        if stop.load(SeqCst) {
            break;
        }
        let path = format!("/{client}.{number}");
        let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{length}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let head = until(&mut stream, "\r\n\r\n").await;
        let length: usize = header(&head, "content-length").unwrap().parse().unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        if !head.starts_with("HTTP/1.1 200") {
            failures.push((path, head));
        }
        answered.fetch_add(1, SeqCst);
    }
    failures
}

/// Those alone may fail that had been sent to the service that died: the service itself counts them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_service_killed_under_load_those_requests_fail_that_were_sent_to_it_and_no_other() {
    for method in ["GET", "POST", "GET", "POST"] {
        let (first, second, third) = (Mortal::start().await, Mortal::start().await, Mortal::start().await);
        let services = [first.service.address, second.service.address, third.service.address];
        let load = Load::start(start(vserver(Kind::Http, &services)), method);
        load.answers(300).await;
        second.service.close();
        second.kill.cancel();
        load.answers(1000).await;
        let (running, failures) = load.end().await;
        let failed: BTreeSet<_> = failures.iter().map(|(path, _)| path.clone()).collect();
        println!(
            "{method}: {} requests had been sent to the service that died, {} failed",
            second.lost().len(),
            failed.len()
        );
        assert_eq!(failed, second.lost());
        for (_, head) in &failures {
            assert_eq!(header(head, "gslb-reason"), Some("bad_response"), "{head}");
        }
        let view = running.view();
        assert_eq!((view.counts.failed as usize, view.counts.no_service), (failures.len(), 0));
        assert!(view.counts.retried > 0, "the turn came to the dead one, and went on");
        assert_eq!(running.active(), [0, 0, 0]);
        // Each request is one of exactly one member, however often it was tried.
        assert_eq!(running.requests().iter().sum::<u64>(), view.counts.requests);
        for (service, requests) in [&first, &second, &third].iter().zip(running.requests()) {
            assert_eq!(service.log.lock().unwrap()[0].len() as u64, requests);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_drained_under_load_fails_nobody() {
    let (first, second) = (Mortal::start().await, Mortal::start().await);
    let services = [first.service.address, second.service.address];
    let load = Load::start(start(vserver(Kind::Http, &services)), "GET");
    load.answers(300).await;
    load.running.proxy.drain(&name("s2"), Some(Duration::from_secs(20)));
    eventually("drained", || load.running.proxy.is_drained(&name("s2"))).await;
    let reached = load.running.requests()[1];
    second.service.close();
    second.kill.cancel();
    load.answers(300).await;
    let (running, failures) = load.end().await;
    assert_eq!(failures, []);
    assert_eq!((running.requests()[1], running.view().counts.retried), (reached, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_is_restarted_under_load_gets_its_share_again() {
    let (first, second) = (Mortal::start().await, Mortal::start().await);
    let at = second.service.address;
    let load = Load::start(start(vserver(Kind::Http, &[first.service.address, at])), "GET");
    load.answers(300).await;
    second.service.close();
    second.kill.cancel();
    load.answers(100).await;
    let revived = Service::on(at, |mut connection: Connection| async move {
        while connection.request().await.is_some() {
            connection.respond("b").await;
        }
    })
    .await;
    eventually("back", || revived.heads().len() > 100).await;
    let (_, failures) = load.end().await;
    let failed: BTreeSet<_> = failures.into_iter().map(|(path, _)| path).collect();
    assert_eq!(failed, second.lost());
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
                client.read_u8().await.unwrap();
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
