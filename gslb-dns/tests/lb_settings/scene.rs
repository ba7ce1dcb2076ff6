//! A node of one site with LB virtual servers before real services, as a process of its own.

use crate::process::{Process, free_ports};
use serde_json::Value;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) const SOON: Duration = Duration::from_secs(30);

/// An HTTP service of this process. `/check` passes after its delay while it is well; `/hold` begins a response and does not end
/// it; `/late` answers after a second; `/big` is 20,000 bytes. Everything else is its name, the address it is asked from, and the
/// request's head.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    pub(crate) is_well: Arc<AtomicBool>,
    /// Connections but those of checks.
    pub(crate) connections: Arc<AtomicU64>,
}

impl Service {
    pub(crate) fn start(name: &'static str, check_takes: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (is_well, connections) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
        let (well, counted) = (is_well.clone(), connections.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (well, counted) = (well.clone(), counted.clone());
                std::thread::spawn(move || drop(serve(stream, name, check_takes, &well, &counted)));
            }
        });
        Service { address, is_well, connections }
    }
}

fn serve(
    mut stream: TcpStream,
    name: &str,
    check_takes: Duration,
    well: &AtomicBool,
    counted: &AtomicU64,
) -> std::io::Result<()> {
    let peer = stream.peer_addr()?.ip();
    let mut reader = BufReader::new(stream.try_clone()?);
    for request in 0.. {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        if request == 0 && path != "/check" {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        let (status, body) = match path.as_str() {
            "/check" => {
                std::thread::sleep(check_takes);
                (if well.load(Ordering::Relaxed) { 200 } else { 503 }, String::new())
            }
            "/hold" => {
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{name}")?;
                // Until the proxy closes.
                return reader.read_line(&mut head).map(drop);
            }
            "/late" => {
                std::thread::sleep(Duration::from_secs(1));
                (200, name.to_owned())
            }
            "/big" => (200, "x".repeat(20_000)),
            _ => (200, format!("{name} {peer}\n{head}")),
        };
        write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    }
    Ok(())
}

pub(crate) struct Scene {
    pub(crate) node: Process,
    pub(crate) port: u16,
    folder: tempfile::TempDir,
}

impl Scene {
    /// A node with an LB virtual server `front` at the site's VIP, and what is more to it, before services s1, s2, …
    pub(crate) fn start(services: &[SocketAddr], front: &str) -> Self {
        Scene::run(services, front, "kind = \"http\"\npath = \"/check\"").await_checks(services.len())
    }

    /// Waits until everything is checked, told to the data plane, and shown by it.
    pub(crate) fn await_checks(self, services: usize) -> Self {
        let scene = self;
        let names: Vec<String> = (1..=services).map(|n| format!("s{n}")).collect();
        until("checked", || {
            let all = scene.get("/v1/services");
            let all = all["services"].as_array().cloned().unwrap_or_default();
            names.iter().all(|name| all.iter().any(|s| s["service"] == **name && s["state"] != "learning"))
        });
        until("shown", || {
            let members = scene.live()["members"].as_array().cloned().unwrap_or_default();
            !members.is_empty() && members.iter().all(|m| m["state"] != "learning")
        });
        scene
    }

    /// The same with another monitor, and without waiting for it.
    pub(crate) fn run(services: &[SocketAddr], front: &str, monitor: &str) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_ports(4));
        let pki = folder.path().join("pki");
        for command in [&["init", "--group", "test"][..], &["issue", "fra/1"]] {
            let arguments = [&["pki", command[0], pki.to_str().unwrap()], &command[1..]].concat();
            assert!(Process::start(&arguments).wait(SOON).success());
        }
        let file = folder.path().join("gslb.toml");
        std::fs::write(&file, text(services, front, monitor, port)).unwrap();
        let node = Process::start(&["--log", "error", "run", file.to_str().unwrap()]);
        Scene { node, port, folder }
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub(crate) fn vip(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port + 3).into()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let answer = ask(Ipv4Addr::LOCALHOST, (Ipv4Addr::LOCALHOST, self.port + 2).into(), path);
        answer
            .split_once("\r\n\r\n")
            .and_then(|(_, body)| serde_json::from_str(body).ok())
            .unwrap_or_default()
    }

    /// The live numbers of the virtual server.
    pub(crate) fn live(&self) -> Value {
        self.get("/v1/vservers")["lb_vservers"][0]["live"].clone()
    }

    /// What the n-th service shows in it, from 1.
    pub(crate) fn member(&self, n: usize) -> Value {
        self.live()["members"][n - 1].clone()
    }

    /// The body of a request from this address; its status if it is not 200.
    pub(crate) fn body(&self, from: Ipv4Addr, path: &str) -> String {
        let answer = ask(from, self.vip(), path);
        let status = answer.split(' ').nth(1).unwrap_or_default();
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
        if status == "200" { body } else { status.to_owned() }
    }

    /// Who gets so many requests, one after the other.
    pub(crate) fn names(&self, requests: usize) -> Vec<String> {
        let one = |_| self.body(Ipv4Addr::LOCALHOST, "/").chars().take(2).collect();
        (0..requests).map(one).collect()
    }

    /// A request that stays open, and who has it; or the status it got.
    pub(crate) fn hold(&self) -> (TcpStream, String) {
        let mut stream = connect(Ipv4Addr::LOCALHOST, self.vip());
        write!(stream, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let (mut text, mut byte) = (Vec::new(), [0; 1]);
        while !text.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
            text.extend(byte);
        }
        let head = String::from_utf8(text).unwrap();
        if !head.contains(" 200 ") {
            return (stream, head.split(' ').nth(1).unwrap_or_default().to_owned());
        }
        let mut name = [0; 2];
        stream.read_exact(&mut name).unwrap();
        (stream, String::from_utf8(name.to_vec()).unwrap())
    }
}

