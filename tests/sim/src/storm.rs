//! Storms: random things done to a random group, then peace, then a look whether everything agrees.

use crate::chance::Chance;
use crate::group::Group;
use crate::witness::Violation;
use crate::world::{HostIndex, Manner, World};
use gslb_types::ProbeKind;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Things done in one storm.
const ACTS: usize = 60;

/// Resolvers that ask, in the storm and after it.
const RESOLVERS: u32 = 9;

const KINDS: [ProbeKind; 3] = ProbeKind::DEFAULT_ORDER;

/// What a storm that broke nothing has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survived {
    /// How long it was, in the world's time.
    pub lasted: Duration,
    /// Probes sent by all nodes.
    pub probes: u64,
    /// RTT rows told by all nodes.
    pub rows: u64,
    /// Things that happened, and a hash over all of them.
    pub fingerprint: (u64, u64),
}

/// A storm that broke an invariant.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
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
        write!(f, "replay: cargo run -p sim --example storm {}", self.seed)
    }
}

/// Runs the storm of a seed.
pub fn run(seed: u64) -> Result<Survived, Failure> {
    run_in(seed, &mut |_| {})
}

/// Runs the storm of a seed, in a world that the caller may prepare.
pub fn run_in(seed: u64, prepare: &mut dyn FnMut(&mut World)) -> Result<Survived, Failure> {
    let mut storm = Storm::new(seed);
    prepare(&mut storm.world);
    storm.rage();
    storm.calm();
    storm.settle();
    match storm.world.violation().cloned() {
        None => Ok(storm.survived()),
        Some(violation) => {
            let tail = storm.world.log().to_show().map(ToString::to_string).collect();
            Err(Failure { seed, violation, tail })
        }
    }
}

