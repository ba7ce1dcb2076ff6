//! What the sites have to do, for the methods that choose the one with the least.
//!
//! A site whose load nobody tells is no idle one, nor one that must starve: it gets what the backup method would give it among
//! all, and the others compete for the rest. While nothing is told of any, the backup method decides.

use super::contenders::{Chosen, Contender, Contenders, INLINE};
use super::{Deciding, Decision, Load, Reason, Verdict};
use arrayvec::ArrayVec;
use gslb_types::{LbMethod, MAX_SITES, SiteIndex};
use lb_core::{Candidate, Measure};
use smallvec::SmallVec;

/// The sites of the contenders, in configuration order, with what they have to do.
struct Loads(ArrayVec<(SiteIndex, Option<Load>), MAX_SITES>);

impl Loads {
    /// The loads of the services of a site together, over their weights together. Those of which nothing is told count in
    /// neither.
    fn of(contenders: &[Contender], candidates: &[Candidate], metric: LbMethod) -> Self {
        let measure = Measure::of(metric, candidates);
        let mut loads = Loads(ArrayVec::new());
        for (contender, candidate) in contenders.iter().zip(candidates) {
            let n = measure.and_then(|measure| measure.n(candidate));
            let load = n.map(|n| Load { n, weight: contender.weight.get().into() });
            match loads.0.binary_search_by_key(&contender.site, |(site, _)| *site) {
                Ok(place) => {
                    if let Some((_, sum)) = loads.0.get_mut(place) {
                        *sum = sum.zip(load).map(|(a, b)| a.and(b)).or(*sum).or(load);
                    }
                }
                // There are no more sites than that.
                Err(place) => _ = loads.0.try_insert(place, (contender.site, load)),
            }
        }
        loads
    }

    fn iter(&self) -> impl Iterator<Item = (SiteIndex, Option<Load>)> + '_ {
        self.0.iter().copied()
    }

    fn at(&self, site: SiteIndex) -> Option<Load> {
        self.iter().find(|(at, _)| *at == site).and_then(|(_, load)| load)
    }

    fn least(&self) -> Option<(SiteIndex, Load)> {
        let known = self.iter().filter_map(|(site, load)| Some((site, load?)));
        known.reduce(|best, next| if next.1.is_less_than(best.1) { next } else { best })
    }
}

impl Deciding<'_> {
    pub(super) fn by_load(
        &self,
        metric: LbMethod,
        all: &[Contender],
        steps: &mut Decision,
    ) -> Result<Chosen, Verdict> {
        let candidates: SmallVec<[Candidate; INLINE]> = all.iter().map(|c| self.candidate(c)).collect();
        let loads = Loads::of(all, &candidates, metric);
        for (site, load) in loads.iter() {
            steps.say(load.map_or(Reason::Untold(site), |load| Reason::Load(site, load)));
        }
        let Some((site, least)) = loads.least() else {
            steps.say(Reason::NothingTold);
            return self.by_other(self.policy.backup_method, all, steps);
        };
        if loads.iter().any(|(_, load)| load.is_none()) {
            let due = self.whose(self.policy.backup_method, all, steps)?;
            if loads.at(due.site).is_none() {
                steps.say(Reason::ShareOfUntold(due.site));
                steps.say(Reason::Chosen(due.site, self.policy.backup_method));
                return Ok(due);
            }
        }
        steps.say(Reason::Least(site, least));
        let is_equal = |site| loads.at(site).is_some_and(|load| load.equals(least));
        let count = loads.iter().filter(|(site, _)| is_equal(*site)).count();
        let chosen = if count > 1 {
            steps.say(Reason::Equal(count));
            let equal: Contenders = all.iter().copied().filter(|c| is_equal(c.site)).collect();
            self.in_turn(&equal, steps)?
        } else {
            Chosen::site(site)
        };
        steps.say(Reason::Chosen(chosen.site, self.policy.method));
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn load(n: u64, weight: u32) -> Load {
        Load { n, weight }
    }

    #[test]
    fn loads_go_by_weight_and_nothing_overflows() {
        assert!(load(10, 1).is_less_than(load(21, 2)));
        assert!(load(10, 1).equals(load(20, 2)));
        assert!(load(u64::MAX, 3200).is_less_than(load(u64::MAX, 3199)));
        assert_eq!(load(u64::MAX, u32::MAX).and(load(1, 1)), load(u64::MAX, u32::MAX));
    }

    proptest! {
        #[test]
        fn of_two_loads_one_is_less_or_they_are_equal(a: (u64, u8), b: (u64, u8)) {
            let (a, b) = (load(a.0, u32::from(a.1) + 1), load(b.0, u32::from(b.1) + 1));
            let [less, greater, equal] = [a.is_less_than(b), b.is_less_than(a), a.equals(b)];
            prop_assert_eq!(u8::from(less) + u8::from(greater) + u8::from(equal), 1);
        }
    }
}