fn connect(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SockAddr::from(SocketAddr::from((IpAddr::V4(from), 0)))).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket.connect(&to.into()).map(|()| socket.into()).unwrap()
}

/// All that is answered to a request.
pub(crate) fn ask(from: Ipv4Addr, to: SocketAddr, path: &str) -> String {
    let asked = || -> std::io::Result<String> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SockAddr::from(SocketAddr::from((IpAddr::V4(from), 0))))?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        socket.connect(&to.into())?;
        let mut stream: TcpStream = socket.into();
        let (path, more) = path.split_once('\n').unwrap_or((path, ""));
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}Connection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    asked().unwrap_or_default()
}

/// Waits until it is so.
#[track_caller]
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < SOON, "{what}: not within {SOON:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    begun.elapsed()
}

fn text(services: &[SocketAddr], front: &str, monitor: &str, port: u16) -> String {
    let (dns, mep, admin, vip) = (port, port + 1, port + 2, port + 3);
    let mut text = format!(
        r#"version = 1
[group]
name = "test"
[dns]
listen = ["127.0.0.1:{dns}"]
[mep]
listen = "127.0.0.1:{mep}"
[admin]
listen = "127.0.0.1:{admin}"
[[sites]]
name = "fra"
[[nodes]]
name = "fra/1"
mep = "127.0.0.1:{mep}"
[[zones]]
name = "gslb.test"
records = '''
@   SOA ns1 hostmaster 1 1h 15m 1w 5s
    NS  ns1
ns1 A   127.0.0.1
'''
[[monitors]]
name = "web"
{monitor}
interval = "1s"
timeout = "900ms"
fall = 1
[[services]]
name = "vip"
site = "fra"
address = "127.0.0.1"
port = {vip}
lb_vserver = "front"
[[vservers]]
name = "www"
services = ["vip"]
[[domains]]
name = "www.gslb.test"
vserver = "www"
"#
    );
    for (n, address) in services.iter().enumerate() {
        text += &format!(
            "[[services]]\nname = \"s{}\"\nsite = \"fra\"\naddress = \"{}\"\nport = {}\nmonitors = [\"web\"]\n",
            n + 1,
            address.ip(),
            address.port()
        );
    }
    text + &format!(
        "[[lb_vservers]]\nname = \"front\"\nsite = \"fra\"\nlisten = [\"127.0.0.1:{vip}\"]\n{front}\n"
    )
}
