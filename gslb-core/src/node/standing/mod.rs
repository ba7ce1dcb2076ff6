//! What answers go by beside the state of the moment: the place that clients were sent to, and which virtual servers have
//! spilled over.
//!
//! Both remember, so that two nodes that saw different moments would answer differently for ever. So each decision travels with
//! its age, and the latest counts at all nodes. It travels as a persistence session of an id that no configuration can have: its
//! client is what was decided, and the time of its use is that of the decision. A node of the group that is there keeps it; it is
//! forgotten when all are gone.
//!
//! ```text
//! place:   best one --it fails--> a later one --the best can be answered again--> stands --delay or operator--> best one
//! spilled: no --beyond a limit--> yes --within `back_at` percent of all limits--> no
//! ```

#[cfg(test)]
mod tests;
mod told;

use crate::decide::{Family, Place, bits_a_second, is_learning, place};
use crate::published::Published;
use config::{Config, Failback, Spillover};
use gslb_types::{ServiceState, Timestamp};
use mep_core::SessionKey;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use told::{About, Subject};

/// All that is remembered.
pub(super) struct Standing {
    config: Arc<Config>,
    /// By virtual server and family.
    places: Vec<[Kept<Option<Place>>; 2]>,
    /// By virtual server and family: since when a better place could be answered without a break.
    better_since: Vec<[Option<Timestamp>; 2]>,
    /// By virtual server.
    spilled: Vec<Kept<bool>>,
    /// The latest that peers told since the last look: no more than can be decided.
    heard: BTreeMap<(usize, About), (Subject, Decided)>,
    /// The virtual servers by their numbers in keys.
    numbers: BTreeMap<u64, usize>,
    /// The virtual servers that an operator brings back.
    released: Vec<usize>,
}

/// A decision, and when it was made. That which was never decided, but found so at the start, has no time: anybody's decision
/// counts before it.
#[derive(Clone, Copy, Default, Debug)]
struct Kept<T> {
    value: T,
    decided: Option<Decided>,
}

/// So long before this moment. It may be before the start of this node, which has no time for that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Decided {
    at: Timestamp,
    before: Duration,
}

impl Decided {
    fn age(self, now: Timestamp) -> Duration {
        self.before + now.since(self.at)
    }
}

impl<T> Kept<T> {
    fn set(&mut self, value: T, now: Timestamp) {
        *self = Kept { value, decided: Some(Decided { at: now, before: Duration::ZERO }) };
    }

    fn is_older_than(&self, told: Decided, now: Timestamp) -> bool {
        self.decided.is_none_or(|decided| decided.age(now) > told.age(now))
    }
}

impl Standing {
    pub(super) fn new(config: Arc<Config>) -> Self {
        let vservers = config.vservers.len();
        let numbers = config.vservers.iter().map(told::number).zip(0..).collect();
        Standing {
            config,
            places: vec![Default::default(); vservers],
            better_since: vec![[None; 2]; vservers],
            spilled: vec![Kept::default(); vservers],
            heard: BTreeMap::new(),
            numbers,
            released: Vec::new(),
        }
    }

    /// Takes over what the node task before this one went by. When it was decided it did not leave, so peers know better.
    pub(super) fn resume(&mut self, published: &Published) {
        for (kept, places) in self.places.iter_mut().zip(&published.standing) {
            for (kept, place) in kept.iter_mut().zip(places) {
                kept.value = *place;
            }
        }
        for (kept, spilled) in self.spilled.iter_mut().zip(&published.spilled) {
            kept.value = *spilled;
        }
    }

    /// An operator brings the clients of a virtual server back to what is preferred.
    pub(super) fn release(&mut self, vserver: usize) {
        self.released.push(vserver);
    }

    /// Decides anew by what is to be published, and writes it there. The decisions made are to be told to the peers.
    pub(super) fn settle(&mut self, now: Timestamp, published: &mut Published) -> Vec<SessionKey> {
        let mut decided = Vec::new();
        published.spilled = vec![false; self.config.vservers.len()];
        published.standing = vec![[None; 2]; self.config.vservers.len()];
        let config = self.config.clone();
        for (vserver, policy) in config.vservers.iter().enumerate() {
            if let Some(spillover) = policy.spillover {
                decided.extend(self.spill(now, vserver, &spillover, published));
            }
        }
        for (vserver, policy) in config.vservers.iter().enumerate() {
            if policy.failback != Failback::AtOnce {
                for family in [Family::V4, Family::V6] {
                    decided.extend(self.place(now, vserver, family, policy.failback, published));
                }
            }
        }
        self.heard.clear();
        self.released.clear();
        decided.into_iter().filter_map(|subject| self.key(subject)).collect()
    }

