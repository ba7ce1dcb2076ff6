//! Places in the order of preference of a virtual server, and the one that stands although a better one can be answered.

use super::contenders::Contenders;
use super::eligible::Eligible;
use super::{Client, Deciding, Decision, Family, Reason, Turn, decide};
use crate::published::Published;
use gslb_types::{ServiceState, Timestamp};
use std::net::{IpAddr, Ipv4Addr};

/// A virtual server of a chain, and an order among its services. Less is preferred.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// How many virtual servers of the chain come before.
    pub link: u16,
    /// The order.
    pub order: u16,
}

/// The place that would be answered, by what is published; `None` while nothing is up.
pub(crate) fn place(vserver: usize, family: Family, published: &Published, now: Timestamp) -> Option<Place> {
    let anybody = Client::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    decide(vserver, family, published, None, &anybody, Turn::default(), now).place
}

/// Whether a service of one of these places is not checked yet, so that it may turn out to be up at any moment.
pub(crate) fn is_learning(
    vserver: usize,
    family: Family,
    published: &Published,
    places: impl Fn(Place) -> bool,
) -> bool {
    let Some(policy) = published.config.vservers.get(vserver) else { return false };
    let anybody = Client::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let (row, turn, now) = (None, Turn::default(), Timestamp::ZERO);
    let first = Deciding { index: vserver, policy, family, published, row, client: &anybody, turn, now };
    first.chain().zip(0..).any(|(link, number)| {
        link.candidates().any(|(position, service)| {
            let order = link.policy.bindings.get(position).map_or(0, |binding| binding.order);
            let is_learning =
                published.services.get(service).is_some_and(|view| view.state == ServiceState::Learning);
            is_learning && places(Place { link: number, order })
        })
    })
}

impl Deciding<'_> {
    /// The services of the place that stands, if one does and some of it can be answered: is up, and has room.
    pub(super) fn at_standing(&self, contenders: &mut Contenders, steps: &mut Decision) -> Option<Self> {
        let place = self.published.standing(self.index, self.family == Family::V6)?;
        let link = self.chain().nth(place.link.into()).filter(|link| !link.has_spilled())?;
        link.add_eligible(Eligible::Up, contenders);
        contenders.retain(|c| c.order == place.order);
        if contenders.is_empty() || !link.drop_full(contenders, steps) {
            return None;
        }
        self.hand_to(&link, steps);
        steps.say(Reason::Standing(place, contenders.len()));
        steps.place = Some(place);
        Some(link)
    }
}
