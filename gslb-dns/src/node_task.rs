//! The one task that owns the node's machine: feeds it, and carries out what it says.

use crate::clock::Clock;
use crate::listen::Noted;
use crate::local::Ear;
use futures_util::FutureExt;
use gslb_core::{Input, LocalView, Node, Output};
use gslb_types::Timestamp;
use mep_core::carrier::{CarrierCommand, CarrierEvent};
use probes_io::{Reply, Request};
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Inputs taken at once before outputs are looked at: one wake-up serves a burst.
const BATCH: usize = 64;

/// Before a machine that failed is made anew: it may fail at once again.
const RESTART_PAUSE: Duration = Duration::from_millis(500);

/// The machine's connections to the rest of the process.
pub(crate) struct Channels {
    pub(crate) sightings: mpsc::Receiver<Noted>,
    pub(crate) replies: mpsc::Receiver<Reply>,
    pub(crate) events: mpsc::Receiver<CarrierEvent>,
    pub(crate) requests: mpsc::Sender<Request>,
    pub(crate) commands: mpsc::Sender<CarrierCommand>,
    /// What the data plane shows.
    pub(crate) local: watch::Receiver<Vec<LocalView>>,
    /// Who tells it how services are.
    pub(crate) ear: Ear,
}

/// Drives nodes made by `make` until `stop` is cancelled. A node that panics is replaced by a new one, while the DNS threads
/// answer from what the old one published (faults I-57).
pub(crate) async fn supervise(
    make: impl Fn(Timestamp) -> Node,
    clock: Clock,
    mut channels: Channels,
    stop: CancellationToken,
) {
    loop {
        let life = async {
            let node = make(clock.now());
            let (requests, commands) = (VecDeque::new(), VecDeque::new());
            NodeTask { node, clock, channels: &mut channels, requests, commands }.drive(&stop).await;
        };
        // The machine is thrown away after a panic; the channels hold whole messages only.
        if AssertUnwindSafe(life).catch_unwind().await.is_ok() {
            return;
        }
        tracing::error!(
            "the node task failed and is started anew; DNS goes on answering from what was published"
        );
        tokio::time::sleep(RESTART_PAUSE).await;
    }
}

struct NodeTask<'a> {
    node: Node,
    clock: Clock,
    channels: &'a mut Channels,
    /// What does not fit into the channels yet. Bounded by the machine's budgets and by what it waits for.
    requests: VecDeque<Request>,
    commands: VecDeque<CarrierCommand>,
}

impl NodeTask<'_> {
    async fn drive(&mut self, stop: &CancellationToken) {
        loop {
            self.collect();
            let wake = self.node.poll_timeout().unwrap_or(Timestamp::MAX);
            let sleep = tokio::time::sleep_until(self.clock.instant(wake.min(self.clock.now() + DAY)).into());
            let (requests, commands) = (self.channels.requests.clone(), self.channels.commands.clone());
            tokio::select! {
                () = stop.cancelled() => break,
                () = sleep => self.woken(),
                Some(noted) = self.channels.sightings.recv() => self.sightings(noted),
                Some(reply) = self.channels.replies.recv() => self.replies(reply),
                Some(event) = self.channels.events.recv() => self.events(event),
                Ok(()) = self.channels.local.changed() => self.views(),
                Ok(permit) = requests.reserve(), if !self.requests.is_empty() => {
                    if let Some(request) = self.requests.pop_front() {
                        permit.send(request);
                    }
                }
                Ok(permit) = commands.reserve(), if !self.commands.is_empty() => {
                    if let Some(command) = self.commands.pop_front() {
                        permit.send(command);
                    }
                }
            }
        }
        self.finish().await;
    }

    /// Peers are told before the channels close.
    async fn finish(&mut self) {
        self.node.handle_input(self.clock.now(), Input::Stop);
        self.collect();
        let commands = std::mem::take(&mut self.commands);
        for command in commands {
            if self.channels.commands.send_timeout(command, Duration::from_millis(200)).await.is_err() {
                break;
            }
        }
    }

    /// Hands on what the machine said, as far as there is room; the rest waits its turn without holding up inputs.
    fn collect(&mut self) {
        while let Some(output) = self.node.poll_output() {
            match output {
                Output::Probe(probe) => self.requests.push_back(Request::Probe(probe)),
                Output::Check(check) => self.requests.push_back(Request::Check(check)),
                Output::Fetch(fetch) => self.requests.push_back(Request::Fetch(fetch)),
                Output::Carrier(command) => self.commands.push_back(command),
                Output::Local(health) => self.channels.ear.hear(&health),
            }
        }
        while let Some(request) = self.requests.pop_front() {
            if let Err(full) = self.channels.requests.try_send(request) {
                self.requests.push_front(full.into_inner());
                break;
            }
        }
        while let Some(command) = self.commands.pop_front() {
            if let Err(full) = self.channels.commands.try_send(command) {
                self.commands.push_front(full.into_inner());
                break;
            }
        }
    }

    /// What the data plane showed while this task was held up comes first: it has not been silent.
    fn woken(&mut self) {
        if self.channels.local.has_changed().is_ok_and(|has| has) {
            self.views();
        }
        self.node.handle_timeout(self.clock.now());
    }

    fn views(&mut self) {
        let views = self.channels.local.borrow_and_update().clone();
        self.node.handle_input(self.clock.now(), Input::Local(views));
    }

    fn sightings(&mut self, first: Noted) {
        let now = self.clock.now();
        self.node.handle_input(now, first.into());
        for _ in 1..BATCH {
            let Ok(next) = self.channels.sightings.try_recv() else { break };
            self.node.handle_input(now, next.into());
        }
    }

    fn replies(&mut self, first: Reply) {
        let now = self.clock.now();
        let input = |reply| match reply {
            Reply::Probe(reply) => Input::Probe(reply),
            Reply::Check(reply) => Input::Check(reply),
            Reply::Fetch(reply) => Input::Source(reply),
        };
        self.node.handle_input(now, input(first));
        for _ in 1..BATCH {
            let Ok(next) = self.channels.replies.try_recv() else { break };
            self.node.handle_input(now, input(next));
        }
    }

    fn events(&mut self, first: CarrierEvent) {
        let now = self.clock.now();
        self.node.handle_input(now, Input::Carrier(first));
        for _ in 1..BATCH {
            let Ok(next) = self.channels.events.try_recv() else { break };
            self.node.handle_input(now, Input::Carrier(next));
        }
    }
}

