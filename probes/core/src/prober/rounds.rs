//! Rounds: from the budget to the probe, from the reply to the next kind or the next round.

use super::entry::{Awaited, Kinds, Phase, Verdict, judge};
use super::queues::is_unprobed;
use super::{Output, PAUSE, Prober};
use crate::budget::Slot;
use crate::wire::{ProbeOutcome, ProbeRequest};
use gslb_types::{ProbeKind, Rtt, Timestamp};
use std::time::Duration;

/// How long after its timeout the sender may take to report a probe; then it counts as timed out all the same, so that a
/// sender that died cannot hold an LDNS for ever (faults I-57).
const SLACK: Duration = Duration::from_millis(500);

/// A round that begins later than this after its time was put off by a budget, not by the clock's grain.
const PUT_OFF: Duration = Duration::from_millis(100);

/// How many entries one call may put off or pass over, so that a crowded prefix does not hold up the rest.
const STEPS: usize = 1_000;

impl Prober {
    /// Sends what is due while the budget lasts.
    pub(super) fn send_due(&mut self, now: Timestamp) {
        let mut steps = 0;
        while self.probes.is_open(now) {
            let Some(index) = self.queues.due(now, self.newcomers.is_open(now)) else { return };
            if !self.probe(now, index) {
                steps += 1;
            }
            if steps == STEPS {
                self.probes.close_until(now + PAUSE);
            }
        }
    }

    /// The next probe of an entry that is due: whether it left. If not, the entry waits for a later time.
    fn probe(&mut self, now: Timestamp, index: u32) -> bool {
        self.leave_queue(index);
        let Some(entry) = self.table.get(index) else { return false };
        let can_ping = self.permission.allows(now, entry.address);
        let Some(kind) = entry.next_kind(now, &self.settings, can_ping) else {
            self.end_round(now, index);
            return false;
        };
        let slot = self.prefixes.slot(entry.address);
        if self.prefixes.take(now, slot) {
            self.send(now, index, kind, slot);
            true
        } else {
            self.put_off(index, slot);
            false
        }
    }

    fn send(&mut self, now: Timestamp, index: u32, kind: ProbeKind, slot: Slot) {
        let id = self.ids.next();
        let deadline = now + self.settings.timeout + SLACK;
        let Some(entry) = self.table.get_mut(index) else { return };
        let target = entry.address;
        if let Phase::Due(due) = entry.phase
            && now.since(due) > PUT_OFF
            && entry.tried.is_empty()
        {
            self.stats.over_budget += 1;
        }
        if is_unprobed(entry.class()) {
            self.newcomers.take(now);
        }
        entry.begin(now, &self.settings, kind);
        entry.phase = Phase::Probing(id);
        self.awaited.insert(id, Awaited { index, kind, deadline, slot });
        self.deadlines.insert((deadline, index));
        self.probes.take(now);
        self.queues.served();
        self.permission.sends(now, target, kind);
        self.stats.sent[kind as usize] += 1;
        let request = ProbeRequest { id, target, kind, timeout: self.settings.timeout };
        self.outputs.push_back(Output::Send(request));
    }

    fn put_off(&mut self, index: u32, slot: Slot) {
        let Some(entry) = self.table.get_mut(index) else { return };
        if matches!(entry.phase, Phase::Due(_)) {
            self.stats.over_budget += 1;
        }
        let until = self.prefixes.join(slot, entry.last_sample().is_some(), &mut self.chance);
        entry.phase = Phase::PutOff { until, slot };
        self.queues.insert(entry.class(), until, index);
    }

    /// Takes in the outcome of the probe that is out.
    pub(super) fn settle(&mut self, now: Timestamp, index: u32, outcome: ProbeOutcome) {
        let Some(entry) = self.table.get(index) else { return };
        let Some(Awaited { kind, deadline, slot, .. }) = self.expect_no_more(entry.phase) else { return };
        self.count(outcome);
        match judge(kind, outcome) {
            Verdict::Measures(rtt) => self.measured(now, index, kind, rtt),
            Verdict::Silence => self.try_next(now, index, true),
            Verdict::NotSent => {
                self.prefixes.refund(slot, deadline.before(self.settings.timeout + SLACK));
                self.try_next(now, index, false);
            }
        }
    }

    /// Counts probes that the sender did not report as timed out.
    pub(super) fn give_up_overdue(&mut self, now: Timestamp) {
        while let Some((deadline, index)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.stats.overdue += 1;
            self.deadlines.remove(&(deadline, index));
            self.settle(now, index, ProbeOutcome::TimedOut);
        }
    }