struct Storm {
    world: World,
    chance: Chance,
    resolvers: Vec<IpAddr>,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let group = any_group(&mut chance);
        let mut world = match World::new(group.clone(), seed ^ 0x5eed) {
            Ok(world) => world,
            Err(errors) => unreachable_group(&errors),
        };
        let sites = group.sites().len();
        let mut resolvers = Vec::new();
        for n in 0..RESOLVERS {
            let address = resolver(n);
            let rtts: Vec<Duration> = (0..sites).map(|_| any_rtt(&mut chance)).collect();
            world.put_resolver(address, &rtts);
            resolvers.push(address);
        }
        // Nodes don't start together.
        for n in 0..sites {
            let pause = chance.within(Duration::from_secs(3));
            world.start(n);
            world.drive(pause);
        }
        Storm { world, chance, resolvers }
    }

    fn rage(&mut self) {
        for _ in 0..ACTS {
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

    fn act(&mut self) {
        match self.chance.below(100) {
            0..30 => self.queries(),
            30..36 => self.forged(),
            36..38 => self.flood(),
            38..52 => self.ways(),
            52..58 => self.manners(),
            58..70 => self.links(),
            70..84 => self.processes(),
            84..92 => self.services(),
            _ => self.quality(),
        }
    }

    fn host(&mut self) -> HostIndex {
        self.chance.place(self.world.hosts().len())
    }

    fn queries(&mut self) {
        for _ in 0..=self.chance.below(4) {
            let (n, ldns) = (self.host(), self.any_resolver());
            self.world.ask(n, ldns);
        }
    }

    fn any_resolver(&mut self) -> IpAddr {
        let place = self.chance.place(self.resolvers.len());
        self.resolvers[place]
    }

    /// Queries with forged sources: nobody is there, or somebody who must not be probed.
    fn forged(&mut self) {
        let n = self.host();
        let address: IpAddr = match self.chance.below(5) {
            0 => Ipv4Addr::LOCALHOST.into(),
            1 => Ipv4Addr::BROADCAST.into(),
            2 => Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(self.chance.number())).into(),
            3 => Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(self.chance.below(50)) << 64).into(),
            _ => Ipv4Addr::from_bits(0x2d00_0000 + self.chance.below(1 << 20)).into(),
        };
        self.world.remark(format!("forged {address} at {n}"));
        self.world.ask(n, address);
    }

    fn flood(&mut self) {
        let (n, size) = (self.host(), 20 + self.chance.below(150));
        let spread = [1, 1 << 8][self.chance.place(2)];
        self.world.remark(format!("flood of {size} at {n}"));
        for k in 0..size {
            self.world.ask(n, Ipv4Addr::from_bits(0x2e00_0000 + k * spread).into());
            if k % 16 == 0 {
                let pause = self.chance.within(Duration::from_millis(40));
                self.world.drive(pause);
            }
        }
    }

    /// The way to a resolver becomes longer or shorter, or worse.
    fn ways(&mut self) {
        let (ldns, site) = (self.any_resolver(), self.host());
        let chance = &mut self.chance;
        let (what, by) = (chance.below(5), chance.within(Duration::from_millis(4)));
        let (rtt, loss) = (any_rtt(chance), chance.pick([50, 300, 900]));
        self.world.remark(format!("way {what} of {ldns} from {site}"));
        let Some(way) = self.world.internet().resolvers.get_mut(&ldns).and_then(|r| r.ways.get_mut(site))
        else {
            return;
        };
        match what {
            0 => way.rtt += by,
            1 => way.rtt = way.rtt.saturating_sub(by).max(Duration::from_millis(1)),
            2 => way.rtt = rtt,
            3 => way.jitter = by,
            _ => way.loss = if way.loss == 0 { loss } else { 0 },
        }
    }

    fn manners(&mut self) {
        let ldns = self.any_resolver();
        let manner = self.chance.pick([Manner::Answers, Manner::Refuses, Manner::Prohibited, Manner::Silent]);
        let kinds = if self.chance.below(4) == 0 { KINDS.to_vec() } else { vec![self.chance.pick(KINDS)] };
        self.world.remark(format!("{ldns} takes {kinds:?} as {manner:?}"));
        for kind in kinds {
            self.world.set_manner(ldns, kind, manner);
        }
    }

    fn links(&mut self) {
        let (a, b) = (self.host(), self.host());
        let what = self.chance.below(6);
        self.world.remark(format!("link {what} {a} {b}"));
        match what {
            0 | 1 if a != b => self.world.cut(a, b),
            2 | 3 if a != b => self.world.cut_one_way(a, b),
            4 => self.world.heal_all(),
            _ => self.world.heal(a, b),
        }
    }

    fn processes(&mut self) {
        let n = self.host();
        let what = self.chance.below(11);
        self.world.remark(format!("process {what} {n}"));
        let span = self.chance.within(Duration::from_secs(40));
        match what {
            0 => self.world.kill(n),
            1 => self.world.restart(n),
            2 => self.world.stop(n),
            3 | 4 => self.world.freeze_for(n, span),
            5 => {
                let by = self.chance.pick([1, 10, 100, 3_600, 86_400]);
                self.world.jump(n, Duration::from_secs(by));
            }
            6 => self.world.mute(n, true),
            7 => self.world.mute(n, false),
            8 => self.world.stick(n),
            _ => {
                self.world.resume(n);
                self.world.start(n);
            }
        }
    }

    fn services(&mut self) {
        let service = self.chance.place(self.world.hosts()[0].config().services.len());
        let is_up = self.chance.below(2) == 0;
        self.world.remark(format!("service {service} up: {is_up}"));
        self.world.set_service(service, is_up);
    }

    fn quality(&mut self) {
        let (a, b) = (self.host(), self.host());
        let chance = &mut self.chance;
        let what = chance.below(4);
        let (latency, jitter) =
            (chance.within(Duration::from_millis(300)), chance.within(Duration::from_millis(200)));
        let (loss, rate) = (chance.pick([0, 20, 300]), u64::from(100 + chance.below(5_000)));
        self.world.remark(format!("quality {what} {a} {b}"));
        match what {
            0 | 1 => self.world.set_network(latency, jitter, loss),
            2 => self.world.narrow(a, b, Some(rate)),
            _ => self.world.widen_all(),
        }
    }

    /// Mends everything but what is the resolvers' own affair.
    fn calm(&mut self) {
        self.world.remark("calm");
        self.world.heal_all();
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

    /// As long as the slowest of all: a forged LDNS is forgotten, a silent one is tried again after a minute, and a narrow
    /// line may have had much to carry.
    fn settle(&mut self) {
        let idle = self.world.hosts()[0].config().ldns.idle_timeout;
        let span = (idle + Duration::from_secs(30)).max(Duration::from_secs(150));
        let active = self.resolvers.clone();
        self.world.drive_with_queries(span, &active);
        self.world.drive(Duration::from_secs(6));
        if self.world.violation().is_none() {
            self.world.check_agreement(&active);
        }
    }

    fn survived(&mut self) -> Survived {
        let hosts = 0..self.world.hosts().len();
        let witness = self.world.witness();
        let probes = hosts.clone().map(|n| witness.probes(n)).sum();
        let rows = hosts.map(|n| witness.rows(n)).sum();
        let fingerprint = self.world.log().fingerprint();
        Survived { lasted: self.world.now().since(gslb_types::Timestamp::ZERO), probes, rows, fingerprint }
    }
}

