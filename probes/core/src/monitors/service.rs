//! One service: the sum of its monitors.

use super::ServiceSettings;
use super::monitor::{Health, Monitor, MonitorView};
use crate::chance::Chance;
use gslb_types::{Rtt, ServiceName, ServiceState, Timestamp};

/// One service, as the admin API shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceView {
    /// How it is.
    pub state: ServiceState,
    /// Why, in words for an operator.
    pub reason: String,
    /// Since when it is so.
    pub since: Timestamp,
    /// The mean over its monitors that have measured.
    pub response_time: Option<Rtt>,
    /// Its monitors, in the order they were bound.
    pub monitors: Vec<MonitorView>,
}

pub(super) struct Service {
    pub(super) index: usize,
    pub(super) name: ServiceName,
    pub(super) monitors: Vec<Monitor>,
    pub(super) state: ServiceState,
    pub(super) reason: String,
    since: Timestamp,
}

impl Service {
    /// A service with the monitors that the settings name, taken over from the one known before as far as they do the same.
    pub(super) fn bind(
        now: Timestamp,
        settings: ServiceSettings,
        known: Option<Service>,
        chance: &mut Chance,
    ) -> Self {
        let since = known.as_ref().map_or(now, |k| k.since);
        let state = known.as_ref().map_or(ServiceState::Learning, |k| k.state);
        let mut known = known.map(|k| k.monitors).unwrap_or_default();
        let mut monitors = Vec::new();
        for wanted in settings.monitors {
            monitors.push(match known.iter().position(|k| k.does(&wanted)) {
                Some(at) => {
                    let mut monitor = known.remove(at);
                    monitor.adopt(now, wanted, chance);
                    monitor
                }
                None => Monitor::new(now, wanted),
            });
        }
        let (index, name) = (settings.service, settings.name);
        Service { index, name, monitors, state, reason: String::new(), since }
    }

    /// Judges anew from the monitors: whether the state is another one.
    pub(super) fn judge(&mut self, now: Timestamp) -> bool {
        let (state, reason) = self.verdict();
        let is_other = state != self.state;
        self.reason = reason;
        if is_other {
            self.state = state;
            self.since = now;
        }
        is_other
    }

    fn verdict(&self) -> (ServiceState, String) {
        let counting = || self.monitors.iter().filter(|m| m.counts());
        let failing = counting().find_map(|m| match &m.health {
            Health::Failing { why, .. } => Some(m.describe(why)),
            Health::Unknown | Health::Passing { .. } => None,
        });
        if let Some(reason) = failing {
            return (ServiceState::Down, reason);
        }
        if let Some(unknown) = counting().find(|m| m.health == Health::Unknown) {
            return (ServiceState::Learning, unknown.describe(unknown.last()));
        }
        let reason = match (counting().next(), self.monitors.first()) {
            (Some(_), _) => "all monitors pass".to_owned(),
            (None, Some(monitor)) => format!("no monitor can run: {}", monitor.describe(monitor.last())),
            (None, None) => "no monitors".to_owned(),
        };
        (ServiceState::Up, reason)
    }

    /// The arithmetic mean over the monitors that have measured (behaviour 5, [S-LRTM]), whole microseconds.
    pub(super) fn response_time(&self) -> Option<Rtt> {
        let measured = || self.monitors.iter().filter_map(|m| m.response_time);
        let sum: u64 = measured().map(|rtt| u64::from(rtt.as_micros())).sum();
        let mean = sum.checked_div(measured().count() as u64)?;
        Some(Rtt::from_micros(u32::try_from(mean).unwrap_or(u32::MAX)))
    }

    pub(super) fn view(&self) -> ServiceView {
        ServiceView {
            state: self.state,
            reason: self.reason.clone(),
            since: self.since,
            response_time: self.response_time(),
            monitors: self.monitors.iter().map(Monitor::view).collect(),
        }
    }
}
