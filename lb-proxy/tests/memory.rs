//! Memory: that of a transfer does not depend on its length, nor that of a client on its patience.
//!
//! Services, proxy and clients share a process, so its resident set bounds the proxy's. Each test runs in a process of its own,
//! since memory that one gives back would hide what the next one takes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "an integration test is all test")]

mod support;

use lb_proxy::{CertificateFiles, Kind, VserverSettings};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use support::service::{Connection, Service};
use support::{Running, eventually, start, until, vserver};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// One measurement at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a test alone in a process of its own: this program again, asked for the test of this name.
fn alone<T: Future<Output = ()>>(name: &str, test: impl FnOnce() -> T) {
    const CHILD: &str = "GSLB_MEMORY_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(test());
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    for line in told.lines().filter(|line| line.contains("KiB") || line.contains("bytes each")) {
        println!("{line}");
    }
    assert!(
        output.status.success() && told.contains("1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

const MIB: u64 = 1024 * 1024;

/// 2 GiB where `GSLB_TRANSFER_MIB=2048` asks for it; less where every change waits for the result.
fn size(ordinary: u64) -> u64 {
    std::env::var("GSLB_TRANSFER_MIB").map_or(ordinary, |text| text.parse().unwrap()) * MIB
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
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
    let exchange = async {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        until(client, "\r\n\r\n").await;
        drain(client, size).await;
        let after_download = resident();
        let post = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n");
        client.write_all(post.as_bytes()).await.unwrap();
        pour(client, size).await;
        until(client, "all").await;
        after_download.max(resident())
    };
    let after = tokio::time::timeout(Duration::from_secs(600), exchange).await.unwrap();
    let grown = after.saturating_sub(before);
    println!("{what}: {} MiB each way, {} KiB more in memory", size / MIB, grown / 1024);
    assert!(grown < 16 * MIB, "{what}: {grown} bytes more");
    let bytes = || running.view().balancer.members[0].bytes;
    eventually("counted", || bytes() > 2 * size).await;
    assert!(bytes() < 2 * size + 4096, "{} counted", bytes());
}

#[test]
fn long_bodies_pass_through_http_without_growth() {
    alone("long_bodies_pass_through_http_without_growth", || async {
        let service = mill(size(256)).await;
        let running = start(vserver(Kind::Http, &[service.address]));
        let mut client = running.connect().await;
        transfer("http", &running, &mut client, size(256)).await;
    });
}

#[test]
fn long_streams_pass_through_tcp_without_growth() {
    alone("long_streams_pass_through_tcp_without_growth", || async {
        let service = mill(size(256)).await;
        let running = start(vserver(Kind::Tcp { proxy_protocol: false }, &[service.address]));
        let mut client = running.connect().await;
        transfer("tcp", &running, &mut client, size(256)).await;
    });
}

#[test]
fn long_bodies_pass_through_ssl_without_growth() {
    alone("long_bodies_pass_through_ssl_without_growth", || async {
        use rustls::pki_types::ServerName;
        let size = size(32); // rustls without optimisation is slow
        let service = mill(size).await;
        let folder = tempfile::tempdir().unwrap();
        let pair = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).unwrap();
        let files =
            CertificateFiles { certificate: folder.path().join("a.pem"), key: folder.path().join("a.key") };
        std::fs::write(&files.certificate, pair.cert.pem()).unwrap();
        std::fs::write(&files.key, pair.signing_key.serialize_pem()).unwrap();
        let running = start(vserver(Kind::Ssl { certificates: vec![files] }, &[service.address]));
        let mut roots = rustls::RootCertStore::empty();
        roots.add(pair.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("a.test").unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let mut client = connector.connect(name, running.connect().await).await.unwrap();
        transfer("ssl", &running, &mut client, size).await;
    });
}

/// A client that does not read holds back the service, not the proxy's memory.
#[test]
fn what_a_client_does_not_read_stays_with_the_service() {
    alone("what_a_client_does_not_read_stays_with_the_service", || async {
        let service = mill(64 * MIB).await;
        let running = start(vserver(Kind::Http, &[service.address]));
        let before = resident();
        let mut deaf = Vec::new();
        for _ in 0..20 {
            let mut client = running.connect().await;
            client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
            deaf.push(client);
        }
        for _ in 0..100 {
            for client in &mut deaf {
                client.read_u8().await.unwrap(); // byte by byte is hardly reading
            }
        }
        let passed = || running.view().balancer.members[0].bytes;
        eventually("dispatched", || running.active() == [20]).await;
        let mut last = u64::MAX;
        while passed() != last {
            last = passed();
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let grown = resident().saturating_sub(before) / 20;
        println!("a client that does not read: {} KiB", grown / 1024);
        assert!(grown < 1024 * 1024, "{grown} bytes each");
    });
}

/// Clients at once; fewer where the machine allows fewer descriptors.
fn crowd() -> usize {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let wanted = hard.min(12_000);
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).unwrap();
    let crowd = usize::try_from(wanted.saturating_sub(500) / 2).unwrap().min(5000);
    if crowd < 5000 {
        println!("only {crowd} clients: the machine allows {hard} descriptors");
    }
    crowd
}

async fn connected(running: &Running, count: usize, says: &str) -> Vec<TcpStream> {
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count {
        let mut client = running.connect().await;
        client.write_all(says.as_bytes()).await.unwrap();
        clients.push(client);
    }
    clients
}

/// Opens as many clients, each of which says this, and bounds what they cost.
async fn resting(what: &str, says: &str, most: u64) {
    let count = crowd();
    let service = Service::fixed("x").await;
    let mut settings = vserver(Kind::Http, &[service.address]);
    settings.timeouts.request_header = Duration::from_secs(60);
    let running = start(VserverSettings { max_connections: 10_000, ..settings });
    let before = resident();
    let mut clients = connected(&running, count, says).await;
    eventually("all in", || running.view().connections == count).await;
    if says.ends_with("\r\n\r\n") {
        for client in &mut clients {
            until(client, "\r\n\r\nx").await;
        }
    }
    assert!(running.get("/").await.ends_with("x"), "others are served");
    let each = resident().saturating_sub(before) / count as u64;
    println!("{count} clients {what}: {each} bytes each");
    assert!(each < most, "{what}: {each} bytes each");
    drop(clients);
    eventually("all gone", || running.view().connections == 0).await;
}

#[test]
fn five_thousand_clients_that_say_nothing_cost_little() {
    alone("five_thousand_clients_that_say_nothing_cost_little", || resting("that say nothing", "", 8 * 1024));
}

#[test]
fn five_thousand_clients_in_the_middle_of_a_head_cost_little() {
    alone("five_thousand_clients_in_the_middle_of_a_head_cost_little", || {
        resting("in the middle of a head", "GET / HTTP/1.1\r\nHo", 48 * 1024)
    });
}

#[test]
fn five_thousand_clients_between_two_requests_cost_little() {
    alone("five_thousand_clients_between_two_requests_cost_little", || {
        resting("between two requests", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 48 * 1024)
    });
}
