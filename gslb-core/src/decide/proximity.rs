//! Static proximity: the site closest to where the client is known to be.

use super::contenders::{Chosen, Contender, Contenders, Sites};
use super::{Deciding, Decision, Reason, Verdict};
use crate::location::{Closest, Locations, Origin};
use gslb_types::Reach;

impl Deciding<'_> {
    /// The closest site; of several that are as close each in turn. `None` if nothing is known that could tell.
    pub(super) fn by_place(
        &self,
        all: &[Contender],
        steps: &mut Decision,
    ) -> Result<Option<Chosen>, Verdict> {
        let Some(closest) = self.client.locations.and_then(|known| self.closest(known, all, steps)) else {
            steps.say(Reason::NowhereKnown);
            return Ok(None);
        };
        let Some(first) = closest.sites.first().copied() else { return Ok(None) };
        steps.say(Reason::Closest(first, closest.by));
        if closest.sites.len() == 1 {
            return Ok(Some(Chosen::site(first)));
        }
        steps.say(Reason::Equal(closest.sites.len()));
        let equal: Contenders = all.iter().copied().filter(|c| closest.sites.contains(&c.site)).collect();
        self.in_turn(&equal, steps).map(Some)
    }

    /// By the client's prefix if its place is known, else by the LDNS (faults I-29). Either way the answer is for as many as
    /// the same is known of.
    fn closest(&self, known: &Locations, all: &[Contender], steps: &mut Decision) -> Option<Closest> {
        let sites = Sites::of(all, |_| Reach::default());
        let sites = || sites.iter().map(|(site, _)| site);
        if let Some(subnet) = self.client.subnet {
            let found = known.find_prefix(subnet.prefix);
            steps.scope = steps.scope.max(found.covers);
            if found.origin != Origin::Unknown
                && let Some(closest) = known.closest(sites(), &found)
            {
                return Some(closest);
            }
        }
        known.closest(sites(), &known.find(self.client.ldns))
    }
}
