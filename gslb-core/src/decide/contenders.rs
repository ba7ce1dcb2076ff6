//! What a decision chooses from: the services that compete, and their sites.

use arrayvec::ArrayVec;
use gslb_types::{MAX_SITES, Reach, Rtt, SiteIndex, Weight};
use lb_core::ServiceId;
use smallvec::SmallVec;

/// How many services a virtual server may have before a decision needs the heap.
pub(super) const INLINE: usize = 16;

pub(super) type Contenders = SmallVec<[Contender; INLINE]>;

/// An eligible service.
#[derive(Clone, Copy)]
pub(super) struct Contender {
    pub(super) position: usize,
    pub(super) service: usize,
    pub(super) site: SiteIndex,
    pub(super) id: ServiceId,
    pub(super) weight: Weight,
    pub(super) order: u16,
}

/// The sites of the contenders, in configuration order, with what is known of each. No longer than there are such sites:
/// most groups have few of the many there may be.
pub(super) struct Sites(ArrayVec<(SiteIndex, Reach), MAX_SITES>);

impl Sites {
    pub(super) fn of(contenders: &[Contender], reach: impl Fn(SiteIndex) -> Reach) -> Self {
        let mut sites = ArrayVec::<_, MAX_SITES>::new();
        for contender in contenders {
            if let Err(place) = sites.binary_search_by_key(&contender.site, |(site, _)| *site) {
                // There are no more sites than that.
                let _ = sites.try_insert(place, (contender.site, reach(contender.site)));
            }
        }
        Sites(sites)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (SiteIndex, Reach)> + Clone + '_ {
        self.0.iter().copied()
    }

    pub(super) fn reach(&self, site: SiteIndex) -> Reach {
        let found = self.0.binary_search_by_key(&site, |(site, _)| *site).ok();
        found.and_then(|index| self.0.get(index)).map(|(_, reach)| *reach).unwrap_or_default()
    }

    pub(super) fn nearest(&self) -> Option<(SiteIndex, Rtt)> {
        self.iter()
            .filter_map(|(site, reach)| Some((site, reach.rtt()?)))
            .min_by_key(|(site, rtt)| (*rtt, *site))
    }
}

/// A chosen site.
#[derive(Clone, Copy)]
pub(super) struct Chosen {
    pub(super) site: SiteIndex,
    /// The service whose turn chose the site.
    pub(super) by_turn: Option<usize>,
    /// The round for the local level: it moves on once a cycle, so that the two levels do not march in step.
    pub(super) local_round: u64,
}

impl Chosen {
    pub(super) fn site(site: SiteIndex) -> Self {
        Chosen { site, by_turn: None, local_round: 0 }
    }
}
