//! Many clients that say nothing, little, too much, or that hardly read: bounded memory, and others are served.

#![allow(clippy::unwrap_used, clippy::panic, reason = "an integration test is all test")]

mod support;

use lb_proxy::{CertificateFiles, Kind, VserverSettings};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::time::Duration;
use support::alone::{alone, peak, resident};
use support::raw_h2::{self, block, frame};
use support::service::{Connection, Service};
use support::tls::{Tls, write_pair};
use support::{Running, eventually, must_run, rest, start, until, vserver, within};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How clients come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Http,
    Ssl,
    /// HTTP/2 in the clear, with its preface said.
    H2,
}

use Way::{H2, Http, Ssl};

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A virtual server and what its clients need.
struct Stage {
    running: Running,
    service: Service,
    way: Way,
    tls: Option<Tls>,
    _folder: TempDir,
}

impl Stage {
    async fn new(way: Way, header_time: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = write_pair(folder.path(), "a", &["a.test"]);
        let service = much_or_little().await;
        let mut settings = vserver(kind(way, &files), &[service.address]);
        settings.timeouts.request_header = header_time;
        settings.timeouts.connect = Duration::from_secs(60);
        let running = start(VserverSettings { max_connections: 10_000, ..settings });
        let tls = (way == Ssl).then(|| Tls::trusting(&files.certificate, &[b"http/1.1"]));
        Stage { running, service, way, tls, _folder: folder }
    }

    async fn client(&self) -> Box<dyn Stream> {
        match (self.way, &self.tls) {
            (H2, _) => Box::new(raw_h2::connect(&self.running).await),
            (_, Some(tls)) => Box::new(tls.connect(&self.running, "a.test").await.unwrap()),
            (_, None) => Box::new(self.running.connect().await),
        }
    }

    /// So many clients that say this.
    async fn clients(&self, count: usize, says: &[u8]) -> Vec<Box<dyn Stream>> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            let mut client = self.client().await;
            let _ = client.write_all(says).await; // it may be refused in the middle
            let _ = client.flush().await;
            clients.push(client);
        }
        clients
    }

    /// An ordinary request of somebody else.
    async fn serves_others(&self) {
        let mut client = match self.way {
            H2 => Box::new(self.running.connect().await),
            Http | Ssl => self.client().await,
        };
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        client.flush().await.unwrap();
        assert!(rest(&mut client).await.ends_with("\r\n\r\nx"), "others are served");
    }
}

fn kind(way: Way, files: &CertificateFiles) -> Kind {
    match way {
        Ssl => Kind::Ssl { certificates: vec![files.clone()] },
        Http | H2 => Kind::Http,
    }
}

/// Answers `/much` with 64 MiB, and everything else with `x`.
async fn much_or_little() -> Service {
    const MUCH: usize = 64 * 1024 * 1024;
    Service::start(|mut connection: Connection| async move {
        while let Some(head) = connection.request().await {
            if head.starts_with("GET /much") {
                connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\n")).await;
                let piece = [b'y'; 64 * 1024];
                for _ in 0..MUCH / piece.len() {
                    if connection.stream.write_all(&piece).await.is_err() {
                        return;
                    }
                }
            } else {
                connection.respond("x").await;
            }
        }
    })
    .await
}

/// Clients at once; fewer where the machine allows fewer descriptors, which is a failure where everything must run.
fn crowd() -> usize {
    const WANTED: u64 = 12_000;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if setrlimit(Resource::RLIMIT_NOFILE, WANTED, hard.max(WANTED)).is_ok() {
        return 5000;
    }
    assert!(!must_run(), "only {hard} descriptors");
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let crowd = usize::try_from(hard.saturating_sub(500) / 2).unwrap().min(5000);
    println!("only {crowd} clients: the machine allows {hard} descriptors");
    crowd
}

/// What clients say one after the other, and the most that one of them may cost by then, in KiB, its own side included.
type Stages<'a> = [(&'static str, &'a [u8], u64)];

/// Opens as many clients, all of which say these things, and bounds what they cost.
async fn crowded(way: Way, stages: &Stages<'_>) {
    let count = crowd();
    let stage = Stage::new(way, Duration::from_secs(300)).await;
    stage.serves_others().await;
    let before = resident();
    let mut clients = stage.clients(count, b"").await;
    let running = &stage.running;
    eventually("all in", || running.view().connections == count).await;
    for (what, says, most) in stages {
        for client in &mut clients {
            client.write_all(says).await.unwrap();
            client.flush().await.unwrap();
            if says.ends_with(b"\r\n\r\n") {
                until(client, "\r\n\r\nx").await; // one after the other: so many services there are not
            }
        }
        stage.serves_others().await; // and what was said is read
        let each = peak().saturating_sub(before) / count as u64;
        println!("{way:?}: {count} clients {what}: {each} bytes each at the peak");
        assert!(each < most * KIB, "{way:?} {what}: {each} bytes each");
        assert_eq!(running.view().connections, count, "none was turned away");
    }
    drop(clients);
    eventually("all gone", || running.view().connections == 0).await;
}

