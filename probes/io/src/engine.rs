//! Requests in, replies out, and how many are under way.

use crate::check::{Tools, check};
use crate::fetch::fetch;
use crate::icmp::{Icmp, IcmpSockets, Pinged};
use crate::local::{Settings, can_bind};
use crate::tcp::dns_tcp;
use crate::udp::dns_udp;
use gslb_types::ProbeKind;
use nix::sys::resource::{Resource, getrlimit};
use probes_core::wire::{
    CheckOutcome, CheckReply, CheckRequest, FetchReply, FetchRequest, ProbeId, ProbeOutcome, ProbeReply,
    ProbeRequest,
};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{self, JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What is asked of this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A probe towards an LDNS.
    Probe(ProbeRequest),
    /// A check of a service.
    Check(CheckRequest),
    /// A look at the page of a foreign load balancer.
    Fetch(FetchRequest),
}

/// What it reports: exactly one per request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To a [`Request::Probe`].
    Probe(ProbeReply),
    /// To a [`Request::Check`].
    Check(CheckReply),
    /// To a [`Request::Fetch`].
    Fetch(FetchReply),
}

/// Why sending can't start. Nothing is open and nothing runs.
#[derive(Debug, Error)]
pub enum StartError {
    /// A configured source is not an address of this host (faults I-41).
    #[error("probe source {address} is not an address of this host ({reason}); see `ip address`")]
    Source {
        /// The configured address.
        address: IpAddr,
        /// What the system says to it.
        reason: io::Error,
    },
    /// The number of probes under way is zero, or beyond what a semaphore counts.
    #[error("{0} probes under way at most: must be between 1 and {max}", max = Semaphore::MAX_PERMITS)]
    InFlight(usize),
}

/// The running sender of probes and checks.
#[derive(Debug)]
pub struct ProbeIo {
    icmp: IcmpSockets,
    tasks: JoinSet<()>,
}

impl ProbeIo {
    /// Starts it, within a runtime with I/O and time. Sockets for ping are opened here, so privileges may be dropped after.
    ///
    /// Every request gets one reply, within its timeout and a little. Beyond [`Settings::in_flight`] it comes at once:
    /// a probe was not sent, a check says nothing about its service. It runs until `cancel` (what is under way then gets
    /// no reply) or until the sender of requests is dropped (what is under way is finished).
    ///
    /// Both channels may be full: replies wait, and with as many waiting as may be under way no request is taken until
    /// some are read. The owner must therefore not wait for room for a request without reading replies meanwhile.
    pub fn start(
        settings: Settings,
        requests: mpsc::Receiver<Request>,
        replies: mpsc::Sender<Reply>,
        cancel: &CancellationToken,
    ) -> Result<Self, StartError> {
        for address in settings.sources() {
            can_bind(address).map_err(|reason| StartError::Source { address, reason })?;
        }
        if !(1..=Semaphore::MAX_PERMITS).contains(&settings.in_flight) {
            return Err(StartError::InFlight(settings.in_flight));
        }
        let (icmp, cancel) = (Icmp::open(&settings), cancel.child_token());
        let (sockets, mut tasks) = (icmp.sockets(), JoinSet::new());
        for echo in icmp.open_sockets() {
            tasks.spawn(echo.run(cancel.clone()));
        }
        let engine = Engine {
            sender: Arc::new(Sender { settings, icmp, tools: Tools::new(settings.commands) }),
            probes: Arc::new(Semaphore::new(settings.in_flight)),
            checks: Arc::new(Semaphore::new(settings.checks_at_once(open_files()))),
            running: JoinSet::new(),
            asked: HashMap::new(),
            refused: VecDeque::new(),
            replies,
            answer,
            _stops_the_others: cancel.clone().drop_guard(),
        };
        tasks.spawn(async move {
            cancel.run_until_cancelled(engine.run(requests)).await;
        });
        Ok(ProbeIo { icmp: sockets, tasks })
    }

    /// What pings are sent by.
    pub fn icmp(&self) -> IcmpSockets {
        self.icmp
    }

    /// Waits until it has stopped.
    pub async fn join(mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            complain_of_panic(ended);
        }
    }
}

/// Takes requests and keeps count.
struct Engine<A> {
    sender: Arc<Sender>,
    probes: Arc<Semaphore>,
    checks: Arc<Semaphore>,
    running: JoinSet<()>,
    /// What each task under way was asked.
    asked: HashMap<task::Id, Asked>,
    /// Replies to requests that were too many, or whose task broke.
    refused: VecDeque<Reply>,
    replies: mpsc::Sender<Reply>,
    /// What answers a request.
    answer: A,
    _stops_the_others: DropGuard,
}

