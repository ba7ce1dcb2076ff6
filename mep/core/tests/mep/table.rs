//! What a node of the net knows, and how its exchange reads it.

use gslb_types::{Ldns, ProbeKind, Reach, ServiceName, SiteName, Timestamp};
use mep_core::{KnownLdns, KnownSession, SessionKey, Values};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What one node knows, in its own time.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) entries: BTreeMap<Ldns, Entry>,
    /// What other sites say, and when that was true as far as the node was told with it.
    pub(crate) columns: BTreeMap<(SiteName, Ldns), (Reach, Timestamp)>,
    pub(crate) sessions: BTreeMap<SessionKey, (ServiceName, Timestamp)>,
}

pub(crate) struct Entry {
    pub(crate) address: IpAddr,
    pub(crate) seen: Timestamp,
    pub(crate) reach: Reach,
    pub(crate) confirmed: Timestamp,
}

/// The table, the time, and when each site was last heard directly.
pub(crate) struct View<'a>(
    pub(crate) &'a Table,
    pub(crate) Timestamp,
    pub(crate) BTreeMap<SiteName, Timestamp>,
);

impl View<'_> {
    fn of(&self, ldns: Ldns, entry: &Entry) -> KnownLdns {
        KnownLdns {
            ldns,
            address: entry.address,
            seen: self.1.since(entry.seen),
            reach: entry.reach,
            kind: Some(ProbeKind::Ping),
            age: self.1.since(entry.confirmed),
        }
    }
}

impl Values for View<'_> {
    fn known(&self, ldns: Ldns) -> Option<KnownLdns> {
        self.0.entries.get(&ldns).map(|entry| self.of(ldns, entry))
    }

    fn known_after(&self, after: Option<Ldns>, limit: usize) -> Vec<KnownLdns> {
        use std::ops::Bound::{Excluded, Unbounded};
        let start = after.map_or(Unbounded, Excluded);
        self.0.entries.range((start, Unbounded)).take(limit).map(|(l, e)| self.of(*l, e)).collect()
    }

    fn column(&self, site: &SiteName, ldns: Ldns) -> Option<KnownLdns> {
        let known = self.known(ldns)?;
        let (reach, told) = *self.0.columns.get(&(site.clone(), ldns)).unwrap_or(&(Reach::Pending, self.1));
        let last_true = self.2.get(site).map_or(told, |heard| told.max(*heard));
        Some(KnownLdns { reach, age: self.1.since(last_true), ..known })
    }

    fn column_after(&self, site: &SiteName, after: Option<Ldns>, limit: usize) -> Vec<KnownLdns> {
        let entries = self.known_after(after, limit).into_iter();
        entries.filter_map(|known| self.column(site, known.ldns)).collect()
    }

    fn session(&self, key: &SessionKey) -> Option<KnownSession> {
        let (service, used) = self.0.sessions.get(key)?;
        Some(KnownSession { key: *key, service: service.clone(), idle: self.1.since(*used) })
    }

    fn sessions_after(&self, after: Option<&SessionKey>, limit: usize) -> Vec<KnownSession> {
        use std::ops::Bound::{Excluded, Unbounded};
        let start = after.map_or(Unbounded, Excluded);
        let keys = self.0.sessions.range((start, Unbounded)).take(limit).map(|(key, _)| key);
        keys.filter_map(|key| self.session(key)).collect()
    }
}

impl Table {
    /// What the node itself says of an LDNS it has an entry of.
    pub(crate) fn reach(&self, ldns: Ldns) -> Option<Reach> {
        self.entries.get(&ldns).map(|entry| entry.reach)
    }

    pub(crate) fn sight(&mut self, address: IpAddr, seen: Timestamp) -> bool {
        let mut new = false;
        let entry = self.entries.entry(Ldns::exact(address)).or_insert_with(|| {
            new = true;
            Entry { address, seen, reach: Reach::Pending, confirmed: seen }
        });
        entry.seen = entry.seen.max(seen);
        new
    }
}