const HALF: &[u8] = b"GET / HTTP/1.1\r\nHo";
const REST: &[u8] = b"st: a\r\n\r\n";
const KIB: u64 = 1024;

#[test]
fn five_thousand_idle_clients_cost_little() {
    alone("five_thousand_idle_clients_cost_little", || async {
        let stages: &Stages<'_> = &[
            ("that say nothing", b"", 8),
            ("in the middle of a head", HALF, 32),
            ("between two requests", REST, 40),
        ];
        crowded(Http, stages).await;
    });
}

#[test]
fn five_thousand_idle_clients_of_tls_cost_little() {
    alone("five_thousand_idle_clients_of_tls_cost_little", || async {
        crowded(Ssl, &[("that say nothing", b"", 48), ("in the middle of a head", HALF, 80)]).await;
    });
}

#[test]
fn five_thousand_idle_clients_of_http_2_cost_little() {
    alone("five_thousand_idle_clients_of_http_2_cost_little", || async {
        let half = frame(1, 0, 1, &block(&[(":method", "GET"), (":path", "/")]));
        crowded(H2, &[("that say nothing", b"", 40), ("in the middle of a head", &half, 48)]).await;
    });
}

/// A head that goes on and on is refused at its bound, and the connection closed.
#[test]
fn heads_without_an_end_are_cut_off_at_their_bound() {
    alone("heads_without_an_end_are_cut_off_at_their_bound", || async {
        const COUNT: usize = 200;
        crowd();
        for way in [Http, Ssl, H2] {
            let stage = Stage::new(way, Duration::from_secs(120)).await;
            stage.serves_others().await;
            let before = resident();
            let long = stage.clients(COUNT, &endless(way)[..30_000]).await; // and then nothing
            let running = &stage.running;
            eventually("all in", || running.view().connections == COUNT).await;
            tokio::time::sleep(Duration::from_millis(300)).await; // until it is read
            stage.serves_others().await;
            let each = peak().saturating_sub(before) / COUNT as u64;
            println!(
                "{way:?}: a client of {COUNT} with most of a long head: {} KiB each at the peak",
                each / KIB
            );
            assert!(each < 192 * KIB, "{way:?}: {each} bytes each");
            drop(long);
            eventually("all gone", || running.view().connections == 0).await;
            let before = resident();
            let mut clients = stage.clients(COUNT, &endless(way)).await;
            for client in &mut clients {
                let _ = within(client.read_to_end(&mut Vec::new())).await; // a reset is an end as well
            }
            eventually("all cut off", || running.view().connections == 0).await;
            stage.serves_others().await;
            let each = peak().saturating_sub(before) / COUNT as u64;
            println!(
                "{way:?}: a client of {COUNT} with a head without an end: {} KiB each at the peak",
                each / KIB
            );
            assert!(each < 192 * KIB, "{way:?}: {each} bytes each");
            assert_eq!(stage.service.heads().len(), 3, "only the others' requests went on");
        }
    });
}

/// A megabyte of a head.
fn endless(way: Way) -> Vec<u8> {
    let text = "y".repeat(16_000);
    match way {
        Http | Ssl => format!("GET / HTTP/1.1\r\nHost: a\r\n{}", format!("X: {text}\r\n").repeat(64)).into(),
        // HEADERS, and CONTINUATION after CONTINUATION.
        H2 => {
            let mut all = frame(1, 0, 1, &block(&[(":method", "GET")]));
            for _ in 0..64 {
                all.extend(frame(9, 0, 1, &block(&[("x", &text)])));
            }
            all
        }
    }
}

/// A client that reads byte by byte holds back the service, not the proxy's memory.
#[test]
fn what_a_client_does_not_read_stays_with_the_service() {
    alone("what_a_client_does_not_read_stays_with_the_service", || async {
        const COUNT: usize = 50;
        crowd();
        for way in [Http, Ssl, H2] {
            let stage = Stage::new(way, Duration::from_secs(120)).await;
            stage.serves_others().await;
            let before = resident();
            let request = match way {
                Http | Ssl => b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
                H2 => {
                    let head =
                        [(":method", "GET"), (":scheme", "http"), (":path", "/much"), (":authority", "a")];
                    frame(1, 5, 1, &block(&head))
                }
            };
            let mut clients = stage.clients(COUNT, &request).await;
            for _ in 0..100 {
                for client in &mut clients {
                    within(client.read_u8()).await.unwrap();
                }
            }
            let running = &stage.running;
            eventually("dispatched", || running.active() == [50]).await;
            let passed = || running.view().balancer.members[0].bytes;
            let mut last = u64::MAX;
            while passed() != last {
                last = passed();
                tokio::time::sleep(Duration::from_millis(600)).await; // longer than the balancer is told late
            }
            stage.serves_others().await;
            let each = peak().saturating_sub(before) / COUNT as u64;
            println!(
                "{way:?}: a client of {COUNT} that reads byte by byte: {} KiB each at the peak",
                each / KIB
            );
            assert!(each < 768 * KIB, "{way:?}: {each} bytes each");
        }
    });
}
