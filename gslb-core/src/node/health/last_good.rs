//! Which services of a virtual server were up the last time one was, and whether one is.

use config::Config;
use gslb_types::ServiceState;

/// What is remembered of each virtual server.
pub(super) struct Memory {
    /// By virtual server and position in its bindings.
    last_good: Vec<Vec<bool>>,
    /// By virtual server: whether a service of it was up when [`Memory::turned`] last looked.
    had_one_up: Vec<bool>,
}

impl Memory {
    /// Nothing was up yet.
    pub(super) fn new(config: &Config) -> Self {
        let last_good = config.vservers.iter().map(|v| vec![false; v.bindings.len()]).collect();
        Memory { last_good, had_one_up: vec![false; config.vservers.len()] }
    }

    /// Takes over what was remembered before.
    pub(super) fn resume(&mut self, last_good: &[Vec<bool>]) {
        self.last_good = last_good.to_vec();
    }

    /// Remembers, for each virtual server with a service up, which of its services are. Each address family for itself, as
    /// a query is for one of them.
    pub(super) fn note(&mut self, config: &Config, state: impl Fn(usize) -> Option<ServiceState>) {
        let is_up = |service: usize| state(service) == Some(ServiceState::Up);
        for (vserver, good) in config.vservers.iter().zip(&mut self.last_good) {
            for v6 in [false, true] {
                let of_family =
                    |service: usize| config.services.get(service).is_some_and(|s| s.address.is_ipv6() == v6);
                let bound =
                    || vserver.bindings.iter().map(|b| b.service).zip(0..).filter(|(s, _)| of_family(*s));
                if bound().any(|(service, _)| is_up(service)) {
                    for (service, position) in bound() {
                        if let Some(good) = good.get_mut::<usize>(position) {
                            *good = is_up(service);
                        }
                    }
                }
            }
        }
    }

    /// See [`Memory::note`].
    pub(super) fn last_good(&self) -> &[Vec<bool>] {
        &self.last_good
    }

    /// The virtual servers that lost their last service or got the first one since the last call, and whether one is up: a
    /// moment that an operator wants told once, however many services it concerns (faults I-55).
    pub(super) fn turned(
        &mut self,
        config: &Config,
        state: impl Fn(usize) -> Option<ServiceState>,
    ) -> Vec<(usize, bool)> {
        let is_up = |service: usize| state(service) == Some(ServiceState::Up);
        let has_one_up = |v: &config::Vserver| v.bindings.iter().any(|b| is_up(b.service));
        let have: Vec<bool> = config.vservers.iter().map(has_one_up).collect();
        let had = std::mem::replace(&mut self.had_one_up, have);
        let both = had.into_iter().zip(&self.had_one_up).enumerate();
        both.filter(|(_, (had, has))| had != *has).map(|(vserver, (_, has))| (vserver, *has)).collect()
    }
}