/// A resolver in a network of its own.
fn resolver(n: u32) -> IpAddr {
    if n % 4 == 3 {
        Ipv6Addr::from_bits(0x2001_0db8_0053 << 80 | u128::from(n) << 64 | 0x35).into()
    } else {
        Ipv4Addr::from_bits(0x0b00_0035 + (n << 8)).into()
    }
}

fn any_rtt(chance: &mut Chance) -> Duration {
    chance.between(Duration::from_millis(1), Duration::from_millis(250))
}

/// A group with settings that an operator might choose.
fn any_group(chance: &mut Chance) -> Group {
    let names = ["fra", "iad", "sin", "gru"];
    let sites = 2 + chance.place(3);
    let mut group = Group::new(&names[..sites]);
    if chance.below(3) == 0 {
        group = group.with_service("api-fra", "fra");
    }
    let mut set = |setting: &str, values: &[&str]| {
        let value = values[chance.place(values.len())];
        group = group.clone().with(setting, value);
    };
    set("group.rtt_tolerance", &["\"1ms\"", "\"5ms\"", "\"5ms\"", "\"20ms\""]);
    set("mep.keepalive", &["\"3s\"", "\"10s\"", "\"10s\""]);
    set("mep.rtt_interval", &["\"1s\"", "\"5s\"", "\"5s\""]);
    set("mep.down_delay", &["\"0s\"", "\"5s\"", "\"15s\""]);
    set("mep.max_age", &["\"30s\"", "\"60s\""]);
    set("probe.interval", &["\"3s\"", "\"5s\"", "\"5s\""]);
    set("probe.timeout", &["\"500ms\"", "\"2s\""]);
    set("probe.failed_rounds", &["1", "3", "3"]);
    set("probe.per_second", &["40", "500"]);
    set("probe.new_per_second", &["10", "100"]);
    set("probe.order", &["[\"ping\", \"dns-udp\", \"dns-tcp\"]", "[\"dns-udp\", \"ping\", \"dns-tcp\"]"]);
    set("ldns.idle_timeout", &["\"40s\"", "\"60s\"", "\"180s\""]);
    set("ldns.cap", &["30", "300", "100000"]);
    set("monitor.interval", &["\"2s\"", "\"5s\""]);
    set("monitor.timeout", &["\"1s\""]);
    set("vserver.selection_tolerance", &["\"0ms\"", "\"0ms\"", "\"30ms\""]);
    set("vserver.all_down", &["\"all\"", "\"empty\"", "\"last_good\""]);
    set("vserver.drop_ldns_requests", &["false", "false", "true"]);
    set("vserver.local_method", &["\"lrtm\"", "\"round_robin\""]);
    group
}

#[allow(
    clippy::panic,
    reason = "a storm's group is made here: that it cannot be loaded is a mistake in this file"
)]
fn unreachable_group(errors: &config::Errors) -> ! {
    panic!("the group of a storm is refused: {errors}")
}
