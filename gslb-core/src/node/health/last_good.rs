//! Which services of a virtual server were up the last time one was, and whether one is.
//!
//! Only virtual servers of services that changed are looked at: a peer whose frames change one service again and again must
//! not make this node go through all of them each time (threat T8).

use config::Config;
use gslb_types::ServiceState;
use std::collections::BTreeSet;

/// What is remembered of each virtual server.
pub(super) struct Memory {
    /// By virtual server and position in its bindings.
    last_good: Vec<Vec<bool>>,
    /// By virtual server: whether a service of it was up when [`Memory::turned`] last looked.
    had_one_up: Vec<bool>,
    /// By service: the virtual servers it is bound to, and the positions there.
    bound: Vec<Vec<(usize, usize)>>,
    /// The virtual servers that [`Memory::turned`] has to look at.
    touched: BTreeSet<usize>,
    looks: u64,
}

impl Memory {
    /// Nothing was up yet.
    pub(super) fn new(config: &Config) -> Self {
        let mut bound = vec![Vec::new(); config.services.len()];
        for (vserver, bindings) in config.vservers.iter().map(|v| &v.bindings).enumerate() {
            for (position, binding) in bindings.iter().enumerate() {
                if let Some(places) = bound.get_mut(binding.service) {
                    places.push((vserver, position));
                }
            }
        }
        Memory {
            last_good: config.vservers.iter().map(|v| vec![false; v.bindings.len()]).collect(),
            had_one_up: vec![false; config.vservers.len()],
            bound,
            touched: BTreeSet::new(),
            looks: 0,
        }
    }

    /// Takes over what was remembered before, of services whose states were taken over as well.
    pub(super) fn resume(&mut self, last_good: &[Vec<bool>]) {
        self.last_good = last_good.to_vec();
        self.touched.extend(0..self.had_one_up.len());
    }

    /// The state of these services changed: remembers, for each virtual server that has one of them and one that is up, which
    /// of its services are. Each address family for itself, as a query is for one of them.
    pub(super) fn note(
        &mut self,
        config: &Config,
        services: impl IntoIterator<Item = usize>,
        state: impl Fn(usize) -> Option<ServiceState>,
    ) {
        let places = services.into_iter().filter_map(|service| self.bound.get(service)).flatten();
        let vservers: BTreeSet<usize> = places.map(|(vserver, _)| *vserver).collect();
        for vserver in &vservers {
            let bindings = config.vservers.get(*vserver).map(|v| v.bindings.as_slice()).unwrap_or_default();
            let places = bindings.iter().filter_map(|b| {
                let is_v6 = config.services.get(b.service)?.address.is_ipv6();
                Some((is_v6, state(b.service) == Some(ServiceState::Up)))
            });
            let places: Vec<(bool, bool)> = places.collect();
            self.looks += places.len() as u64;
            let has_one_up = [false, true].map(|v6| places.contains(&(v6, true)));
            for (good, (is_v6, is_up)) in self.last_good.get_mut(*vserver).into_iter().flatten().zip(places) {
                if has_one_up[usize::from(is_v6)] {
                    *good = is_up;
                }
            }
        }
        self.touched.extend(vservers);
    }

    /// See [`Memory::note`].
    pub(super) fn last_good(&self) -> &[Vec<bool>] {
        &self.last_good
    }

    /// Whether a virtual server would go on answering with this service, were all of its services down.
    pub(super) fn was_good(&self, service: usize) -> bool {
        let mut places = self.bound.get(service).into_iter().flatten();
        places.any(|(vserver, position)| {
            self.last_good.get(*vserver).and_then(|good| good.get(*position)) == Some(&true)
        })
    }

    /// Bindings looked at so far.
    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    /// The virtual servers that lost their last service or got the first one since the last call, and whether one is up: a
    /// moment that an operator wants told once, however many services it concerns (faults I-55).
    pub(super) fn turned(
        &mut self,
        config: &Config,
        state: impl Fn(usize) -> Option<ServiceState>,
    ) -> Vec<(usize, bool)> {
        let mut turned = Vec::new();
        for vserver in std::mem::take(&mut self.touched) {
            let (Some(policy), Some(had)) = (config.vservers.get(vserver), self.had_one_up.get_mut(vserver))
            else {
                continue;
            };
            self.looks += policy.bindings.len() as u64;
            let has = policy.bindings.iter().any(|b| state(b.service) == Some(ServiceState::Up));
            if std::mem::replace(had, has) != has {
                turned.push((vserver, has));
            }
        }
        turned
    }
}