    fn spill(
        &mut self,
        now: Timestamp,
        vserver: usize,
        spillover: &Spillover,
        published: &mut Published,
    ) -> Option<Subject> {
        let beyond = |percent| is_beyond(vserver, spillover, percent, published);
        let (over, within) = (beyond(100) == Some(true), beyond(spillover.back_at) == Some(false));
        let heard = self.heard.get(&(vserver, About::Spilled)).copied();
        let kept = self.spilled.get_mut(vserver)?;
        if let Some((Subject::Spilled { spilled, .. }, told)) = heard {
            // What this node itself sees to be otherwise it does not take from others.
            let is_contradicted = if spilled { within } else { over };
            if !is_contradicted && kept.is_older_than(told, now) {
                *kept = Kept { value: spilled, decided: Some(told) };
            }
        }
        let turns = if kept.value { within } else { over };
        if turns {
            kept.set(!kept.value, now);
        }
        let spilled = kept.value;
        if let Some(place) = published.spilled.get_mut(vserver) {
            *place = spilled;
        }
        turns.then_some(Subject::Spilled { vserver, spilled })
    }

    fn place(
        &mut self,
        now: Timestamp,
        vserver: usize,
        family: Family,
        failback: Failback,
        published: &mut Published,
    ) -> Option<Subject> {
        let v6 = usize::from(family == Family::V6);
        let kept = self.places.get_mut(vserver)?.get_mut(v6)?;
        let heard = self.heard.get(&(vserver, About::Place { v6: v6 == 1 })).copied();
        if let Some((Subject::Place { place, .. }, told)) = heard
            && kept.is_older_than(told, now)
        {
            *kept = Kept { value: Some(place), decided: Some(told) };
        }
        let best = place(vserver, family, published, now);
        let stands = |kept: Option<Place>, published: &mut Published| {
            published.standing.get_mut(vserver)?[v6] = kept;
            place(vserver, family, published, now)
        };
        let Some(best) = best else {
            stands(kept.value, published);
            return None;
        };
        let better = self.better_since.get_mut(vserver)?.get_mut(v6)?;
        let before = kept.value;
        match kept.value {
            Some(current) if best < current => {
                let since = *better.get_or_insert(now);
                let is_over = match failback {
                    Failback::AtOnce => true,
                    Failback::After(delay) => now.since(since) >= delay,
                    Failback::Manual => false,
                };
                // What is not checked yet has not failed, as after the start of this node.
                let is_left = stands(Some(current), published) != Some(current)
                    && !is_learning(vserver, family, published, |place| place == current);
                if is_over || is_left || self.released.contains(&vserver) {
                    kept.set(Some(best), now);
                }
            }
            Some(current) => {
                *better = None;
                if best > current && !is_learning(vserver, family, published, |place| place < best) {
                    kept.set(Some(best), now);
                }
            }
            // Found so at the start.
            None if !is_learning(vserver, family, published, |place| place < best) => kept.value = Some(best),
            None => {}
        }
        let place = kept.value;
        let is_news = before.is_some() && before != place;
        if is_news {
            *better = None;
        }
        stands(place.filter(|place| best < *place), published);
        let place = place.filter(|_| is_news)?;
        Some(Subject::Place { vserver, v6: v6 == 1, place })
    }
}

/// Whether more than so many percent of a limit is used; `None` if nothing is known of what has limits.
fn is_beyond(vserver: usize, limits: &Spillover, percent: u8, published: &Published) -> Option<bool> {
    let bindings = published.config.vservers.get(vserver)?.bindings.iter();
    let bound = bindings.filter_map(|binding| {
        let config = published.config.services.get(binding.service).filter(|service| service.enabled)?;
        Some((config, published.services.get(binding.service)?, u64::from(binding.weight.get())))
    });
    let up = bound.clone().filter(|(_, view, _)| view.state == ServiceState::Up);
    let traffic = up.clone().filter_map(|(_, view, _)| view.traffic);
    let active = traffic.clone().filter_map(|t| t.active).reduce(u64::saturating_add);
    let bytes = traffic.filter_map(|t| t.bytes).reduce(u64::saturating_add);
    let percent = u128::from(percent);
    let exceeds = |is: Option<u128>, limit: Option<u64>| {
        is.zip(limit).map(|(is, limit)| is * 100 >= u128::from(limit) * percent)
    };
    // Of health it is the reverse: so much more must be up.
    let weight = |of: u64, all: u64| (all > 0).then(|| u128::from(of) * 100 * 100 / u128::from(all));
    // What is not checked yet is neither: else each start would spill over.
    let is_checked = bound.clone().all(|(_, view, _)| view.state != ServiceState::Learning);
    let health = weight(up.map(|(.., w)| w).sum(), bound.map(|(.., w)| w).sum()).filter(|_| is_checked);
    let least = limits.health.map(|least| (u128::from(least) * 100 * 100 / percent).min(100 * 100));
    let is_ill = health.zip(least).map(|(health, least)| health < least);
    let all = [
        exceeds(active.map(u128::from), limits.connections),
        exceeds(bytes.map(bits_a_second), limits.bandwidth),
        is_ill,
    ];
    all.into_iter().flatten().reduce(|a, b| a || b)
}
