//! Clients that stay where they were: persistence outranks order and method (behaviour 6).
//!
//! Only a service that is down or disabled ends it; one that is not checked yet keeps its clients, as other nodes may well see
//! it up. It may belong to a backup: who was sent there is not thrown back the moment the others are up again (faults I-59).

use super::contenders::Contenders;
use super::eligible::Eligible;
use super::{Deciding, Decision, Reason, Verdict};
use gslb_types::{LbMethod, ServiceState, SiteIndex};

impl Deciding<'_> {
    /// The service that the client stays at, if it has one.
    pub(super) fn by_session(&self, steps: &mut Decision) -> Option<Verdict> {
        let persistence = self.policy.persistence?;
        if let Some(subnet) = self.client.subnet {
            // Sent anywhere or not: the next prefix may have been sent elsewhere.
            let mask = persistence.prefix(subnet.prefix.network());
            steps.scope = steps.scope.max(mask.min(subnet.prefix.prefix_len()));
        }
        let session = self.client.session?;
        if self.now.since(session.used) >= persistence.timeout {
            return None;
        }
        let service = session.service;
        let binds = |link: &Self| link.policy.bindings.iter().any(|binding| binding.service == service);
        let link = self.chain().find(binds)?;
        match self.published.services.get(service)?.state {
            ServiceState::Up | ServiceState::Learning => {}
            ServiceState::Down | ServiceState::Disabled => {
                steps.say(Reason::SessionEnds(service));
                return None;
            }
        }
        if link.candidates().any(|(_, bound)| bound == service) {
            self.hand_to(&link, steps);
            steps.say(Reason::Persistent(service));
            return Some(Verdict::Service(service));
        }
        steps.kept = Some(service);
        link.of_site(self.published.config.services.get(service)?.site, self, steps)
    }

    /// The session is one of the other family: A and AAAA are asked for in pairs, and both lead to one site.
    fn of_site(&self, site: SiteIndex, asked: &Self, steps: &mut Decision) -> Option<Verdict> {
        let mut here = Contenders::new();
        for eligible in [Eligible::Up, Eligible::Learning] {
            self.add_eligible(eligible, &mut here);
            here.retain(|contender| contender.site == site);
            if !here.is_empty() {
                asked.hand_to(self, steps);
                steps.say(Reason::PersistentSite(site));
                // Of several the same again and again, since no session says which.
                let whose = lb_core::rendezvous(&here, |c| (c.id, c.weight), self.hashed(steps));
                let service = whose.and_then(|index| here.get(index))?.service;
                steps.say(Reason::Service(service, LbMethod::SourceIpHash));
                return Some(Verdict::Service(service));
            }
        }
        None
    }
}
