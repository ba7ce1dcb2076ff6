//! The binary as a child process, and a resolver that asks it. Shared by the tests of this folder.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

pub(crate) mod group;

use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RData, RecordType};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A running `gslb-dns`; killed when dropped.
pub(crate) struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
    seen: Vec<String>,
}

impl Process {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::spawn(Command::new(env!("CARGO_BIN_EXE_gslb-dns")).args(args))
    }

    /// With so many descriptors at most.
    pub(crate) fn start_with_descriptors(most: u32, args: &[&str]) -> Self {
        let script = format!("ulimit -n {most} && exec \"$0\" \"$@\"");
        Self::spawn(Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_gslb-dns")]).args(args))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Process { child, lines, seen: Vec::new() }
    }

    pub(crate) fn wait_for_line(&mut self, part: &str, limit: Duration) -> String {
        self.wait_for_parts(&[part], limit)
    }

    /// The first line with all these parts, awaited if need be.
    pub(crate) fn wait_for_parts(&mut self, parts: &[&str], limit: Duration) -> String {
        let end = Instant::now() + limit;
        loop {
            if let Some(line) = self.seen.iter().find(|line| parts.iter().all(|part| line.contains(part))) {
                return line.clone();
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.seen.push(line),
                Err(_) => panic!("no line with {parts:?} within {limit:?}: {:#?}", self.seen),
            }
        }
    }

    pub(crate) fn interrupt(&self) {
        self.signal(Signal::SIGINT);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn wait(&mut self, limit: Duration) -> ExitStatus {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "it does not end within {limit:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// All it wrote to standard error; to be called when it has ended.
    pub(crate) fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// All it wrote to standard output; to be called when it has ended.
    pub(crate) fn stdout(&mut self) -> String {
        self.seen.extend(self.lines.iter());
        self.seen.join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until somebody accepts TCP connections there.
pub(crate) fn wait_for_listener(address: &str, limit: Duration) {
    let end = Instant::now() + limit;
    while std::net::TcpStream::connect(address).is_err() {
        assert!(Instant::now() < end, "nobody listens at {address} within {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ports below the range the kernel gives out, so many in a row, that nobody listens on at the moment. No two calls of a
/// process get the same ones, and processes begin at different places.
pub(crate) fn free_ports(count: u16) -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let begin = u16::try_from(std::process::id() % 100).unwrap() * 200;
    let is_free = |port| {
        let address = (Ipv4Addr::UNSPECIFIED, port);
        TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
    };
    for _ in 0..100 {
        let start = 10_000 + (begin + TAKEN.fetch_add(count, Ordering::Relaxed)) % 20_000;
        if (start..start + count).all(is_free) {
            return start;
        }
    }
    panic!("no {count} free ports in a row");
}

/// The A records a node answers to a resolver at this address.
pub(crate) fn ask(from: Ipv4Addr, node: SocketAddr, name: &str) -> Vec<Ipv4Addr> {
    try_ask(from, node, name).unwrap()
}

/// The same; `None` if no answer comes, or another than NOERROR.
pub(crate) fn try_ask(from: Ipv4Addr, node: SocketAddr, name: &str) -> Option<Vec<Ipv4Addr>> {
    let mut query = Message::new(7, MessageType::Query, OpCode::Query);
    query.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    let socket = UdpSocket::bind((from, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.connect(node).unwrap();
    socket.send(&query.to_vec().unwrap()).ok()?;
    let mut buffer = [0; 1500];
    let len = socket.recv(&mut buffer).ok()?;
    let reply = Message::from_vec(&buffer[..len]).unwrap();
    let addresses =
        reply.answers.iter().filter_map(|r| if let RData::A(a) = &r.data { Some(a.0) } else { None });
    let addresses = addresses.collect();
    (reply.metadata.response_code.low() == 0).then_some(addresses)
}
