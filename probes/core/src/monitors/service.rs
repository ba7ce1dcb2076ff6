//! One service: the sum of its monitors.

use super::ServiceSettings;
use super::monitor::{Health, Monitor, MonitorView};
use crate::chance::Chance;
use gslb_types::{Rtt, ServiceName, ServiceState, Timestamp};
use std::time::Duration;

/// One service, as the admin API shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceView {
    /// How it is.
    pub state: ServiceState,
    /// Why, in words for an operator.
    pub reason: String,
    /// Since when it is so.
    pub since: Timestamp,
    /// The mean over its monitors that measure, have measured, and pass.
    pub response_time: Option<Rtt>,
    /// The mean over its monitors that pass and told of a load, in thousandths.
    pub load: Option<u64>,
    /// Its monitors, in the order they were bound.
    pub monitors: Vec<MonitorView>,
}

pub(super) struct Service {
    pub(super) index: usize,
    pub(super) name: ServiceName,
    pub(super) monitors: Vec<Monitor>,
    /// The weight that makes it up; all of it if `None`.
    threshold: Option<u32>,
    pub(super) state: ServiceState,
    pub(super) reason: String,
    since: Timestamp,
    /// The load that was told last.
    told_load: Option<u64>,
}

impl Service {
    /// A service with the monitors that the settings name, taken over from the one known before as far as they do the same.
    /// The beats of new ones are shifted against each other if there is a `crowd`.
    pub(super) fn bind(
        now: Timestamp,
        settings: ServiceSettings,
        known: Option<Service>,
        chance: &mut Chance,
        crowd: bool,
    ) -> Self {
        let since = known.as_ref().map_or(now, |k| k.since);
        let state = known.as_ref().map_or(ServiceState::Learning, |k| k.state);
        let told_load = known.as_ref().and_then(|k| k.told_load);
        let mut known = known.map(|k| k.monitors).unwrap_or_default();
        let mut monitors = Vec::new();
        for wanted in settings.monitors {
            monitors.push(match known.iter().position(|k| k.does(&wanted)) {
                Some(at) => {
                    let mut monitor = known.remove(at);
                    monitor.adopt(now, wanted, chance);
                    monitor
                }
                None => {
                    let shift = if crowd { chance.within(wanted.interval) } else { Duration::ZERO };
                    Monitor::new(now, wanted, now + shift)
                }
            });
        }
        let (index, name, threshold) = (settings.service, settings.name, settings.threshold);
        Service { index, name, monitors, threshold, state, reason: String::new(), since, told_load }
    }

    /// Judges anew from the monitors: whether the state is another one, or has another reason where that is all there is to
    /// know.
    pub(super) fn judge(&mut self, now: Timestamp) -> bool {
        let (state, reason) = self.verdict();
        let is_news = state != self.state || (state == ServiceState::Learning && reason != self.reason);
        self.reason = reason;
        if state != self.state {
            self.state = state;
            self.since = now;
        }
        is_news
    }

    fn verdict(&self) -> (ServiceState, String) {
        let counting = || self.monitors.iter().filter(|m| m.counts());
        let first = |is: fn(&Health) -> bool| counting().find(|m| is(&m.health));
        let weight = |is: fn(&Health) -> bool| {
            counting().filter(|m| is(&m.health)).map(|m| u32::from(m.settings.weight.get())).sum::<u32>()
        };
        let (passing, failing) = (weight(is_passing), weight(is_failing));
        let all = weight(|_| true);
        let needed = self.threshold.map_or(all, |threshold| threshold.min(all));
        let failed = first(is_failing).map(Monitor::failure);
        let of = |some: u32| format!("monitors of weight {some} pass, {needed} is needed");
        match (failed, self.threshold) {
            _ if all == 0 && !self.monitors.is_empty() => (ServiceState::Learning, self.none_fails()),
            // What is unknown may still pass.
            (Some(why), None) if all - failing < needed => (ServiceState::Down, why),
            (Some(why), Some(_)) if all - failing < needed => {
                (ServiceState::Down, format!("{}; {why}", of(passing)))
            }
            (failed, _) if passing < needed => {
                let unknown = first(is_unknown).map(|m| m.describe(&m.last()));
                (ServiceState::Learning, unknown.or(failed).unwrap_or_default())
            }
            (Some(why), _) => (ServiceState::Up, format!("{}; {why}", of(passing))),
            (None, _) => (ServiceState::Up, self.none_fails()),
        }
    }

    /// The reason of a service of which no monitor fails.
    fn none_fails(&self) -> String {
        let mut counting = self.monitors.iter().filter(|m| m.counts());
        match (counting.next(), self.monitors.first()) {
            (Some(_), _) if counting.any(|m| is_unknown(&m.health)) => "enough monitors pass".to_owned(),
            (Some(_), _) => "all monitors pass".to_owned(),
            (None, Some(monitor)) => format!("no monitor can run: {}", monitor.describe(&monitor.last())),
            (None, None) => "no monitors".to_owned(),
        }
    }

    /// The arithmetic mean over the monitors that measure and have measured (behaviour 5, [S-LRTM]), whole microseconds. What
    /// a monitor measured before it began to fail, or to find out nothing, is of a service that is no more.
    pub(super) fn response_time(&self) -> Option<Rtt> {
        let measured = || self.monitors.iter().filter_map(Monitor::measures_now);
        let sum: u64 = measured().map(|rtt| u64::from(rtt.as_micros())).sum();
        let mean = sum.checked_div(measured().count() as u64)?;
        Some(Rtt::from_micros(u32::try_from(mean).unwrap_or(u32::MAX)))
    }

    /// The arithmetic mean of what its passing monitors tell of the load, in thousandths.
    pub(super) fn load(&self) -> Option<u64> {
        let told = || self.monitors.iter().filter_map(Monitor::load_now);
        let mean = told().map(u128::from).sum::<u128>().checked_div(told().count() as u128)?;
        u64::try_from(mean).ok()
    }

    /// The load, if it is another one than was told last.
    pub(super) fn load_to_tell(&mut self) -> Option<Option<u64>> {
        let load = self.load();
        (std::mem::replace(&mut self.told_load, load) != load).then_some(load)
    }

    pub(super) fn view(&self) -> ServiceView {
        ServiceView {
            state: self.state,
            reason: self.reason.clone(),
            since: self.since,
            response_time: self.response_time(),
            load: self.load(),
            monitors: self.monitors.iter().map(Monitor::view).collect(),
        }
    }
}

fn is_unknown(health: &Health) -> bool {
    matches!(health, Health::Unknown)
}

fn is_passing(health: &Health) -> bool {
    matches!(health, Health::Passing { .. })
}

fn is_failing(health: &Health) -> bool {
    matches!(health, Health::Failing { .. })
}
