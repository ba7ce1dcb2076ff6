//! Clients that stay where they were: persistence outranks order and method (behaviour 6).
//!
//! Only a service that is down or disabled ends it; one that is not checked yet keeps its clients, as other nodes may well see
//! it up. It may belong to a backup: who was sent there is not thrown back the moment the others are up again (faults I-59).

use super::{Deciding, Decision, Reason, Verdict};
use gslb_types::ServiceState;

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
        let link = self.chain().find(|link| link.candidates().any(|(_, bound)| bound == service))?;
        match self.published.services.get(service)?.state {
            ServiceState::Up | ServiceState::Learning => {
                self.hand_to(&link, steps);
                steps.say(Reason::Persistent(service));
                Some(Verdict::Service(service))
            }
            ServiceState::Down | ServiceState::Disabled => {
                steps.say(Reason::SessionEnds(service));
                None
            }
        }
    }
}
