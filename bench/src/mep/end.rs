//! One of the two nodes: session machine and carrier of the product on a thread of their own.

use crate::table::Table;
use gslb_types::{LdnsMasks, NodeId, Timestamp, Transport};
use mep_core::carrier::{CarrierCommand, Over};
use mep_core::{Mep, Output, PeerSettings, Settings};
use mep_io::{Carrier, Identity, Limits};
use nix::unistd::{Pid, gettid};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc as blocking};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Frames that may wait between carrier and machine.
const QUEUE: usize = 4096;

/// Events taken before outputs are looked at, as the product does.
const BATCH: usize = 64;

/// Who an end is, and what it brings.
pub(crate) struct Plan {
    pub(crate) me: NodeId,
    pub(crate) identity: Arc<Identity>,
    pub(crate) peer: NodeId,
    pub(crate) over: Over,
    pub(crate) rtt_interval: Duration,
    pub(crate) table: Table,
}

/// What an end has seen so far.
#[derive(Default)]
pub(crate) struct Seen {
    /// RTT rows taken.
    pub(crate) rows: AtomicU64,
    /// When the session stood, and when the peer had told all it knew.
    pub(crate) times: Mutex<(Option<Instant>, Option<Instant>)>,
    over_another_carrier: AtomicBool,
}

impl Seen {
    /// When the session stood.
    pub(crate) fn up(&self) -> Option<Instant> {
        self.times.lock().ok().and_then(|times| times.0)
    }

    /// When the peer had told all it knew.
    pub(crate) fn synced(&self) -> Option<Instant> {
        self.times.lock().ok().and_then(|times| times.1)
    }

    /// Whether the session stands over another carrier than the one to be measured.
    pub(crate) fn is_over_another_carrier(&self) -> bool {
        self.over_another_carrier.load(Ordering::Relaxed)
    }
}

/// A node that runs until it is dropped.
pub(crate) struct End {
    pub(crate) address: SocketAddr,
    pub(crate) thread: Pid,
    pub(crate) seen: Arc<Seen>,
    peer: Option<blocking::Sender<SocketAddr>>,
    changes: mpsc::Sender<usize>,
    stop: CancellationToken,
    running: Option<JoinHandle<Result<(), String>>>,
}

impl End {
    /// Takes its sockets and waits to be told where the peer is.
    pub(crate) fn bind(plan: Plan) -> Result<Self, String> {
        let (bound, is_bound) = blocking::channel();
        let (peer, peer_address) = blocking::channel();
        let (changes, orders) = mpsc::channel(16);
        let (seen, stop) = (Arc::new(Seen::default()), CancellationToken::new());
        let (own_seen, own_stop) = (seen.clone(), stop.clone());
        let running = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| error.to_string())?.block_on(async {
                let carrier = bind(&plan)?;
                let ready = bound.send((carrier.local_address(), gettid()));
                ready.map_err(|_| "the measurement is over".to_owned())?;
                let Ok(address) = peer_address.recv() else { return Ok(()) };
                Box::pin(drive(plan, carrier, address, orders, own_seen, own_stop)).await;
                Ok(())
            })
        });
        match is_bound.recv() {
            Ok((address, thread)) => {
                let (peer, running) = (Some(peer), Some(running));
                Ok(End { address, thread, seen, peer, changes, stop, running })
            }
            Err(_) => Err(end_of(running)),
        }
    }

    /// Lets it dial.
    pub(crate) fn meet(&mut self, peer: SocketAddr) {
        if let Some(waiting) = self.peer.take() {
            let _ = waiting.send(peer); // it has ended: seen by whoever waits for its session
        }
    }

    /// Changes so many of its RTTs.
    pub(crate) fn change(&self, count: usize) -> Result<(), String> {
        self.changes.blocking_send(count).map_err(|_| "the node that tells has ended".to_owned())
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.stop.cancel();
        self.peer = None;
        if let Some(running) = self.running.take() {
            let _ = running.join(); // whatever it says, the figures are taken
        }
    }
}

