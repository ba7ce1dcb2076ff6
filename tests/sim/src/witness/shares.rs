//! Who of a site's nodes probes which LDNS.

use super::Invariant;
use super::links::Links;
use crate::world::{Host, HostIndex};
use gslb_types::{Ldns, SiteIndex, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long after a node has lost or found a peer a probe on its way still counts for who had the LDNS before.
const SLACK: Duration = Duration::from_secs(2);

/// The probes of all sites.
#[derive(Default)]
pub(super) struct Shares {
    last: BTreeMap<(SiteIndex, Ldns), (HostIndex, Timestamp)>,
}

impl Shares {
    /// A node sent a probe. While the nodes of its site agree on which of them there are, no other one probes that LDNS.
    pub(super) fn probed(
        &mut self,
        now: Timestamp,
        n: HostIndex,
        host: &Host,
        ldns: Ldns,
        links: &Links,
    ) -> Result<(), (Invariant, String)> {
        let before = self.last.insert((host.site(), ldns), (n, now));
        let Some((other, at)) = before.filter(|(other, _)| *other != n) else { return Ok(()) };
        let settled = host.config().probe.interval + SLACK;
        if links.is_site_settled(now, n, now.since(at) + settled) {
            let what =
                format!("{} and host {other} of one site probe {ldns}, {:?} apart", host.id(), now.since(at));
            return Err((Invariant::Share, what));
        }
        Ok(())
    }
}
