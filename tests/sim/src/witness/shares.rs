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
    suspects: Vec<Suspect>,
}

/// Two nodes of one site that probed the same LDNS: whether they knew better is seen from what the second publishes next.
struct Suspect {
    n: HostIndex,
    at: Timestamp,
    /// For how long the nodes of the site must have agreed on which of them there are by then.
    settled: Duration,
    what: String,
}

impl Shares {
    /// A node sent a probe.
    pub(super) fn probed(&mut self, at: Timestamp, n: HostIndex, host: &Host, ldns: Ldns) {
        let before = self.last.insert((host.site(), ldns), (n, at));
        if let Some((other, earlier)) = before.filter(|(other, _)| *other != n) {
            let apart = at.since(earlier);
            let what = format!("{} and host {other} of one site probe {ldns}, {apart:?} apart", host.id());
            let settled = apart + host.config().probe.interval + SLACK;
            self.suspects.push(Suspect { n, at, settled, what });
        }
    }

    /// A node has published. While the nodes of its site agree on which of them there are, one of them probes an LDNS.
    pub(super) fn published(
        &mut self,
        now: Timestamp,
        n: HostIndex,
        links: &Links,
    ) -> Result<(), (Invariant, String)> {
        let (here, others) =
            std::mem::take(&mut self.suspects).into_iter().partition(|suspect| suspect.n == n);
        self.suspects = others;
        let here: Vec<Suspect> = here;
        match here.into_iter().find(|s| links.is_site_settled(now, n, s.settled + now.since(s.at))) {
            Some(suspect) => Err((Invariant::Share, suspect.what)),
            None => Ok(()),
        }
    }
}
