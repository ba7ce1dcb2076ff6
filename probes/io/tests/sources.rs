//! Looks at the pages of real load balancers, as their distribution ships them, and at places that go wrong. Envoy is not
//! shipped: its page is read by the tests of probes-core, from one written by hand.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod common;

use gslb_types::{Quantities, Series, SourceItem, SourceKind, SourcePlace, TimeUnit, Timing};
use probes_core::sources::{Health, Reading, Timed};
use probes_core::wire::{Fetch, FetchReply, FetchRequest, ProbeId};
use probes_io::{ProbeIo, Reply, Request, Settings};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const LONG: Duration = Duration::from_secs(20);

/// A running sender.
struct Looker {
    _io: ProbeIo,
    requests: mpsc::Sender<Request>,
    replies: mpsc::Receiver<Reply>,
    next: u64,
}

impl Looker {
    fn start() -> Self {
        let (requests, requested) = mpsc::channel(16);
        let (replied, replies) = mpsc::channel(16);
        let io = ProbeIo::start(Settings::default(), requested, replied, &CancellationToken::new()).unwrap();
        Looker { _io: io, requests, replies, next: 1 }
    }

    async fn look(
        &mut self,
        place: &SourcePlace,
        items: Vec<SourceItem>,
        timeout: Duration,
    ) -> Result<Vec<Result<Reading, String>>, String> {
        let kind = match items.first() {
            Some(SourceItem::Nginx) => SourceKind::Nginx,
            Some(SourceItem::Prometheus(_)) => SourceKind::Prometheus,
            _ => SourceKind::Haproxy,
        };
        let (id, fetch) = (ProbeId(self.next), Fetch { kind, place: place.clone(), items });
        self.next += 2;
        let request = FetchRequest { id, fetch: Arc::new(fetch), timeout };
        self.requests.send(Request::Fetch(request)).await.unwrap();
        let reply = tokio::time::timeout(LONG * 2, self.replies.recv()).await.unwrap().unwrap();
        let Reply::Fetch(FetchReply { id: of, outcome }) = reply else { panic!("{reply:?}") };
        assert_eq!(of, id);
        outcome
    }

    /// One row of HAProxy's.
    async fn row(&mut self, place: &SourcePlace, name: &str) -> Reading {
        self.look(place, vec![item(name)], LONG).await.unwrap().remove(0).unwrap()
    }

    /// What HAProxy's Prometheus metrics say of web/s1.
    async fn exported(&mut self) -> Reading {
        let series = |name: &str, more: &str| {
            let text = format!("haproxy_server_{name}{{proxy=\"web\",server=\"s1\"{more}}}");
            Series::new(&text).unwrap()
        };
        let unit = TimeUnit::Seconds;
        let quantities = Quantities {
            up: Some(series("status", ",state=\"UP\"")),
            active: Some(series("current_sessions", "")),
            bytes: vec![series("bytes_in_total", ""), series("bytes_out_total", "")],
            response_time: Some(Timing::Gauge { gauge: series("response_time_average_seconds", ""), unit }),
            ..Quantities::default()
        };
        let item = SourceItem::Prometheus(Box::new(quantities));
        let place = http("127.71.1.1:8404", "/metrics");
        self.look(&place, vec![item], LONG).await.unwrap().remove(0).unwrap()
    }

