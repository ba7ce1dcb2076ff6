//! Who hears whom, as the nodes themselves say, and since when.

use crate::world::{Host, HostIndex};
use gslb_core::Published;
use gslb_types::{SiteIndex, Timestamp};
use std::time::Duration;

/// The matrix.
pub(super) struct Links {
    sites: Vec<SiteIndex>,
    links: Vec<Vec<Link>>,
    /// Since when everything passes from one host to another; never while something does not.
    whole: Vec<Vec<Timestamp>>,
    /// When something was last done to a host itself: started, stopped, its clock moved.
    disturbed: Vec<Timestamp>,
    /// Hosts whose node does not run, or stands still.
    absent: Vec<bool>,
    generations: Vec<u64>,
    /// Until when the lines between the hosts were slow or lossy, as far as is known.
    rough_until: Timestamp,
}

#[derive(Clone, Copy)]
struct Link {
    stands: bool,
    since: Timestamp,
}

impl Links {
    pub(super) fn new(sites: &[SiteIndex]) -> Self {
        let none = Link { stands: false, since: Timestamp::ZERO };
        Links {
            links: vec![vec![none; sites.len()]; sites.len()],
            whole: vec![vec![Timestamp::ZERO; sites.len()]; sites.len()],
            disturbed: vec![Timestamp::ZERO; sites.len()],
            absent: vec![true; sites.len()],
            generations: vec![0; sites.len()],
            sites: sites.to_vec(),
            rough_until: Timestamp::ZERO,
        }
    }

    /// Something is done to the line from one host to another.
    pub(super) fn line(&mut self, now: Timestamp, from: HostIndex, to: HostIndex, is_whole: bool) {
        self.whole[from][to] = if is_whole { now } else { Timestamp::MAX };
    }

    pub(super) fn rough(&mut self, until: Timestamp) {
        self.rough_until = until;
    }

    pub(super) fn disturbed(&mut self, now: Timestamp, n: HostIndex, is_absent: bool) {
        self.disturbed[n] = now;
        self.absent[n] = is_absent;
    }

    /// A process starts or ends: it has no sessions.
    pub(super) fn alone(&mut self, now: Timestamp, n: HostIndex) {
        self.links[n].fill(Link { stands: false, since: now });
        self.generations[n] = 0;
    }

    /// A node had a turn. Returns whether it published something.
    pub(super) fn published(&mut self, now: Timestamp, n: HostIndex, published: &Published) -> bool {
        if published.generation == self.generations[n] {
            return false;
        }
        self.generations[n] = published.generation;
        for (k, peer) in published.peers.iter().enumerate() {
            let link = &mut self.links[n][peer_at(n, k)];
            if link.stands != peer.state.has_session() {
                *link = Link { stands: !link.stands, since: now };
            }
        }
        true
    }

    /// Whether two hosts have heard each other for at least so long, over a line on which everything passed.
    pub(super) fn is_firm(&self, now: Timestamp, a: HostIndex, b: HostIndex, span: Duration) -> bool {
        [(a, b), (b, a)].iter().all(|(one, other)| {
            let link = self.links[*one][*other];
            let whole = self.whole[*one][*other];
            link.stands && now.since(link.since) >= span && whole <= now && now.since(whole) >= span
        })
    }

    /// Whether the lines have been good for so long, and nothing was done to these hosts.
    pub(super) fn is_calm(&self, now: Timestamp, hosts: &[HostIndex], span: Duration) -> bool {
        now.since(self.rough_until) >= span
            && hosts.iter().all(|n| now.since(self.disturbed[*n]) >= span && !self.absent[*n])
    }

    /// A host that has heard a node of the site all the while, and has been heard by this one.
    pub(super) fn relay(
        &self,
        now: Timestamp,
        n: HostIndex,
        site: SiteIndex,
        span: Duration,
    ) -> Option<HostIndex> {
        let hosts = 0..self.sites.len();
        hosts.filter(|c| *c != n && self.sites[*c] != site && self.is_firm(now, n, *c, span)).find(|c| {
            let mut there = self.hosts_of(site).filter(|b| self.is_firm(now, *c, *b, span));
            there.any(|b| self.is_calm(now, &[n, *c, b], span))
        })
    }

    /// Whether the nodes of a host's site have agreed for so long on which of them there are.
    pub(super) fn is_site_settled(&self, now: Timestamp, n: HostIndex, span: Duration) -> bool {
        let there = || self.hosts_of(self.sites[n]);
        let sees_all = |a: HostIndex| {
            there().filter(|b| *b != a).all(|b| {
                let link = self.links[a][b];
                link.stands != self.absent[b] && now.since(link.since) >= span
            })
        };
        there().all(|a| now.since(self.disturbed[a]) >= span && (self.absent[a] || sees_all(a)))
    }

    pub(super) fn hosts_of(&self, site: SiteIndex) -> impl Iterator<Item = HostIndex> + '_ {
        self.sites.iter().enumerate().filter(move |(_, s)| **s == site).map(|(n, _)| n)
    }
}

/// The host of a node's k-th peer: the nodes in order, without itself.
pub(super) fn peer_at(n: HostIndex, k: usize) -> HostIndex {
    if k < n { k } else { k + 1 }
}

/// The time of the world at which a node's clock showed `local`, if both ran alike since.
pub(super) fn in_world(now: Timestamp, host: &Host, local: Timestamp) -> Timestamp {
    host.local(now).map_or(now, |current| now.before(current.since(local)))
}
