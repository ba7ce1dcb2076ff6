//! A machine that runs one node, or doesn't.

use super::agenda::Event;
use config::Config;
use gslb_core::{Birth, Node, Published, Shared};
use gslb_types::{NodeId, SiteIndex, Timestamp};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A machine.
pub struct Host {
    pub(crate) config: Arc<Config>,
    pub(crate) process: Option<Process>,
    /// Counts the processes there were: what was on its way to an earlier one is lost.
    pub(crate) life: u64,
}

/// A running `gslb-dns`.
pub(crate) struct Process {
    pub(crate) node: Node,
    pub(crate) shared: Arc<Shared>,
    pub(crate) pace: Pace,
    /// Whether whoever sends probes and checks for it has died (faults I-57).
    pub(crate) is_mute: bool,
    born: Timestamp,
    /// How far its clock jumped ahead of the world's.
    ahead: Duration,
    /// What arrived while it was stopped.
    pub(crate) backlog: Vec<Event>,
    pub(crate) wake: Option<Timestamp>,
}

/// How a process gets on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    Running,
    /// All its threads stand still, as after SIGSTOP.
    Stopped,
    /// Its node task stands still or is dead; its DNS threads go on.
    Stuck,
}

impl Host {
    pub(crate) fn new(config: Config) -> Self {
        Host { config: Arc::new(config), process: None, life: 0 }
    }

    pub(crate) fn start(&mut self, now: Timestamp, seed: u64, boot: u64) {
        self.life += 1;
        let shared = Arc::new(Shared::new(&self.config, seed, Timestamp::ZERO));
        let birth = Birth { seed, boot, local: Vec::new(), coalesce: Duration::ZERO };
        let node = Node::new(self.config.clone(), shared.clone(), &birth, Timestamp::ZERO);
        self.process = Some(Process {
            node,
            shared,
            pace: Pace::Running,
            is_mute: false,
            born: now,
            ahead: Duration::ZERO,
            backlog: Vec::new(),
            wake: Some(now),
        });
    }

    /// SITE/NODE.
    pub fn id(&self) -> &NodeId {
        &self.config.this_node().id
    }

    /// Where peers dial it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.config.this_node().mep
    }

    /// The site it stands in.
    pub fn site(&self) -> SiteIndex {
        self.config.this_site()
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What its node shows to queries and the admin API; nothing if it does not run.
    pub fn shared(&self) -> Option<&Shared> {
        self.process.as_ref().map(|p| p.shared.as_ref())
    }

    /// What its node has published; nothing if it does not run.
    pub fn published(&self) -> Option<Arc<Published>> {
        self.shared().map(|shared| shared.published.load_full())
    }

    /// Whether it answers queries.
    pub fn is_running(&self) -> bool {
        self.process.as_ref().is_some_and(|p| p.pace != Pace::Stopped)
    }

    /// Its own time.
    pub fn local(&self, now: Timestamp) -> Option<Timestamp> {
        self.process.as_ref().map(|p| p.local(now))
    }

    /// When it wants to be woken, in the world's time.
    pub(crate) fn wake(&self) -> Option<Timestamp> {
        self.process.as_ref().filter(|p| p.pace == Pace::Running).and_then(|p| p.wake)
    }
}

impl Process {
    pub(crate) fn local(&self, now: Timestamp) -> Timestamp {
        Timestamp::ZERO + now.since(self.born) + self.ahead
    }

    /// Reads anew when the node wants to be woken.
    pub(crate) fn set_alarm(&mut self) {
        let at = self.node.poll_timeout();
        self.wake = at.map(|at| self.born + at.before(self.ahead).since(Timestamp::ZERO));
    }

    pub(crate) fn jump(&mut self, by: Duration) {
        self.ahead += by;
        self.set_alarm();
    }
}