    /// One row, once it is as wanted.
    async fn until(&mut self, place: &SourcePlace, name: &str, wanted: impl Fn(&Reading) -> bool) -> Reading {
        let end = Instant::now() + LONG;
        loop {
            let reading = self.row(place, name).await;
            if wanted(&reading) {
                return reading;
            }
            assert!(Instant::now() < end, "{name} stays {reading:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn item(name: &str) -> SourceItem {
    let (proxy, server) = name.split_once('/').unwrap();
    SourceItem::Haproxy { proxy: proxy.to_owned(), server: server.to_owned() }
}

fn http(address: &str, target: &str) -> SourcePlace {
    SourcePlace::Http { address: address.parse().unwrap(), target: target.to_owned() }
}

/// A server process in a folder of its own, ended when this is dropped.
struct Daemon {
    child: Child,
    folder: TempDir,
}

impl Daemon {
    /// Starts it with this file, of whose text `{dir}` is the folder's path, and waits until the address is open.
    fn start(program: &str, args: &[&str], text: &str, open: &str) -> Option<Self> {
        let program = Path::new("/usr/sbin").join(program);
        if !program.exists() {
            common::skipped(&format!("no {} here", program.display()));
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().to_str().unwrap();
        std::fs::write(folder.path().join("conf"), text.replace("{dir}", dir)).unwrap();
        let args = args.iter().map(|arg| arg.replace("{dir}", dir));
        let mut command = Command::new(program);
        command.args(args).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let daemon = Daemon { child: command.spawn().unwrap(), folder };
        let end = Instant::now() + LONG;
        while TcpStream::connect(open).is_err() {
            assert!(Instant::now() < end, "{open} does not open");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(daemon)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that does the same with each connection, in one thread.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(address: &str, serve: impl Fn(TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                serve(stream);
            }
        });
        Server { address, stop, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Reads a request's head, or the end.
fn head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
        head.extend(byte);
    }
    String::from_utf8(head).unwrap()
}

/// Answers each connection's request with 1000 bytes.
fn web(address: &str) -> Server {
    Server::start(address, |mut stream| {
        head(&mut stream);
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n{}",
            "x".repeat(1000)
        );
    })
}

fn get(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

const HAPROXY: &str = "\
global
    stats socket {dir}/admin.sock mode 600 level admin
defaults
    mode http
    timeout connect 2s
    timeout client 10s
    timeout server 10s
frontend front
    bind 127.71.1.1:8080
    default_backend web
backend web
    server s1 127.71.1.2:8081 check inter 100ms rise 1 fall 1
    server s2 127.71.1.3:8081 weight 0
listen stats
    bind 127.71.1.1:8404
    http-request use-service prometheus-exporter if { path /metrics }
    stats enable
    stats uri /
";

#[tokio::test(flavor = "multi_thread")]
async fn haproxy_is_read_over_http_and_over_its_socket() {
    let s1 = web("127.71.1.2:8081");
    let Some(haproxy) = Daemon::start("haproxy", &["-db", "-f", "{dir}/conf"], HAPROXY, "127.71.1.1:8080")
    else {
        return;
    };
    let mut looker = Looker::start();
    let page = http("127.71.1.1:8404", "/;csv");
    let socket = SourcePlace::Socket(haproxy.path("admin.sock"));
    for place in [&page, &socket] {
        let before = looker.until(place, "web/s1", |row| row.health == Health::Up).await;
        (0..20).for_each(|_| assert!(get("127.71.1.1:8080").starts_with("HTTP/1.1 200")));
        let requests = |row: &Reading| row.requests.as_ref().unwrap()["stot"];
        let after = looker.until(place, "web/s1", |row| requests(row) == requests(&before) + 20).await;
        let bytes = |row: &Reading| row.bytes.as_ref().unwrap()["bout"];
        let grown = bytes(&after) - bytes(&before);
        println!("20 answers of 1000 bytes: {grown} bytes, {:?}", after.timing);
        assert!((20_000..30_000).contains(&grown));
        assert!(matches!(after.timing, Some(Timed::Mean(mean)) if mean.as_micros() < 1_000_000), "{after:?}");
        assert_eq!((after.active, after.connections), (Some(0), None));
        assert_eq!(looker.row(place, "web/s2").await.health, Health::Unsaid, "it is not checked");
        assert_eq!(looker.row(place, "web/BACKEND").await.health, Health::Up);
        let front = looker.row(place, "front/FRONTEND").await;
        assert_eq!((front.health, front.connections), (Health::Unsaid, front.active));
        let wrong = looker.look(place, vec![item("web/s9")], LONG).await.unwrap();
        assert_eq!(wrong, [Err("haproxy has no 'web/s9'".to_owned())]);
    }
    let (csv, told) = (looker.row(&page, "web/s1").await, looker.exported().await);
    assert_eq!((told.health, told.active), (Health::Up, csv.active));
    let total = |reading: &Reading| reading.bytes.as_ref().unwrap().values().sum::<u64>();
    assert_eq!(total(&told), total(&csv), "two ways to tell the same");
    // A session that is open is an active one.
    let mut open = TcpStream::connect("127.71.1.1:8080").unwrap();
    open.write_all(b"GET / HT").unwrap();
    looker.until(&page, "front/FRONTEND", |row| row.active == Some(1)).await;
    drop(open);
    // Taken out by an operator, then back.
    for (state, health, words) in
        [("maint", Health::Down, "MAINT"), ("drain", Health::Down, "DRAIN"), ("ready", Health::Up, "UP")]
    {
        let mut admin = UnixStream::connect(haproxy.path("admin.sock")).unwrap();
        admin.write_all(format!("set server web/s1 state {state}\n").as_bytes()).unwrap();
        admin.read_to_end(&mut Vec::new()).unwrap();
        for place in [&page, &socket] {
            let row = looker.until(place, "web/s1", |row| row.health == health).await;
            assert!(row.words.starts_with(words), "{state}: {row:?}");
        }
    }
    drop(s1);
    let row = looker.until(&socket, "web/s1", |row| row.health == Health::Down).await;
    assert!(row.words.starts_with("DOWN, L4CON"), "{row:?}");
}

const NGINX: &str = "\
daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
    server { listen 127.71.2.1:8080; location = /status { stub_status; } location / { return 200 fine; } }
}
";

#[tokio::test(flavor = "multi_thread")]
async fn nginx_tells_its_connections_and_requests() {
    let Some(_nginx) = Daemon::start("nginx", &["-c", "{dir}/conf", "-p", "{dir}"], NGINX, "127.71.2.1:8080")
    else {
        return;
    };
    let (mut looker, place) = (Looker::start(), http("127.71.2.1:8080", "/status"));
    let mut look =
        async || looker.look(&place, vec![SourceItem::Nginx], LONG).await.unwrap().remove(0).unwrap();
    let before = look().await;
    assert_eq!((before.health, before.active), (Health::Unsaid, Some(0)));
    (0..10).for_each(|_| assert!(get("127.71.2.1:8080").ends_with("fine")));
    let requests = |reading: &Reading| reading.requests.as_ref().unwrap()["requests"];
    let after = look().await;
    assert_eq!(requests(&after), requests(&before) + 11, "ten, and the look itself");
    // One that waits for its next request is a connection and no transaction.
    let mut waiting = TcpStream::connect("127.71.2.1:8080").unwrap();
    waiting.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let _ = waiting.read(&mut [0; 1000]).unwrap();
    let reading = look().await;
    assert_eq!((reading.active, reading.connections), (Some(0), Some(2)));
}

/// What a place that goes wrong makes of a look.
async fn failure(serve: impl Fn(TcpStream) + Send + 'static, timeout: Duration) -> String {
    let server = Server::start("127.0.0.1:0", serve);
    let place = http(&server.address.to_string(), "/stats;csv");
    let outcome = Looker::start().look(&place, vec![item("web/s1")], timeout).await;
    outcome.unwrap_err().replace(&server.address.to_string(), "ADDRESS")
}

fn says(answer: impl Into<Vec<u8>>) -> impl Fn(TcpStream) + Send + 'static {
    let answer = answer.into();
    move |mut stream| {
        let head = head(&mut stream);
        assert!(head.is_empty() || head.starts_with("GET /stats;csv HTTP/1.1\r\n"), "{head}");
        let _ = stream.write_all(&answer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_to_fail_has_its_words() {
    let status = |code: &str| says(format!("HTTP/1.1 {code}\r\nContent-Length: 0\r\n\r\n"));
    assert_eq!(failure(status("404 Not Found"), LONG).await, "ADDRESS answers with status 404");
    let password = "ADDRESS wants a password (status 401): allow this node without one";
    assert_eq!(failure(status("401 Unauthorized"), LONG).await, password);
    let page = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n<html/>";
    assert!(failure(says(page), LONG).await.starts_with("the first line has no column 'pxname'"));
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n# pxname,svname\n";
    assert!(failure(says(cut), LONG).await.starts_with("ADDRESS sends no whole page"));
    // Where the end of the connection is that of the page, nothing else shows that half of it is missing.
    let half = "HTTP/1.0 200 OK\r\n\r\n# pxname,svname,scur\nweb,s1,1";
    assert_eq!(failure(says(half), LONG).await, "half a page: its last line has no end");
    assert!(failure(says("220 ftp\r\n"), LONG).await.starts_with("ADDRESS sends no whole page"));
    assert!(failure(says(""), LONG).await.starts_with("ADDRESS sends no whole page"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_answers_or_never_ends_is_given_up_on() {
    let begun = Instant::now();
    let timeout = Duration::from_millis(200);
    let held = |stream: TcpStream| {
        // Until the other side has given up.
        let _ = (&stream).read_to_end(&mut Vec::new());
    };
    assert_eq!(failure(held, timeout).await, "no answer within 200ms");
    let endless = |mut stream: TcpStream| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n# pxname,svname\n");
        while stream.write_all(&[b'x'; 65536]).is_ok() {}
    };
    assert_eq!(failure(endless, LONG).await, "the page is larger than 4 MiB");
    let drip = |mut stream: TcpStream| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    assert_eq!(failure(drip, timeout).await, "no answer within 200ms");
    assert!(begun.elapsed() < LONG);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_where_nobody_is_says_so() {
    let mut looker = Looker::start();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused =
        looker.look(&http(&free.to_string(), "/"), vec![SourceItem::Nginx], LONG).await.unwrap_err();
    assert!(refused.starts_with(&format!("can't connect to {free}: Connection refused")), "{refused}");
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let missing =
        looker.look(&SourcePlace::Socket(socket.clone()), vec![item("web/s1")], LONG).await.unwrap_err();
    assert_eq!(missing, format!("{}: No such file or directory (os error 2)", socket.display()));
    // One that ends in the middle: at the end of a row, which only the empty line that is missing tells.
    let half = folder.path().join("half.sock");
    let listener = std::os::unix::net::UnixListener::bind(&half).unwrap();
    let says = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        stream.write_all(b"# pxname,svname,scur\nweb,s1,1\n").unwrap();
    });
    let cut = looker.look(&SourcePlace::Socket(half.clone()), vec![item("web/s1")], LONG).await;
    assert_eq!(cut, Err(format!("{}: closed before the end of the page", half.display())));
    says.join().unwrap();
    // One that takes the command and sends for ever.
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let endless = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut command = [0; 10];
        stream.read_exact(&mut command).unwrap();
        while stream.write_all(&[b'x'; 65536]).is_ok() {}
        command
    });
    let endlessly = looker.look(&SourcePlace::Socket(socket), vec![item("web/s1")], LONG).await;
    assert_eq!(endlessly, Err("the page is larger than 4 MiB".to_owned()));
    assert_eq!(&endless.join().unwrap(), b"show stat\n");
}