    fn measured(&mut self, now: Timestamp, index: u32, kind: ProbeKind, rtt: Rtt) {
        let Some(entry) = self.table.get_mut(index) else { return };
        entry.answered(now, kind);
        let was_spread = std::mem::replace(&mut entry.was_spread, true);
        let Some(ldns) = self.table.ldns(index) else { return };
        self.stats.samples[kind as usize] += 1;
        self.outputs.push_back(Output::Sample { ldns, rtt, kind });
        self.table.reprove(index, &self.settings);
        let spread = if was_spread { Duration::ZERO } else { self.settings.interval / 2 };
        self.schedule_round(now, index, spread);
    }

    fn try_next(&mut self, now: Timestamp, index: u32, was_sent: bool) {
        let Some(entry) = self.table.get_mut(index) else { return };
        entry.unanswered |= was_sent;
        let can_ping = self.permission.allows(now, entry.address);
        if entry.next_kind(now, &self.settings, can_ping).is_none() {
            return self.end_round(now, index);
        }
        // Due since ever: a round that has begun ends before others of its class begin.
        entry.phase = Phase::Due(Timestamp::ZERO);
        self.enqueue(index);
    }

    /// The end of a round without a sample. It failed if a probe met with silence; one whose probes could not be sent says
    /// nothing about the LDNS.
    fn end_round(&mut self, now: Timestamp, index: u32) {
        let Some(entry) = self.table.get_mut(index) else { return };
        if entry.tried.is_empty() {
            entry.started = now;
        }
        if entry.unanswered {
            entry.failed_rounds = entry.failed_rounds.saturating_add(1);
            if entry.failed_rounds >= self.settings.fatal_rounds() {
                self.outputs.extend(self.table.ldns(index).map(|ldns| Output::Unreachable { ldns }));
                self.table.reprove(index, &self.settings);
            }
        }
        self.schedule_round(now, index, Duration::ZERO);
    }

    /// Sets the next round: never sooner after this one's start than its period. Up to `spread` later after the first sample:
    /// all sites hear of a new LDNS within milliseconds, and would go on probing it in step.
    pub(super) fn schedule_round(&mut self, now: Timestamp, index: u32, spread: Duration) {
        let Some(entry) = self.table.get_mut(index) else { return };
        entry.tried = Kinds::default();
        entry.unanswered = false;
        let period = self.settings.period(entry.failed_rounds);
        let due = self.chance.next_turn(now, entry.started, period) + self.chance.within(spread);
        entry.phase = Phase::Due(due);
        self.enqueue(index);
    }

    pub(super) fn enqueue(&mut self, index: u32) {
        let Some(entry) = self.table.get(index) else { return };
        match entry.phase {
            Phase::Due(at) | Phase::PutOff { until: at, .. } => self.queues.insert(entry.class(), at, index),
            Phase::Resting | Phase::Probing(_) => {}
        }
    }

    /// Takes an entry out of its queue.
    pub(super) fn dequeue(&mut self, index: u32) {
        let Some(entry) = self.table.get(index) else { return };
        match entry.phase {
            Phase::Due(at) | Phase::PutOff { until: at, .. } => self.queues.remove(entry.class(), at, index),
            Phase::Resting | Phase::Probing(_) => {}
        }
    }

    /// Takes an entry out of its queue and out of the crowd of its prefix, for another phase.
    pub(super) fn leave_queue(&mut self, index: u32) {
        self.dequeue(index);
        if let Some(entry) = self.table.get(index)
            && let Phase::PutOff { slot, .. } = entry.phase
        {
            self.prefixes.leave(slot, entry.last_sample().is_some());
        }
    }

    /// Learns from a reply whether pings are permitted.
    pub(super) fn learn_permission(&mut self, now: Timestamp, awaited: Awaited, outcome: ProbeOutcome) {
        if let Some(entry) = self.table.get(awaited.index)
            && awaited.kind == ProbeKind::Ping
        {
            self.permission.learn(now, entry.address, outcome);
        }
    }

    fn count(&mut self, outcome: ProbeOutcome) {
        match outcome {
            ProbeOutcome::TimedOut => self.stats.timeouts += 1,
            ProbeOutcome::RouterError => self.stats.router_errors += 1,
            ProbeOutcome::SendFailed | ProbeOutcome::NotPermitted => self.stats.send_failed += 1,
            ProbeOutcome::EchoReply(_)
            | ProbeOutcome::DnsAnswer(_)
            | ProbeOutcome::Connected(_)
            | ProbeOutcome::Reset(_)
            | ProbeOutcome::PortUnreachable(_) => {}
        }
    }
}
