//! What lies around the nodes: resolvers that are probed, services that are checked.

use crate::chance::Chance;
use gslb_types::{ProbeKind, Rtt, SiteIndex, Timestamp};
use probes_core::wire::{CheckOutcome, CheckRequest, ProbeOutcome, ProbeRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// How a resolver answers one kind of probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// As asked: echo reply, DNS message, SYN-ACK.
    Answers,
    /// With an error of its own, which measures as well (behaviour 3, accept errors): port unreachable, or RST.
    Refuses,
    /// A router on the way answers, which does not measure.
    Prohibited,
    /// Not at all.
    Silent,
}

/// The way between a site and a resolver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// Its least round trip.
    pub rtt: Duration,
    /// What is added at random.
    pub jitter: Duration,
    /// Packets lost of a thousand.
    pub loss: u32,
}

impl Way {
    /// A steady way.
    pub fn of(rtt: Duration) -> Self {
        Way { rtt, jitter: Duration::ZERO, loss: 0 }
    }
}

/// A resolver: where it is, and how it takes probes.
#[derive(Clone, Debug)]
pub struct Resolver {
    /// By site; beyond the end nothing arrives.
    pub ways: Vec<Way>,
    /// By kind of probe.
    pub manners: [Manner; 3],
    /// Between two replies of a kind at least; sooner ones are swallowed (faults I-39).
    pub pause: [Duration; 3],
    replied: [Option<Timestamp>; 3],
}

impl Resolver {
    /// One that answers everything.
    pub fn new(ways: Vec<Way>) -> Self {
        Resolver { ways, manners: [Manner::Answers; 3], pause: [Duration::ZERO; 3], replied: [None; 3] }
    }

    /// Sets how it takes one kind of probe.
    pub fn takes(&mut self, kind: ProbeKind, manner: Manner) {
        self.manners[kind as usize] = manner;
    }

    /// Whether any kind of probe measures it.
    pub fn answers(&self) -> bool {
        self.manners.iter().any(|manner| matches!(manner, Manner::Answers | Manner::Refuses))
    }

    fn reply(
        &mut self,
        now: Timestamp,
        site: usize,
        kind: ProbeKind,
        chance: &mut Chance,
    ) -> Option<(Duration, ProbeOutcome)> {
        let way = *self.ways.get(site)?;
        let rtt = way.rtt + chance.within(way.jitter);
        if chance.permille(way.loss) {
            return None;
        }
        let manner = self.manners[kind as usize];
        if manner == Manner::Silent {
            return None;
        }
        let replied = &mut self.replied[kind as usize];
        if replied.is_some_and(|at| now.since(at) < self.pause[kind as usize]) {
            return None;
        }
        *replied = Some(now);
        Some((rtt, outcome(manner, kind, Rtt::from_duration(rtt))))
    }
}

fn outcome(manner: Manner, kind: ProbeKind, rtt: Rtt) -> ProbeOutcome {
    match (manner, kind) {
        (Manner::Answers, ProbeKind::Ping) => ProbeOutcome::EchoReply(rtt),
        (Manner::Answers, ProbeKind::DnsUdp) => ProbeOutcome::DnsAnswer(rtt),
        (Manner::Answers, ProbeKind::DnsTcp) => ProbeOutcome::Connected(rtt),
        (Manner::Refuses, ProbeKind::Ping | ProbeKind::DnsUdp) => ProbeOutcome::PortUnreachable(rtt),
        (Manner::Refuses, ProbeKind::DnsTcp) => ProbeOutcome::Reset(rtt),
        (Manner::Prohibited, _) => ProbeOutcome::RouterError,
        (Manner::Silent, _) => ProbeOutcome::TimedOut,
    }
}

/// A service as it really is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Health {
    /// Whether it serves.
    pub is_up: bool,
    /// How long a check takes.
    pub response: Duration,
}

/// Everything that is neither a node nor the network between the nodes.
#[derive(Clone, Debug, Default)]
pub struct Internet {
    /// By address.
    pub resolvers: BTreeMap<IpAddr, Resolver>,
    /// How far everybody else is from a site; without it nobody else answers.
    pub others: Option<fn(IpAddr, usize) -> Duration>,
    /// By address.
    pub services: BTreeMap<IpAddr, Health>,
    /// Services that checks from a site do not reach.
    pub unreached: BTreeSet<(usize, IpAddr)>,
}

impl Internet {
    /// What becomes of a probe, and how long after it was sent the sender knows.
    pub(crate) fn probe(
        &mut self,
        now: Timestamp,
        site: SiteIndex,
        probe: &ProbeRequest,
        chance: &mut Chance,
    ) -> (Duration, ProbeOutcome) {
        let reply = match self.resolvers.get_mut(&probe.target) {
            Some(resolver) => resolver.reply(now, site.get(), probe.kind, chance),
            None => self
                .others
                .map(|far| far(probe.target, site.get()))
                .map(|rtt| (rtt, outcome(Manner::Answers, probe.kind, Rtt::from_duration(rtt)))),
        };
        match reply {
            Some((after, outcome)) if after < probe.timeout => (after, outcome),
            Some(_) | None => (probe.timeout, ProbeOutcome::TimedOut),
        }
    }

    /// What a check sees, and when.
    pub(crate) fn check(&self, site: SiteIndex, check: &CheckRequest) -> (Duration, CheckOutcome) {
        let address = check.target.ip();
        let is_reached = !self.unreached.contains(&(site.get(), address));
        match self.services.get(&address).filter(|_| is_reached) {
            Some(health) if health.is_up && health.response < check.timeout => {
                (health.response, CheckOutcome::Passed(Rtt::from_duration(health.response)))
            }
            Some(health) if !health.is_up => {
                (Duration::from_millis(1), CheckOutcome::Failed("refused".to_owned()))
            }
            Some(_) | None => (check.timeout, CheckOutcome::Failed("timed out".to_owned())),
        }
    }

    /// The site nearest to a resolver among some, and how far it is.
    pub fn nearest(&self, ldns: IpAddr, among: impl Fn(usize) -> bool) -> Option<(usize, Duration)> {
        let ways = self.resolvers.get(&ldns)?.ways.iter().enumerate().filter(|(site, _)| among(*site));
        ways.map(|(site, way)| (site, way.rtt)).min_by_key(|(site, rtt)| (*rtt, *site))
    }
}
