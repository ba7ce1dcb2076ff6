//! A machine that runs one node, or doesn't.

use super::agenda::Event;
use config::Config;
use gslb_core::{Birth, KnownSession, Node, Published, SessionKey, Shared, Written};
use gslb_types::{NodeId, SiteIndex, Timestamp};
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// What a process's clock shows when it starts: what a peer told it may have happened before that.
const BIRTH: Timestamp = Timestamp::from_micros(86_400_000_000);

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
    /// What was written into the table since the witness looked, in order; nothing unless the process is watched.
    pub(crate) written: mpsc::Receiver<Written>,
    pub(crate) pace: Pace,
    /// Whether whoever sends probes and checks for it has died (faults I-57).
    pub(crate) is_mute: bool,
    clock: Clock,
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

    /// Starts a process. `left` is what a node task before its first one has left in it.
    pub(crate) fn start(
        &mut self,
        now: Timestamp,
        seed: u64,
        boot: u64,
        coalesce: Duration,
        is_watched: bool,
        left: impl FnOnce(&Shared),
    ) {
        self.life += 1;
        let shared = Arc::new(Shared::new(&self.config, seed, BIRTH));
        let (tell, written) = mpsc::channel();
        if is_watched {
            shared.rtts.watch(move |what| {
                let _ = tell.send(what); // nobody looks: the process is gone
            });
        }
        left(&shared);
        let birth = Birth { seed, boot, local: Vec::new(), coalesce };
        let node = Node::new(self.config.clone(), shared.clone(), &birth, BIRTH);
        self.process = Some(Process {
            node,
            shared,
            written,
            pace: Pace::Running,
            is_mute: false,
            clock: Clock { world: now, local: BIRTH, drift: 0 },
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

    /// Where a persistence session leads, as its node has it.
    pub fn session(&self, now: Timestamp, key: &SessionKey) -> Option<KnownSession> {
        self.process.as_ref().and_then(|p| p.node.session(p.local(now), key))
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
        self.clock.local(now)
    }

    /// Reads anew when the node wants to be woken.
    pub(crate) fn set_alarm(&mut self) {
        self.wake = self.node.poll_timeout().map(|at| self.clock.world(at));
    }

    pub(crate) fn jump(&mut self, now: Timestamp, by: Duration) {
        self.clock = Clock { world: now, local: self.clock.local(now) + by, ..self.clock };
        self.set_alarm();
    }

    pub(crate) fn drift(&mut self, now: Timestamp, drift: i32) {
        self.clock = Clock { world: now, local: self.clock.local(now), drift };
        self.set_alarm();
    }
}

/// A process's monotonic clock: where it stood at a moment of the world, and how much it gains since.
#[derive(Clone, Copy)]
struct Clock {
    world: Timestamp,
    local: Timestamp,
    /// Parts of a million; negative if it is slow.
    drift: i32,
}

impl Clock {
    fn local(self, now: Timestamp) -> Timestamp {
        self.local + Duration::from_micros(self.run(micros(now.since(self.world))))
    }

    /// The first moment of the world at which it shows that time.
    fn world(self, local: Timestamp) -> Timestamp {
        let shown = micros(local.since(self.local));
        let rate = 1_000_000_i64.saturating_add(self.drift.into()).max(1).unsigned_abs();
        let mut passed = (u128::from(shown) * 1_000_000 / u128::from(rate)) as u64;
        while self.run(passed) < shown {
            passed += 1;
        }
        self.world + Duration::from_micros(passed)
    }

    /// What it shows to have passed when so many microseconds have.
    fn run(self, passed: u64) -> u64 {
        let gained = i128::from(passed) * i128::from(self.drift) / 1_000_000;
        passed.saturating_add_signed(gained as i64)
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_at_the_first_moment_at_which_the_clock_shows_its_time() {
        for drift in [-20_000, -300, -1, 0, 1, 300, 20_000] {
            let clock = Clock { world: Timestamp::from_micros(7), local: Timestamp::from_micros(50), drift };
            for shown in [50, 51, 1_000, 999_999, 5_000_003, 86_400_000_000] {
                let (shown, one) = (Timestamp::from_micros(shown), Duration::from_micros(1));
                let at = clock.world(shown);
                assert!(clock.local(at) >= shown, "{drift} {shown:?}");
                assert!(at == clock.world || clock.local(at.before(one)) < shown, "{drift} {shown:?}");
            }
        }
    }
}