impl<A, F> Engine<A>
where
    A: Fn(Arc<Sender>, Request) -> F,
    F: Future<Output = Reply> + Send + 'static,
{
    async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let (most_refused, replies) = (self.sender.settings.in_flight, self.replies.clone());
        let mut is_open = true;
        loop {
            tokio::select! {
                request = requests.recv(), if is_open && self.refused.len() < most_refused => match request {
                    Some(request) => self.take(request),
                    None => is_open = false,
                },
                room = replies.reserve(), if !self.refused.is_empty() => match (room, self.refused.pop_front()) {
                    (Ok(room), Some(reply)) => room.send(reply),
                    _ => return,
                },
                Some(ended) = self.running.join_next_with_id() => self.end(ended),
                else => return,
            }
        }
    }

    /// Whoever asked gets a reply also of a task that broke: it says nothing about the service (faults I-57).
    fn end(&mut self, ended: Result<(task::Id, ()), JoinError>) {
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        let asked = self.asked.remove(&id);
        if let Err(error) = &ended
            && error.is_panic()
        {
            self.refused.extend(asked.map(|asked| asked.refused(BROKEN)));
        }
        complain_of_panic(ended.map(drop));
    }

    fn take(&mut self, request: Request) {
        let slots = match &request {
            Request::Probe(_) => &self.probes,
            Request::Check(_) | Request::Fetch(_) => &self.checks,
        };
        let asked = Asked::of(&request);
        match Arc::clone(slots).try_acquire_owned() {
            Ok(slot) => {
                let answer = (self.answer)(Arc::clone(&self.sender), request);
                let task = self.running.spawn(serve(answer, self.replies.clone(), slot));
                self.asked.insert(task.id(), asked);
            }
            Err(_) => self.refused.push_back(asked.refused(TOO_MANY)),
        }
    }
}

async fn serve(
    answer: impl Future<Output = Reply>,
    replies: mpsc::Sender<Reply>,
    _slot: OwnedSemaphorePermit,
) {
    // An owner that is gone needs no reply.
    let _ = replies.send(answer.await).await;
}

async fn answer(sender: Arc<Sender>, request: Request) -> Reply {
    match request {
        Request::Probe(ProbeRequest { id, target, kind, timeout: limit }) => {
            let outcome = timeout(limit, sender.probe(target.to_canonical(), kind)).await;
            Reply::Probe(ProbeReply { id, outcome: outcome.unwrap_or(ProbeOutcome::TimedOut) })
        }
        Request::Check(request) => {
            Reply::Check(CheckReply { id: request.id, outcome: check(&sender, &request).await })
        }
        Request::Fetch(request) => Reply::Fetch(fetch(request).await),
    }
}

/// What a reply must name.
#[derive(Clone, Copy)]
enum Asked {
    Probe(ProbeId),
    Check(ProbeId),
    Fetch(ProbeId),
}

impl Asked {
    fn of(request: &Request) -> Self {
        match request {
            Request::Probe(probe) => Asked::Probe(probe.id),
            Request::Check(check) => Asked::Check(check.id),
            Request::Fetch(fetch) => Asked::Fetch(fetch.id),
        }
    }

    /// The reply that nothing was found out, for this reason.
    fn refused(self, why: &str) -> Reply {
        let why = why.to_owned();
        match self {
            Asked::Probe(id) => Reply::Probe(ProbeReply { id, outcome: ProbeOutcome::SendFailed }),
            Asked::Check(id) => Reply::Check(CheckReply { id, outcome: CheckOutcome::Unable(why) }),
            Asked::Fetch(id) => Reply::Fetch(FetchReply { id, outcome: Err(why) }),
        }
    }
}

const TOO_MANY: &str = "too many checks run at once";

const BROKEN: &str = "the check broke; please report this";

fn complain_of_panic(ended: Result<(), JoinError>) {
    if let Err(e) = ended
        && e.is_panic()
    {
        tracing::error!(reason = %e, "a probe task ended by a panic; please report this");
    }
}

/// How many descriptors this process may have; as good as unbounded if the system does not say.
fn open_files() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft)
}

/// What it takes to send.
pub(crate) struct Sender {
    pub(crate) settings: Settings,
    pub(crate) icmp: Icmp,
    pub(crate) tools: Tools,
}

impl Sender {
    async fn probe(&self, target: IpAddr, kind: ProbeKind) -> ProbeOutcome {
        match kind {
            ProbeKind::Ping => match self.icmp.ping(target, None).await {
                Pinged::Reply(rtt) => ProbeOutcome::EchoReply(rtt),
                // A port unreachable too: an echo request has no port, so no host says so of its own accord.
                Pinged::Error(_) => ProbeOutcome::RouterError,
                Pinged::NotSent(_) => ProbeOutcome::SendFailed,
                Pinged::NotPermitted => ProbeOutcome::NotPermitted,
            },
            ProbeKind::DnsUdp => dns_udp(&self.settings, target).await,
            ProbeKind::DnsTcp => dns_tcp(&self.settings, target).await,
        }
    }
}

#[cfg(test)]
mod tests;
