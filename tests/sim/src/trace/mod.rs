//! Replays measured round-trip times: what would the group have answered, and how much was lost by it?
//!
//! A trace is CSV with the columns `time_s,ldns,site,rtt_ms`; an empty RTT means that no answer came. Between two of its
//! times the RTTs stand as they were last.

mod figures;
mod read;

pub use figures::Figures;
pub use read::{Slice, Trace, TraceError};

use crate::group::Group;
use crate::witness::Violation;
use crate::world::{Manner, World};
use figures::Tally;
use gslb_types::{ProbeKind, Timestamp};
use std::net::IpAddr;
use std::time::Duration;

/// From one query of an LDNS to its next.
const PAUSE: Duration = Duration::from_secs(5);

/// What is played before anything is counted: first rounds, and the 10 s of the pending.
const WARM_UP: Duration = Duration::from_secs(30);

/// Why a replay came to no end.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The product refuses the group; nothing was played.
    #[error("the group is refused: {0}")]
    Group(String),
    /// An invariant was broken; the figures up to then mean nothing.
    #[error("{0}")]
    Broken(Violation),
}

/// The group that a trace is about, at defaults but for the limit of a prefix: traces have their LDNS close together.
pub fn group(trace: &Trace) -> Group {
    let sites: Vec<&str> = trace.sites().collect();
    Group::new(&sites).with("probe.per_prefix", "100000").with("probe.per_second", "100000")
}

/// Plays a trace. Each LDNS asks every few seconds, each time another node.
pub fn replay(trace: &Trace, group: Group, seed: u64) -> Result<Figures, ReplayError> {
    let mut world = World::started(group, seed).map_err(|errors| ReplayError::Group(errors.to_string()))?;
    let mut tally = Tally::default();
    let mut before = Counts::default();
    for (slice, next) in trace.slices().iter().zip(trace.ends()) {
        drive_to(&mut world, slice.at);
        set_ways(&mut world, slice);
        let begun = slice.at >= WARM_UP;
        if begun && before.is_none() {
            before = Counts::of(&world);
        }
        let mut at = slice.at;
        while at < next {
            drive_to(&mut world, at);
            ask_all(&mut world, slice, at == slice.at, begun.then_some(&mut tally));
            at += PAUSE;
        }
        if let Some(violation) = world.violation() {
            return Err(ReplayError::Broken(violation.clone()));
        }
    }
    world.drive(PAUSE);
    let after = Counts::of(&world);
    Ok(tally.figures(
        after.advertised - before.advertised,
        after.rows - before.rows,
        after.probes - before.probes,
    ))
}

fn drive_to(world: &mut World, at: Duration) {
    world.drive(at.saturating_sub(world.now().since(Timestamp::ZERO)));
}

#[derive(Clone, Copy, Default)]
struct Counts {
    advertised: u64,
    rows: u64,
    probes: u64,
}

impl Counts {
    fn of(world: &World) -> Self {
        let witness = world.witness();
        let sum = |count: &dyn Fn(usize) -> u64| (0..world.hosts().len()).map(count).sum();
        Counts {
            advertised: sum(&|n| witness.advertised(n)),
            rows: sum(&|n| witness.rows(n)),
            probes: sum(&|n| witness.probes(n)),
        }
    }

    fn is_none(self) -> bool {
        self.probes == 0
    }
}

fn set_ways(world: &mut World, slice: &Slice) {
    const ALL: u32 = 1000;
    for (ldns, rtts) in &slice.rtts {
        if !world.internet().resolvers.contains_key(ldns) {
            world.put_resolver(*ldns, &vec![Duration::ZERO; rtts.len()]);
            // The trace has one RTT, not one for each kind of probe.
            world.set_manner(*ldns, ProbeKind::DnsUdp, Manner::Silent);
            world.set_manner(*ldns, ProbeKind::DnsTcp, Manner::Silent);
        }
        let Some(resolver) = world.internet().resolvers.get_mut(ldns) else { continue };
        for (way, rtt) in resolver.ways.iter_mut().zip(rtts) {
            way.rtt = rtt.unwrap_or(way.rtt);
            way.loss = if rtt.is_some() { 0 } else { ALL };
        }
    }
}

fn ask_all(world: &mut World, slice: &Slice, late: bool, mut tally: Option<&mut Tally>) {
    let moment = (world.now().as_secs() / PAUSE.as_secs()) as usize;
    let askers: Vec<IpAddr> = slice.rtts.keys().copied().collect();
    for (k, ldns) in askers.into_iter().enumerate() {
        let n = (k + moment) % world.hosts().len();
        let site = world.ask(n, ldns).service();
        if let (Some(tally), Some(site), Some(rtts)) = (tally.as_deref_mut(), site, slice.rtts.get(&ldns)) {
            tally.answered(world.now(), ldns, site, rtts, late);
        }
    }
}
