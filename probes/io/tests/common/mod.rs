//! A running sender with a counter of requests, and LDNS and servers that answer as told.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

pub(crate) mod certificates;
pub(crate) mod checks;
pub(crate) mod daemons;
pub(crate) mod echo;
pub(crate) mod failing;
pub(crate) mod figures;
pub(crate) mod net;
pub(crate) mod scenes;
pub(crate) mod script;
pub(crate) mod wire;

use gslb_types::{ProbeKind, Rtt};
use probes_core::wire::{
    Check, CheckOutcome, CheckReply, CheckRequest, ProbeId, ProbeOutcome, ProbeReply, ProbeRequest,
};
use probes_io::{ProbeIo, Reply, Request, Settings};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Longer than any reply takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn v4(a: u8, b: u8, c: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, a, b, c))
}

/// A running sender.
pub(crate) struct Running {
    pub(crate) io: ProbeIo,
    pub(crate) cancel: CancellationToken,
    requests: mpsc::Sender<Request>,
    replies: mpsc::Receiver<Reply>,
    next: u64,
}

impl Running {
    pub(crate) fn start(settings: Settings) -> Self {
        let (requests, requested) = mpsc::channel(4096);
        let (replied, replies) = mpsc::channel(4096);
        let cancel = CancellationToken::new();
        let io = ProbeIo::start(settings, requested, replied, &cancel).unwrap();
        Running { io, cancel, requests, replies, next: 0 }
    }

    pub(crate) fn on_port(port: u16) -> Self {
        Running::start(Settings { port, ..Settings::default() })
    }

    /// Sends probes all at once, and returns their outcomes by target and in the order of the requests, each answered once.
    pub(crate) async fn probes(&mut self, probes: &[(IpAddr, ProbeKind, Duration)]) -> Vec<ProbeOutcome> {
        let first = self.next;
        for &(target, kind, timeout) in probes {
            let id = self.id();
            self.requests.send(Request::Probe(ProbeRequest { id, target, kind, timeout })).await.unwrap();
        }
        let mut outcomes = BTreeMap::new();
        while outcomes.len() < probes.len() {
            let reply = tokio::time::timeout(LONG * 2, self.replies.recv()).await.unwrap().unwrap();
            let Reply::Probe(ProbeReply { id, outcome }) = reply else { panic!("{reply:?}") };
            assert!((first..self.next).contains(&id.0), "{id:?} was not asked for");
            assert!(outcomes.insert(id, outcome).is_none(), "{id:?} was answered twice");
        }
        outcomes.into_values().collect()
    }

    pub(crate) async fn probe(&mut self, target: IpAddr, kind: ProbeKind, timeout: Duration) -> ProbeOutcome {
        self.probes(&[(target, kind, timeout)]).await[0]
    }

    pub(crate) async fn check(
        &mut self,
        target: SocketAddr,
        check: Check,
        timeout: Duration,
    ) -> CheckOutcome {
        self.check_from(None, target, check, timeout).await
    }

    pub(crate) async fn check_from(
        &mut self,
        source: Option<IpAddr>,
        target: SocketAddr,
        check: Check,
        timeout: Duration,
    ) -> CheckOutcome {
        let id = self.id();
        let request = CheckRequest { id, check: check.into(), target, source, timeout };
        self.requests.send(Request::Check(request)).await.unwrap();
        let reply = tokio::time::timeout(LONG * 2, self.replies.recv()).await.unwrap().unwrap();
        let Reply::Check(CheckReply { id: of, outcome }) = reply else { panic!("{reply:?}") };
        assert_eq!(of, id);
        outcome
    }

    /// No reply is on its way.
    pub(crate) fn assert_silent(&mut self) {
        assert_eq!(self.replies.try_recv().ok(), None);
    }

    pub(crate) fn id(&mut self) -> ProbeId {
        self.next += 1;
        ProbeId(self.next - 1)
    }

    pub(crate) fn requests(&self) -> mpsc::Sender<Request> {
        self.requests.clone()
    }

    /// Stops it, and the test hangs if it does not stop.
    pub(crate) async fn stop(self) {
        self.cancel.cancel();
        self.io.join().await;
    }

    /// Drops the sender of requests, and returns the replies that still come.
    pub(crate) async fn drain(self) -> Vec<Reply> {
        let Running { io, requests, mut replies, .. } = self;
        drop(requests);
        let mut rest = Vec::new();
        while let Some(reply) = replies.recv().await {
            rest.push(reply);
        }
        io.join().await;
        rest
    }
}

/// The RTT of any outcome that has one.
pub(crate) fn rtt(outcome: ProbeOutcome) -> Option<Rtt> {
    match outcome {
        ProbeOutcome::EchoReply(rtt)
        | ProbeOutcome::DnsAnswer(rtt)
        | ProbeOutcome::Connected(rtt)
        | ProbeOutcome::Reset(rtt)
        | ProbeOutcome::PortUnreachable(rtt) => Some(rtt),
        ProbeOutcome::RouterError
        | ProbeOutcome::TimedOut
        | ProbeOutcome::SendFailed
        | ProbeOutcome::NotPermitted => None,
    }
}

/// Says that a test, or a part of one, can't be run here, past the test runner's capture. Where the environment says
/// `GSLB_LAB=required`, as in continuous integration, that is a failure.
pub(crate) fn skipped(what: &str) {
    assert!(std::env::var("GSLB_LAB").as_deref() != Ok("required"), "GSLB_LAB=required, but: {what}");
    let _ = writeln!(std::io::stderr(), "skipped: {what}");
}

/// Whether it is raw ICMP that this process may use; says so if not.
pub(crate) fn may_ping(running: &Running) -> bool {
    let may = running.io.icmp().v4 == probes_io::IcmpSocket::Raw;
    if !may {
        skipped(&format!("no raw ICMP socket is permitted ({:?})", running.io.icmp()));
    }
    may
}

/// Threads of this process whose name begins so.
pub(crate) fn threads_named(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|comm| comm.starts_with(&name[..name.len().min(15)])).count()
}

/// A UDP server in a thread, until dropped.
pub(crate) struct Ldns {
    pub(crate) addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ldns {
    /// Answers each query by calling `answer` with the socket, the query and its sender.
    pub(crate) fn start(
        addr: impl Into<SocketAddr>,
        mut answer: impl FnMut(&UdpSocket, &[u8], SocketAddr) + Send + 'static,
    ) -> Self {
        let socket = UdpSocket::bind(addr.into()).unwrap();
        socket.set_read_timeout(Some(ms(50))).unwrap();
        let (addr, stop) = (socket.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut buf = [0; 512];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut buf) {
                    answer(&socket, &buf[..len], from);
                }
            }
        });
        Ldns { addr, stop, thread: Some(thread) }
    }
}

impl Drop for Ldns {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// The query as an answer with this rcode.
pub(crate) fn answered(query: &[u8], rcode: u8) -> Vec<u8> {
    let mut answer = query.to_vec();
    answer[2] |= 0x80;
    answer[3] = rcode;
    answer
}
