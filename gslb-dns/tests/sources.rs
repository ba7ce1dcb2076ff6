//! A running node with a real HAProxy in front of its services: what HAProxy knows of its servers decides what DNS answers
//! (faults I-72).
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod process;

use process::{Process, ask, free_ports};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const HAPROXY: &str = "/usr/sbin/haproxy";

const SOON: Duration = Duration::from_secs(30);

/// DNS, MEP and admin of the node; HAProxy's page; its two servers.
const PORTS: u16 = 6;

/// A server that answers every request; it ends when it is dropped.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
                if stream.read(&mut [0; 1024]).is_ok_and(|read| read > 0) {
                    let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nfine");
                }
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

/// HAProxy, killed when it is dropped.
struct Haproxy(Child);

impl Haproxy {
    fn start(folder: &Path, port: u16) -> Self {
        let [page, s1, s2] = [3, 4, 5].map(|n| port + n);
        let text = format!(
            "defaults\n mode http\n timeout connect 1s\n timeout client 5s\n timeout server 5s\n\
             backend web\n option httpchk\n default-server check inter 200ms rise 1 fall 2\n \
             server s1 127.0.0.1:{s1}\n server s2 127.0.0.1:{s2}\n\
             listen page\n bind 127.0.0.1:{page}\n stats enable\n stats uri /stats\n"
        );
        let file = folder.join("haproxy.cfg");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(HAPROXY);
        command
            .arg("-db")
            .arg("-f")
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Haproxy(command.spawn().unwrap())
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(port: u16) -> String {
    let [dns, mep, admin, page] = [0, 1, 2, 3].map(|n| port + n);
    let service = |n: u8| {
        format!(
            "[[services]]\nname = \"web-{n}\"\nsite = \"fra\"\naddress = \"192.0.2.{n}\"\nport = 80\n\
             source = \"lb\"\nsource_name = \"web/s{n}\"\n"
        )
    };
    format!(
        "version = 1\n[group]\nname = \"test\"\n[dns]\nlisten = [\"127.0.0.1:{dns}\"]\n\
         [mep]\nlisten = \"127.0.0.1:{mep}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n\
         [[sites]]\nname = \"fra\"\n[[nodes]]\nname = \"fra/1\"\nmep = \"127.0.0.1:{mep}\"\n\
         [[zones]]\nname = \"gslb.test\"\nrecords = '''\n@   SOA ns1 hostmaster 1 1h 15m 1w 5s\n    NS  ns1\n\
         ns1 A   127.0.0.1\n'''\n\
         [[sources]]\nname = \"lb\"\nkind = \"haproxy\"\nurl = \"http://127.0.0.1:{page}/stats;csv\"\n\
         {}{}[[vservers]]\nname = \"www\"\nmethod = \"round_robin\"\nlocal_method = \"round_robin\"\n\
         services = [\"web-1\", \"web-2\"]\n\
         [[domains]]\nname = \"www.gslb.test\"\nvserver = \"www\"\n",
        service(1),
        service(2)
    )
}

struct Scene {
    _node: Process,
    port: u16,
    folder: tempfile::TempDir,
}

impl Scene {
    fn start(port: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pki = folder.path().join("pki");
        let pki = pki.to_str().unwrap();
        assert!(Process::start(&["pki", "init", pki, "--group", "test"]).wait(SOON).success());
        assert!(Process::start(&["pki", "issue", pki, "fra/1"]).wait(SOON).success());
        let file = folder.path().join("gslb.toml");
        std::fs::write(&file, text(port)).unwrap();
        let node = Process::start(&["--log", "error", "run", file.to_str().unwrap()]);
        process::wait_for_listener(&format!("127.0.0.1:{}", port + 2), SOON);
        Scene { _node: node, port, folder }
    }

    /// The addresses of ten answers.
    fn answers(&self) -> BTreeSet<u8> {
        let node = (Ipv4Addr::LOCALHOST, self.port).into();
        let asked = (0..10).flat_map(|_| ask(Ipv4Addr::LOCALHOST, node, "www.gslb.test"));
        asked.map(|address| address.octets()[3]).collect()
    }

    /// Waits until the answers are these; how long that took.
    fn until(&self, wanted: &[u8]) -> Duration {
        let begun = Instant::now();
        loop {
            let answers = self.answers();
            if answers.iter().eq(wanted) {
                return begun.elapsed();
            }
            assert!(begun.elapsed() < SOON, "{wanted:?} are not answered: {answers:?}, {}", self.service(0));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The body of an answer of the API.
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port + 2)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    fn service(&self, index: usize) -> Value {
        let services: Value = serde_json::from_str(&self.get("/v1/services")).unwrap();
        services["services"][index].clone()
    }

    /// Waits until the API shows a service so.
    fn until_shown(&self, index: usize, is_so: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let service = self.service(index);
            if is_so(&service) {
                return service;
            }
            assert!(begun.elapsed() < SOON, "{service}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn what_haproxy_finds_down_is_answered_no_longer() {
    if !Path::new(HAPROXY).exists() {
        assert!(
            std::env::var("GSLB_LAB").as_deref() != Ok("required"),
            "GSLB_LAB=required, but no {HAPROXY}"
        );
        return eprintln!("skipped: no {HAPROXY} here");
    }
    let port = free_ports(PORTS);
    let (s1, _s2) = (Server::start(port + 4), Server::start(port + 5));
    let scene = Scene::start(port);
    let haproxy = Haproxy::start(scene.folder.path(), port);
    let web_1 = scene.until_shown(0, |service| service["state"] == "up");
    assert_eq!((&web_1["judge"], &web_1["source"]["state"]), (&"source".into(), &"up".into()), "{web_1}");
    scene.until(&[1, 2]);

    drop(s1);
    let took = scene.until(&[2]);
    println!("a server that ended was not answered after {took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    let web_1 = scene.until_shown(0, |service| service["state"] == "down");
    let reason = web_1["reason"].as_str().unwrap();
    assert!(reason.starts_with("source lb says DOWN, L4CON: "), "{reason}");
    assert!(web_1["source"]["age_ms"].as_u64().unwrap() < 10_000, "{web_1}");
    assert_eq!(scene.service(1)["state"], "up");

    let _s1 = Server::start(port + 4);
    scene.until(&[1, 2]);

    // HAProxy itself is gone: nobody says that anything is up.
    drop(haproxy);
    let web_2 = scene.until_shown(1, |service| service["source"]["state"] == "silent");
    assert_eq!(web_2["state"], "learning");
    let error = web_2["source"]["error"].as_str().unwrap();
    assert!(error.contains("Connection refused"), "{error}");
    assert!(scene.get("/metrics").contains("gslb_source_answers{source=\"lb\"} 0.0\n"));
    let _haproxy = Haproxy::start(scene.folder.path(), port);
    scene.until_shown(1, |service| service["state"] == "up");
    scene.until(&[1, 2]);
}
