//! The service within the chosen site.

use super::contenders::{Chosen, Contender, Contenders, INLINE};
use super::{Deciding, Decision, Reason, Verdict};
use gslb_types::LbMethod;
use lb_core::Candidate;
use smallvec::SmallVec;

impl Deciding<'_> {
    pub(super) fn service(&self, all: &[Contender], chosen: Chosen, steps: &mut Decision) -> Verdict {
        let mut here = all.iter().filter(|c| c.site == chosen.site);
        match (here.next(), here.next()) {
            (None, _) => Verdict::Empty,
            (Some(only), None) => {
                steps.say(Reason::OnlyService(only.service));
                Verdict::Service(only.service)
            }
            (Some(_), Some(_)) => {
                let several: Contenders = all.iter().copied().filter(|c| c.site == chosen.site).collect();
                let service = self.local(&several, chosen, steps);
                steps.say(Reason::Service(service, self.policy.local_method));
                Verdict::Service(service)
            }
        }
    }

    fn local(&self, here: &[Contender], chosen: Chosen, steps: &mut Decision) -> usize {
        let method = self.policy.local_method;
        if let (LbMethod::RoundRobin, Some(service)) = (method, chosen.by_turn) {
            return service; // Round robin over sites and services alike: its turn it was.
        }
        let candidates: SmallVec<[Candidate; INLINE]> = here.iter().map(|c| self.candidate(c)).collect();
        let pointer = self.turn.last.and_then(|last| self.candidates().find(|c| c.1 == last)).map(|c| c.0);
        let round = if chosen.by_turn.is_some() { chosen.local_round } else { self.turn.round };
        let client = if method == LbMethod::SourceIpHash { self.hashed(steps) } else { self.client.ldns };
        let choice = lb_core::choose(method, &candidates, pointer, round, client);
        steps.took_turn |= choice.is_some_and(|c| c.took_turn);
        choice.and_then(|c| here.get(c.index)).or(here.first()).map_or(0, |c| c.service)
    }

    /// What the local methods know of a service: its response time and load, and its traffic where all of that is counted. Clients who are
    /// answered a service that merely is behind an LB virtual server go past the nodes, so what passes there says little of it.
    pub(super) fn candidate(&self, contender: &Contender) -> Candidate {
        let view = self.published.services.get(contender.service);
        let config = self.published.config.services.get(contender.service);
        let is_counted = config.is_some_and(|s| s.lb_vserver.is_some() || s.feed.is_some());
        let traffic = view.and_then(|view| view.traffic).filter(|_| is_counted).unwrap_or_default();
        Candidate {
            active: traffic.active.map(|active| u32::try_from(active).unwrap_or(u32::MAX)),
            response_time: view.and_then(|view| view.response_time),
            ttfb: traffic.ttfb,
            bytes: traffic.bytes,
            packets: traffic.packets,
            load: view.and_then(|view| view.traffic).and_then(|traffic| traffic.load),
            ..Candidate::new(contender.position, contender.id, contender.weight)
        }
    }
}
