//! What the nodes of a group show, and the watch over their answers.

use crate::net::Net;
use gslb_core::{Client, Decision, Family, Published, SiteView, Turn, decide};
use gslb_types::{Ldns, Reach, ServiceState, SiteIndex, Timestamp};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// What must not change while it is watched.
pub(crate) struct Watch {
    askers: Vec<IpAddr>,
    before: Vec<Vec<Decision>>,
    pub(crate) changes: Vec<String>,
}

impl Net {
    pub(crate) fn published(&self, node: &str) -> Arc<Published> {
        self.hosts[self.place(node)].shared.published.load_full()
    }

    fn site_index(&self, site: &str) -> SiteIndex {
        let config = &self.hosts[0].config;
        SiteIndex::new(config.sites.iter().position(|s| s.name.as_str() == site).unwrap()).unwrap()
    }

    pub(crate) fn site(&self, node: &str, site: &str) -> SiteView {
        self.published(node).sites[self.site_index(site).get()].clone()
    }

    /// The state of a site's service, as a node judges it.
    pub(crate) fn state(&self, node: &str, site: &str) -> ServiceState {
        self.published(node).services[self.site_index(site).get()].state
    }

    /// What counts of a site's way to an LDNS at a node.
    pub(crate) fn reach(&self, node: &str, site: &str, ldns: IpAddr) -> Reach {
        let (host, published) = (&self.hosts[self.place(node)], self.published(node));
        let Some(row) = host.shared.rtts.row(Ldns::exact(ldns)) else { return Reach::Pending };
        let site = self.site_index(site);
        let confirmed = published.sites[site.get()].confirmed;
        row.cell(site).current(self.now, host.config.mep.max_age, confirmed)
    }

    /// The same at every node that runs.
    pub(crate) fn reaches(&self, site: &str, ldns: IpAddr) -> Vec<Reach> {
        let running = self.hosts.iter().filter(|host| host.node.is_some());
        running.map(|host| self.reach(&host.id.to_string(), site, ldns)).collect()
    }

    /// What a node answers to an LDNS; the turn is always the same.
    pub(crate) fn decision(&self, host: usize, ldns: IpAddr) -> Decision {
        let published = self.hosts[host].shared.published.load_full();
        let row = self.hosts[host].shared.rtts.row(Ldns::exact(ldns));
        decide(0, Family::V4, &published, row.as_ref(), &Client::new(ldns), Turn::default(), self.now)
    }

    /// Probes that a node sent since then, by LDNS.
    pub(crate) fn probed(&self, node: &str, since: Timestamp) -> BTreeMap<IpAddr, usize> {
        let mut counts = BTreeMap::new();
        let probes = &self.hosts[self.place(node)].probes;
        probes
            .iter()
            .filter(|(at, _)| *at >= since)
            .for_each(|(_, p)| *counts.entry(p.target).or_default() += 1);
        counts
    }

    /// From now on every change of a verdict for these LDNS, at any node that runs, is noted.
    pub(crate) fn watch_answers(&mut self, askers: Vec<IpAddr>) {
        let before = self.verdicts(&askers);
        self.watched = Some(Watch { askers, before, changes: Vec::new() });
    }

    /// What changed since, and forgets it.
    pub(crate) fn changes(&mut self) -> Vec<String> {
        self.watched.take().map(|watch| watch.changes).unwrap_or_default()
    }

    fn verdicts(&self, askers: &[IpAddr]) -> Vec<Vec<Decision>> {
        let of = |host| askers.iter().map(|ldns| self.decision(host, *ldns)).collect();
        (0..self.hosts.len()).map(of).collect()
    }

    /// Notes what has changed.
    pub(crate) fn watch(&mut self) {
        let Some(mut watch) = self.watched.take() else { return };
        let after = self.verdicts(&watch.askers);
        for (host, (before, after)) in watch.before.iter().zip(&after).enumerate() {
            for ((before, after), ldns) in before.iter().zip(after).zip(&watch.askers) {
                if before.verdict != after.verdict && self.hosts[host].node.is_some() {
                    let (id, now) = (&self.hosts[host].id, self.now);
                    watch.changes.push(format!(
                        "{now:?} {id} for {ldns}: {:?} after {:?}",
                        after.verdict, before.verdict
                    ));
                }
            }
        }
        watch.before = after;
        self.watched = Some(watch);
    }
}
