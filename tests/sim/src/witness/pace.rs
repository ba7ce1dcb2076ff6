//! How often probes leave.

use super::Invariant;
use crate::world::Host;
use gslb_types::{Ldns, ProbeKind, Timestamp};
use probes_core::wire::{ProbeId, ProbeOutcome, ProbeReply, ProbeRequest};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// How long the product waits for the report of a probe after its timeout (faults I-57).
const SLACK: Duration = Duration::from_millis(500);

/// The probes of one host.
#[derive(Default)]
pub(super) struct Pace {
    pub(super) probes: u64,
    by_target: BTreeMap<IpAddr, u64>,
    /// Of the running process.
    sent: BTreeMap<ProbeId, Sent>,
    rounds: BTreeMap<IpAddr, Round>,
    /// Entries that were not probed yet.
    fresh: BTreeSet<Ldns>,
    last_second: VecDeque<Timestamp>,
    newcomers: VecDeque<Timestamp>,
    prefixes: BTreeMap<IpAddr, VecDeque<Timestamp>>,
}

struct Sent {
    target: IpAddr,
    kind: ProbeKind,
    /// A reply from then on comes too late: the round has gone on without it.
    given_up: Timestamp,
}

/// The kinds tried for one address since its last round began.
struct Round {
    began: Timestamp,
    tried: Vec<ProbeKind>,
    /// When the last of them is given up at the latest.
    given_up: Timestamp,
    /// A kind came so late that it may have begun another round: the node's clock was set, or the LDNS was another node's to probe
    /// for a while.
    resumed: Option<Timestamp>,
    is_over: bool,
}

impl Pace {
    /// Another process: its clock begins anew, and it knows nobody.
    pub(super) fn reborn(&mut self) {
        *self =
            Pace { probes: self.probes, by_target: std::mem::take(&mut self.by_target), ..Pace::default() };
    }

    pub(super) fn probes_to(&self, ldns: IpAddr) -> u64 {
        self.by_target.get(&ldns).copied().unwrap_or(0)
    }

    pub(super) fn target(&self, id: ProbeId) -> Option<IpAddr> {
        self.sent.get(&id).map(|sent| sent.target)
    }

    /// There is a new entry. If there was one before, its round has ended with it; the interval has not.
    pub(super) fn admitted(&mut self, ldns: Ldns) {
        self.fresh.insert(ldns);
        if let Some(round) = self.rounds.get_mut(&ldns.address()) {
            round.is_over = true;
        }
    }

    /// The site has a value of it, or another node of it has probed it.
    pub(super) fn is_known(&mut self, ldns: Ldns) {
        self.fresh.remove(&ldns);
    }

    pub(super) fn replied(&mut self, now: Timestamp, reply: ProbeReply) {
        let Some(Sent { target, kind, given_up }) = self.sent.remove(&reply.id) else { return };
        let measures = !matches!(
            reply.outcome,
            ProbeOutcome::RouterError
                | ProbeOutcome::TimedOut
                | ProbeOutcome::SendFailed
                | ProbeOutcome::NotPermitted
        );
        if let Some(round) = self.rounds.get_mut(&target).filter(|round| round.tried.last() == Some(&kind)) {
            round.is_over |= measures && now < given_up;
        }
    }

    pub(super) fn probed(
        &mut self,
        now: Timestamp,
        host: &Host,
        probe: &ProbeRequest,
    ) -> Result<(), (Invariant, String)> {
        self.probes += 1;
        *self.by_target.entry(probe.target).or_default() += 1;
        let given_up = now + probe.timeout + SLACK;
        self.sent.insert(probe.id, Sent { target: probe.target, kind: probe.kind, given_up });
        self.keep_interval(now, host, probe)?;
        let config = &host.config().probe;
        let ldns = Ldns::of(probe.target, host.config().ldns.masks);
        let prefix = Ldns::of(probe.target, gslb_types::LdnsMasks { v4: 24, v6: 56 }).address();
        let in_all = within(&mut self.last_second, now);
        let newcomers = if self.fresh.remove(&ldns) { within(&mut self.newcomers, now) } else { 0 };
        let to_prefix = within(self.prefixes.entry(prefix).or_default(), now);
        for (count, most, what) in [
            (in_all, config.per_second, "probes"),
            (newcomers, config.new_per_second, "probes of newcomers"),
            (to_prefix, config.per_prefix, "probes to one prefix"),
        ] {
            if count > most as usize {
                let what = format!(
                    "{} sent {count} {what} in a second, the last to {}; {most} are allowed",
                    host.id(),
                    probe.target
                );
                return Err((Invariant::Budget, what));
            }
        }
        Ok(())
    }

    /// A round ends when a kind measures, or when a kind comes a second time.
    fn keep_interval(
        &mut self,
        now: Timestamp,
        host: &Host,
        probe: &ProbeRequest,
    ) -> Result<(), (Invariant, String)> {
        let (interval, given_up) = (host.config().probe.interval, now + probe.timeout + SLACK);
        let fresh = Round { began: now, tried: vec![probe.kind], given_up, resumed: None, is_over: false };
        let Some(round) = self.rounds.get_mut(&probe.target) else {
            self.rounds.insert(probe.target, fresh);
            return Ok(());
        };
        if !round.is_over && !round.tried.contains(&probe.kind) {
            if now > round.given_up + interval {
                round.resumed = Some(now);
            }
            round.tried.push(probe.kind);
            round.given_up = given_up;
            return Ok(());
        }
        let apart = now.since(round.began);
        // A kind that comes a second time may still belong to the round that began late.
        let began = round.resumed.filter(|_| !round.is_over).unwrap_or(now);
        *round = Round { began, ..fresh };
        if apart < interval {
            let what = format!("{} began two rounds of {} within {apart:?}", host.id(), probe.target);
            return Err((Invariant::Interval, what));
        }
        Ok(())
    }
}

/// Notes one more now, and counts those of the last second.
fn within(times: &mut VecDeque<Timestamp>, now: Timestamp) -> usize {
    while times.front().is_some_and(|t| now.since(*t) >= SECOND) {
        times.pop_front();
    }
    times.push_back(now);
    times.len()
}
