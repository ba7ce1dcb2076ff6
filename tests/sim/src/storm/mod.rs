//! Storms: random things done to a random group, then peace, then a look whether everything agrees.

mod acts;
mod any;
mod sessions;

pub use crate::agreement::SOON;
use crate::chance::Chance;
use crate::witness::Violation;
use crate::world::World;
use sessions::Sessions;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Things done in a storm over a few nodes; a storm over many has fewer, as each of its seconds is more work.
const ACTS: usize = 60;

/// Nodes up to which a group is a small one.
const FEW: usize = 8;

/// Which storms there are: a seed is a run of one of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// How many nodes a group has. Small groups are more frequent by far.
    pub nodes: RangeInclusive<usize>,
}

impl Options {
    /// What a group may have.
    pub const NODES: RangeInclusive<usize> = 3..=32;
}

impl Default for Options {
    fn default() -> Self {
        Options { nodes: Options::NODES }
    }
}

/// What a storm that broke nothing has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survived {
    /// Nodes in the group.
    pub nodes: usize,
    /// How long it was, in the world's time.
    pub lasted: Duration,
    /// Probes sent by all nodes.
    pub probes: u64,
    /// RTT rows told by all nodes.
    pub rows: u64,
    /// From the end of the storm until all sessions stood again.
    pub reunion: Duration,
    /// LDNS whose answers were compared two exchange intervals later.
    pub compared: usize,
    /// Things that happened, and a hash over all of them.
    pub fingerprint: (u64, u64),
}

/// A storm that broke an invariant.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// Which storms it is one of.
    pub options: Options,
    /// What it broke.
    pub violation: Violation,
    /// The last things that happened; all of them, if they were kept.
    pub tail: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.tail {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "seed {}: {}", self.seed, self.violation)?;
        write!(f, "replay: cargo run --release -p sim -- storm {}", self.seed)?;
        if self.options != Options::default() {
            write!(f, " --nodes {}..{}", self.options.nodes.start(), self.options.nodes.end())?;
        }
        Ok(())
    }
}

/// Runs the storm of a seed.
pub fn run(seed: u64, options: &Options) -> Result<Survived, Box<Failure>> {
    run_in(seed, options, &mut |_| {})
}

/// Runs the storm of a seed, in a world that the caller may prepare.
pub fn run_in(
    seed: u64,
    options: &Options,
    prepare: &mut dyn FnMut(&mut World),
) -> Result<Survived, Box<Failure>> {
    let mut storm = Storm::new(seed, options, prepare);
    storm.rage();
    storm.calm();
    storm.reunite();
    storm.settle();
    match storm.world.violation().cloned() {
        None => Ok(storm.survived()),
        Some(violation) => {
            let tail = storm.world.log().to_show().map(ToString::to_string).collect();
            Err(Box::new(Failure { seed, options: options.clone(), violation, tail }))
        }
    }
}

struct Storm {
    world: World,
    chance: Chance,
    resolvers: Vec<IpAddr>,
    sessions: Sessions,
    reunion: Duration,
    compared: usize,
}

impl Storm {
    fn new(seed: u64, options: &Options, prepare: &mut dyn FnMut(&mut World)) -> Self {
        let mut chance = Chance::new(seed);
        let mut world = any::world(&mut chance, options, seed);
        prepare(&mut world);
        let resolvers = any::resolvers(&mut chance, &mut world);
        // Nodes don't start together.
        for n in 0..world.hosts().len() {
            let pause = chance.within(Duration::from_secs(3));
            let drift = chance.pick([0, 0, 50, -50, 300, -300]);
            world.start(n);
            world.drift(n, drift);
            world.drive(pause);
        }
        let sessions = Sessions::default();
        Storm { world, chance, resolvers, sessions, reunion: Duration::ZERO, compared: 0 }
    }

    fn rage(&mut self) {
        let acts = if self.world.hosts().len() > FEW { ACTS / 2 } else { ACTS };
        for _ in 0..acts {
            if self.world.violation().is_some() {
                return;
            }
            self.act();
            let pause = match self.chance.below(4) {
                0 => Duration::ZERO,
                1 => self.chance.within(Duration::from_millis(500)),
                _ => self.chance.within(Duration::from_secs(8)),
            };
            self.world.drive(pause);
        }
    }

    /// Mends everything but what is the resolvers' own affair.
    fn calm(&mut self) {
        self.world.remark("calm");
        self.world.heal_all();
        self.world.reach_all();
        self.world.widen_all();
        self.world.set_network(Duration::from_millis(20), Duration::from_millis(5), 0);
        for n in 0..self.world.hosts().len() {
            self.world.mute(n, false);
            self.world.resume(n);
            self.world.start(n);
        }
        for resolver in self.world.internet().resolvers.values_mut() {
            resolver.ways.iter_mut().for_each(|way| (way.loss, way.jitter) = (0, Duration::ZERO));
        }
    }

    /// Once all sessions stand again, all nodes answer alike within two exchange intervals.
    fn reunite(&mut self) {
        let began = self.world.now();
        self.world.drive_to_reunion();
        self.reunion = self.world.now().since(began);
        let active = self.resolvers.clone();
        self.world.drive_with_queries(SOON, &active);
        if self.world.violation().is_none() {
            self.compared = self.world.check_alike(&active);
            self.sessions_agree();
        }
    }

    /// As long as the slowest of all: a forged LDNS is forgotten, a silent one is tried again after a minute, and a narrow
    /// line may have had much to carry.
    fn settle(&mut self) {
        let idle = self.world.hosts()[0].config().ldns.idle_timeout;
        let span = (idle + Duration::from_secs(30)).max(Duration::from_secs(150));
        let active = self.resolvers.clone();
        self.world.drive_with_queries(span, &active);
        self.last_sessions();
        // Told after five seconds by a clock that may be slow, and published a second later.
        self.world.drive(Duration::from_secs(8));
        self.world.look_at_all();
        self.sessions_agree();
        if self.world.violation().is_none() {
            self.world.check_agreement(&active);
        }
    }

    fn survived(&mut self) -> Survived {
        let hosts = 0..self.world.hosts().len();
        let witness = self.world.witness();
        Survived {
            nodes: hosts.len(),
            lasted: self.world.now().since(gslb_types::Timestamp::ZERO),
            probes: hosts.clone().map(|n| witness.probes(n)).sum(),
            rows: hosts.map(|n| witness.rows(n)).sum(),
            reunion: self.reunion,
            compared: self.compared,
            fingerprint: self.world.log().fingerprint(),
        }
    }
}
