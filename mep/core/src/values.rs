//! What nodes tell one another, in the node's own types, and how this node's part of it is read.

use gslb_types::{Ldns, LdnsMasks, ProbeKind, Reach, Rtt, ServiceName, ServiceState, SiteName};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;

/// What this node can tell, read at the moment of sending: nothing is copied into queues, and a slow peer gets the newest
/// values.
pub trait Values {
    /// The entry of an LDNS; `None` if there is none (any more).
    fn known(&self, ldns: Ldns) -> Option<KnownLdns>;

    /// The entries after `after` in address order, at most `limit`. Called once for each chunk of a snapshot, so it should
    /// cost about `limit` steps and not a walk over the table.
    fn known_after(&self, after: Option<Ldns>, limit: usize) -> Vec<KnownLdns>;

    /// What another site's column of the table says of an LDNS, to be relayed to who does not hear that site. `reach`, `kind`
    /// and `age` are the site's, and the age is since the value was last true: short as long as the site's words confirm it.
    fn column(&self, site: &SiteName, ldns: Ldns) -> Option<KnownLdns> {
        let _ = (site, ldns);
        None
    }

    /// As [`Values::column`] of many LDNS, in their order; those without an entry are left out. The site need be looked up only
    /// once.
    fn columns(&self, site: &SiteName, ldns: &[Ldns]) -> Vec<KnownLdns> {
        ldns.iter().filter_map(|ldns| self.column(site, *ldns)).collect()
    }

    /// As [`Values::known_after`], of another site's column.
    fn column_after(&self, site: &SiteName, after: Option<Ldns>, limit: usize) -> Vec<KnownLdns> {
        let _ = (site, after, limit);
        Vec::new()
    }

    /// How long ago whoever tells that column was heard: what confirms those of its values that have not changed. `None` if the
    /// owner makes no difference between the nodes of a site.
    fn column_age(&self, site: &SiteName) -> Option<Duration> {
        let _ = site;
        None
    }

    /// A persistence session; `None` if there is none (any more).
    fn session(&self, key: &SessionKey) -> Option<KnownSession> {
        let _ = key;
        None
    }

    /// The persistence sessions after `after` in the order of their keys, at most `limit`, as [`Values::known_after`].
    fn sessions_after(&self, after: Option<&SessionKey>, limit: usize) -> Vec<KnownSession> {
        let _ = (after, limit);
        Vec::new()
    }
}

/// What a persistence session is found by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct SessionKey {
    /// The persistence id: virtual servers with the same one share their sessions, at all sites.
    pub persistence: u32,
    /// The first address of the clients' network.
    pub client: IpAddr,
    /// How long the network's prefix is.
    pub prefix: u8,
}

impl SessionKey {
    /// The key of the network of this prefix that a client's address is in.
    pub fn new(persistence: u32, client: IpAddr, prefix: u8) -> Self {
        let masks = LdnsMasks { v4: prefix, v6: prefix };
        SessionKey { persistence, client: Ldns::of(client, masks).address(), prefix }
    }

    /// Whether peers take it: its prefix is one of its family, and its first address somebody's. What strangers write into
    /// their queries must be asked for this before it is told.
    pub fn is_somebodys(&self) -> bool {
        let longest = if self.client.is_ipv4() { 32 } else { 128 };
        (1..=longest).contains(&self.prefix) && crate::wire::asker(self.client).is_some()
    }
}

/// A persistence session: clients of this network go on to this service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownSession {
    /// Whose it is.
    pub key: SessionKey,
    /// Where they go.
    pub service: ServiceName,
    /// How long ago it was last used; at most a second too much when it was told.
    pub idle: Duration,
}

/// An LDNS as this node knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownLdns {
    /// The entry's key.
    pub ldns: Ldns,
    /// The most recent asker among the addresses of the entry.
    pub address: IpAddr,
    /// How long ago it last asked anybody in the group.
    pub seen: Duration,
    /// What this site advertises; [`Reach::Pending`] if nothing.
    pub reach: Reach,
    /// What measured it.
    pub kind: Option<ProbeKind>,
    /// How long ago that was last true.
    pub age: Duration,
}

/// What a peer says of its site's way to an LDNS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RttRow {
    /// The entry's key.
    pub ldns: Ldns,
    /// The value. [`Reach::Pending`] withdraws the one told before.
    pub reach: Reach,
    /// What measured it.
    pub kind: Option<ProbeKind>,
    /// How long ago it was last true; at most a second too much.
    pub age: Duration,
}

/// An LDNS that asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Sighting {
    /// The address it asked from.
    pub address: IpAddr,
    /// How long ago; at most a second too much.
    pub age: Duration,
    /// Whether it was new to the teller.
    pub fresh: bool,
}

/// A service as its own site sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceMetric {
    /// Its name in the group's configuration.
    pub name: ServiceName,
    /// Its health.
    pub state: ServiceState,
    /// Mean response time of its monitors; `None` until measured.
    pub response_time: Option<Rtt>,
    /// Active transactions, if its traffic is seen.
    pub active: Option<u64>,
    /// Open connections, if its traffic is seen.
    pub connections: Option<u64>,
    /// Bytes both ways in the bandwidth window, if its traffic is seen.
    pub bytes: Option<u64>,
    /// Packets both ways in the bandwidth window, if its traffic is seen.
    pub packets: Option<u64>,
    /// Requests since the teller started, if its traffic is seen.
    pub requests: Option<u64>,
    /// Time to the first byte of its responses, if they are seen and understood.
    pub ttfb: Option<Rtt>,
    /// Its load by the operator's own reckoning, in thousandths, if it is told.
    pub load: Option<u64>,
}

impl ServiceMetric {
    /// A service of which only the health is known.
    pub fn new(name: ServiceName, state: ServiceState) -> Self {
        ServiceMetric {
            name,
            state,
            response_time: None,
            active: None,
            connections: None,
            bytes: None,
            packets: None,
            requests: None,
            ttfb: None,
            load: None,
        }
    }
}