/// The runtime's sleeps do not reach the end of time.
const DAY: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;
    use gslb_core::{Birth, Shared};
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const GROUP: &str = r#"
version = 1
[[sites]]
name = "fra"
[[nodes]]
name = "fra/1"
mep = "127.0.0.1:4353"
[[zones]]
name = "gslb.test"
records = """
@ SOA ns1 hostmaster 1 1h 15m 1w 5s
@ NS ns1
ns1 A 127.0.0.1
"""
[[services]]
name = "web"
site = "fra"
address = "192.0.2.80"
port = 80
[[vservers]]
name = "www"
services = ["web"]
[[domains]]
name = "www.gslb.test"
vserver = "www"
"#;

    fn load(text: &str) -> Arc<config::Config> {
        let mut read = |_: &Path| Ok(text.as_bytes().to_vec());
        Arc::new(config::load(Path::new("gslb.toml"), &mut read, None).unwrap())
    }

    fn channels(sightings: mpsc::Receiver<Noted>, requests: mpsc::Sender<Request>) -> Channels {
        Channels {
            sightings,
            replies: mpsc::channel(1).1,
            events: mpsc::channel(1).1,
            requests,
            commands: mpsc::channel(16).0,
            local: watch::channel(Vec::new()).1,
            ear: Ear::default(),
        }
    }

    fn birth() -> Birth {
        Birth { seed: 1, boot: 1, local: Vec::new(), coalesce: Duration::ZERO }
    }

    /// Faults I-57: a machine that fails is replaced, and publishes again.
    #[tokio::test]
    async fn a_node_that_fails_is_started_anew() {
        let config = load(GROUP);
        let clock = Clock::start();
        let shared = Arc::new(Shared::new(&config, 1, clock.now()));
        let (sender, mut probes) = mpsc::channel(16);
        let (sightings, sighting_queue) = mpsc::channel(16);
        let channels = channels(sighting_queue, sender);
        let lives = Arc::new(AtomicUsize::new(0));
        let (counted, published) = (lives.clone(), shared.clone());
        let make = move |now| {
            assert!(counted.fetch_add(1, Ordering::Relaxed) > 0, "the first one fails on purpose");
            Node::new(config.clone(), published.clone(), &birth(), now)
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(supervise(make, clock, channels, stop.clone()));
        sightings.send(Noted::Sighting([192, 0, 2, 53].into())).await.unwrap();
        assert!(probes.recv().await.is_some(), "the second one probes what was seen meanwhile");
        assert_eq!(lives.load(Ordering::Relaxed), 2);
        assert!(shared.published.load().generation > 0);
        stop.cancel();
        task.await.unwrap();
    }

    /// A task that was held up for longer than the data plane may be silent finds the latest view waiting.
    #[tokio::test]
    async fn a_stall_of_this_task_is_no_silence_of_the_data_plane() {
        let front = "[[lb_vservers]]\nname = \"front\"\nsite = \"fra\"\nlisten = [\"192.0.2.1:80\"]\nservices = [\"web\"]\n";
        let config = load(&(GROUP.to_owned() + front));
        let clock = Clock::start();
        let shared = Arc::new(Shared::new(&config, 1, clock.now()));
        let mut channels = channels(mpsc::channel(1).1, mpsc::channel(16).0);
        let (shown, views) = watch::channel(Vec::new());
        channels.local = views;
        let member = |service: &config::Service| lb_core::MemberSettings {
            name: service.name.clone(),
            weight: gslb_types::Weight::ONE,
            max_clients: None,
            max_bandwidth: None,
            enabled: true,
        };
        let settings = lb_core::BalancerSettings {
            method: gslb_types::LbMethod::RoundRobin,
            startup_rr_factor: 0,
            slow_start: Duration::ZERO,
            persistence: lb_core::LocalPersistence::None,
            members: config.services.iter().map(member).collect(),
        };
        let view = |connections| LocalView {
            vserver: config.lb_vservers[0].name.clone(),
            connections,
            max_connections: 10,
            balancer: lb_core::Balancer::new(clock.now(), settings.clone()).view(clock.now()),
        };
        let node =
            Node::new(config.clone(), shared.clone(), &birth(), clock.now().before(Duration::from_secs(60)));
        let (requests, commands) = (VecDeque::new(), VecDeque::new());
        let mut task = NodeTask { node, clock, channels: &mut channels, requests, commands };
        (1..=9).for_each(|n| drop(shown.send_replace(vec![view(n)])));
        task.woken();
        let published = shared.published.load();
        let state = published.local[0].as_ref().unwrap();
        assert!(state.is_heard, "{state:?}");
        assert_eq!(state.view.connections, 9, "the latest one");
    }
}
