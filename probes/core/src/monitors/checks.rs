//! From the budget to the check, from the report to the verdict.

use super::monitor::{Phase, SLACK};
use super::{Key, Monitors, Output};
use crate::wire::{CheckOutcome, CheckRequest};
use gslb_types::{Rtt, Timestamp};

impl Monitors {
    /// Starts what is due while the budget lasts.
    pub(super) fn start_due(&mut self, now: Timestamp) {
        while self.budget.is_open(now) {
            let Some(key) = self.due.expired(now) else { return };
            self.start(now, key);
        }
    }

    fn start(&mut self, now: Timestamp, key: Key) {
        let Some(monitor) = self.services.get_mut(key.0).and_then(|s| s.monitors.get_mut(key.1)) else {
            return;
        };
        let id = self.ids.next();
        let deadline = now + monitor.settings.timeout + SLACK;
        monitor.started = Some(now);
        monitor.phase = Phase::Checking { id, deadline };
        self.outputs.push_back(Output::Check(CheckRequest {
            id,
            check: monitor.settings.check.clone(),
            target: monitor.settings.target,
            source: monitor.settings.source,
            timeout: monitor.settings.timeout,
        }));
        self.awaited.insert(id, key);
        self.deadlines.set(key, deadline);
        self.budget.take(now);
        self.stats.checks += 1;
    }

    /// Takes in an outcome, or that there is none, and sets the next check.
    pub(super) fn settle(&mut self, now: Timestamp, key: Key, outcome: Option<CheckOutcome>) {
        let (position, nth) = key;
        self.deadlines.stop(key);
        let Some(monitor) = self.services.get_mut(position).and_then(|s| s.monitors.get_mut(nth)) else {
            return;
        };
        match &outcome {
            Some(CheckOutcome::Passed(_) | CheckOutcome::Reported { .. }) => self.stats.passed += 1,
            Some(CheckOutcome::Failed(_)) => self.stats.failed += 1,
            Some(CheckOutcome::NotPermitted | CheckOutcome::Unable(_)) => self.stats.not_permitted += 1,
            None => self.stats.overdue += 1,
        }
        let measured = match outcome {
            Some(CheckOutcome::Passed(rtt) | CheckOutcome::Reported { response_time: rtt, .. }) => Some(rtt),
            Some(CheckOutcome::Failed(_) | CheckOutcome::NotPermitted | CheckOutcome::Unable(_)) | None => {
                None
            }
        };
        let before = monitor.measures_now();
        monitor.learn(now, outcome);
        // A first pass of several that it takes measures nothing yet: the service is still down.
        let measured = measured.filter(|_| !monitor.settings.reverse && monitor.measures_now().is_some());
        let is_lost = before.is_some() && monitor.measures_now().is_none();
        // After the verdict, by which the wait goes.
        let due = monitor.next_turn(now, &mut self.chance);
        monitor.phase = Phase::Due(due);
        self.due.set(key, due);
        // Before the verdict: who hears that a service is up knows at once how quick it is.
        if let Some(rtt) = measured {
            self.tell_measured(key, rtt);
        }
        self.tell_load(position);
        self.judge(now, position, false);
        if is_lost && let Some(service) = self.services.get(position) {
            let (service, mean) = (service.index, service.response_time());
            self.outputs.push_back(Output::Remeaned { service, mean });
        }
    }

    /// Counts checks that nobody reported.
    pub(super) fn give_up_overdue(&mut self, now: Timestamp) {
        while let Some(key) = self.deadlines.expired(now) {
            let monitor = self.services.get(key.0).and_then(|s| s.monitors.get(key.1));
            if let Some(Phase::Checking { id, .. }) = monitor.map(|m| m.phase) {
                self.awaited.remove(&id);
            }
            self.settle(now, key, None);
        }
    }

    /// Judges a service anew, and says so if the verdict is another, or if `always`.
    pub(super) fn judge(&mut self, now: Timestamp, position: usize, always: bool) {
        let Some(service) = self.services.get_mut(position) else { return };
        if service.judge(now) || always {
            self.outputs.push_back(Output::Verdict {
                service: service.index,
                state: service.state,
                reason: service.reason.clone(),
            });
        }
    }

    /// Says how much a service has to do by its monitors, if that is another load than before.
    pub(super) fn tell_load(&mut self, position: usize) {
        let Some(service) = self.services.get_mut(position) else { return };
        if let Some(load) = service.load_to_tell() {
            self.outputs.push_back(Output::Load { service: service.index, load });
        }
    }

    fn tell_measured(&mut self, (position, monitor): Key, response_time: Rtt) {
        let Some(service) = self.services.get(position) else { return };
        let mean = service.response_time().unwrap_or(response_time);
        self.outputs.push_back(Output::Measured { service: service.index, monitor, response_time, mean });
    }
}
