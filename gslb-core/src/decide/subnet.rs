//! The client's own prefix: where it stands in for the LDNS, and how far the answer then reaches (RFC 7871).

use super::contenders::Contender;
use super::{Deciding, Decision, Reason};
use crate::table::Row;
use gslb_types::LdnsMasks;
use ipnet::IpNet;
use std::net::IpAddr;

/// How much of a client's prefix a hash looks at: what RFC 7871 section 11.1 has resolvers send. More would only make resolvers
/// keep more answers.
const HASHED: LdnsMasks = LdnsMasks { v4: 24, v6: 56 };

impl Deciding<'_> {
    /// The address a hash goes by.
    pub(super) fn hashed(&self, steps: &mut Decision) -> IpAddr {
        let Some(subnet) = self.client.subnet else { return self.client.ldns };
        let length = subnet.prefix.prefix_len().min(HASHED.bits(subnet.prefix.network()));
        steps.scope = steps.scope.max(length);
        IpNet::new(subnet.prefix.network(), length).map_or(self.client.ldns, |prefix| prefix.network())
    }

    /// The row that decides: that of the client's own prefix if it has been measured, else that of the LDNS (faults I-29).
    ///
    /// Even where the LDNS decides, another prefix may have been measured, so the answer is for this one alone. Where entries
    /// are single addresses and a resolver tells less, as it should, none is ever found: then the answer is for all.
    pub(super) fn measured(&self, all: &[Contender], steps: &mut Decision) -> Option<&Row> {
        let Some(subnet) = self.client.subnet else { return self.row };
        let entry = self.published.config.ldns.masks.bits(subnet.prefix.network());
        if subnet.prefix.prefix_len() >= entry || entry < subnet.prefix.max_prefix_len() {
            steps.scope = steps.scope.max(entry.min(subnet.prefix.prefix_len()));
        }
        match subnet.row.filter(|row| all.iter().any(|c| self.reach(row, c.site).rtt().is_some())) {
            Some(row) => {
                steps.say(Reason::OfSubnet(entry));
                Some(row)
            }
            None => self.row,
        }
    }
}