fn end_of(running: JoinHandle<Result<(), String>>) -> String {
    match running.join() {
        Ok(Err(why)) => why,
        Ok(Ok(())) | Err(_) => "a node ended by itself".to_owned(),
    }
}

fn bind(plan: &Plan) -> Result<Carrier, String> {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = mep_io::Settings { listen, identity: plan.identity.clone(), limits: Limits::default() };
    Carrier::bind(settings).map_err(|error| error.to_string())
}

fn settings(plan: &Plan, address: SocketAddr) -> Settings {
    let transport = match plan.over {
        Over::Quic => Transport::Quic,
        Over::Grpc => Transport::Grpc,
    };
    Settings {
        peers: vec![PeerSettings { id: plan.peer.clone(), address, transport }],
        group: crate::measure::GROUP.to_owned(),
        software: env!("CARGO_PKG_VERSION").to_owned(),
        keepalive: Duration::from_secs(10),
        metrics_interval: Duration::from_secs(1),
        rtt_interval: plan.rtt_interval,
        must_match: Vec::new(),
        config_hash: 0,
        masks: LdnsMasks::default(),
        outbox_cap: plan.table.len().max(1_000_000),
        sessions_interval: Duration::from_secs(5),
        sessions_cap: 1_000,
        quic_retry: Duration::from_secs(60),
    }
}

async fn drive(
    mut plan: Plan,
    carrier: Carrier,
    peer: SocketAddr,
    mut orders: mpsc::Receiver<usize>,
    seen: Arc<Seen>,
    stop: CancellationToken,
) {
    let start = Instant::now();
    let now = || Timestamp::ZERO + start.elapsed();
    let seed = plan.me.to_string().len() as u64;
    let mut mep = Mep::new(now(), plan.me.clone(), 1, settings(&plan, peer), seed);
    let (commands, obeyed) = mpsc::channel(QUEUE);
    let (reported, mut events) = mpsc::channel(QUEUE);
    let carrying = tokio::spawn(carrier.run(obeyed, reported, CancellationToken::new()));
    loop {
        mep.handle_timeout(now(), &plan.table);
        while let Some(output) = mep.poll_output() {
            if let Some(command) = take(output, &mep, plan.over, &seen)
                && commands.send(command).await.is_err()
            {
                return;
            }
        }
        let wake = mep.poll_timeout().map_or(Duration::from_secs(1), |at| at.since(now()));
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(wake) => {}
            Some(event) = events.recv() => {
                mep.handle_carrier(now(), event);
                for _ in 1..BATCH {
                    let Ok(event) = events.try_recv() else { break };
                    mep.handle_carrier(now(), event);
                }
            }
            Some(count) = orders.recv() => {
                for ldns in plan.table.change(count) {
                    mep.note_rtt(now(), ldns, false);
                }
            }
        }
    }
    drop(commands);
    let _ = carrying.await; // its goodbye is of no interest
}

fn take(output: Output, mep: &Mep, over: Over, seen: &Seen) -> Option<CarrierCommand> {
    let note = |set: fn(&mut (Option<Instant>, Option<Instant>))| {
        if let Ok(mut times) = seen.times.lock() {
            set(&mut times);
        }
    };
    match output {
        Output::Carrier(command) => return Some(command),
        Output::PeerUp { .. } => {
            note(|times| times.0 = Some(Instant::now()));
            let other = mep.peers().any(|peer| peer.over != Some(over));
            seen.over_another_carrier.store(other, Ordering::Relaxed);
        }
        Output::Synced { .. } => note(|times| times.1 = Some(Instant::now())),
        Output::Rtts { rows, .. } => {
            seen.rows.fetch_add(rows.len() as u64, Ordering::Relaxed);
        }
        // Of no interest here.
        _ => {}
    }
    None
}
