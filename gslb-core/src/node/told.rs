//! What the exchange may read while it writes frames.

use super::neighbours::Neighbours;
use super::own_column::OwnColumn;
use super::sites::Sites;
use super::standing::Standing;
use crate::cell::{Cell, Confirmed};
use crate::persistence::Persistence;
use crate::published::Shared;
use config::Config;
use gslb_types::{Ldns, Reach, SiteIndex, SiteName, Timestamp};
use mep_core::{KnownLdns, KnownSession, SessionKey, Values};
use probes_core::Prober;
use std::time::Duration;

pub(super) struct Told<'a> {
    pub(super) config: &'a Config,
    pub(super) own: &'a OwnColumn,
    pub(super) prober: &'a Prober,
    pub(super) shared: &'a Shared,
    pub(super) sites: &'a Sites,
    pub(super) neighbours: &'a Neighbours,
    pub(super) persistence: &'a Persistence,
    pub(super) standing: &'a Standing,
    pub(super) now: Timestamp,
}

impl Told<'_> {
    fn entry(&self, ldns: Ldns, site: SiteIndex, confirmed: Option<Confirmed>) -> Option<(KnownLdns, Cell)> {
        let (address, seen) = self.prober.asker(self.now, ldns)?;
        let cell = self.shared.rtts.cell(ldns, site)?;
        let age = self.now.since(cell.last_true(confirmed));
        Some((KnownLdns { ldns, address, seen, reach: cell.reach(), kind: cell.kind(), age }, cell))
    }

    fn site(&self, name: &SiteName) -> Option<SiteIndex> {
        self.config.sites.iter().position(|site| site.name == *name).and_then(SiteIndex::new)
    }

    /// What another site told. A value that is too old to count is not passed on, and does not take back what others have.
    fn told(&self, site: SiteIndex, ldns: Ldns) -> Option<KnownLdns> {
        self.looked_up(site, ldns).filter(|(_, counts)| *counts).map(|(known, _)| known)
    }

    /// What another site told, and whether it still counts.
    fn looked_up(&self, site: SiteIndex, ldns: Ldns) -> Option<(KnownLdns, bool)> {
        let confirmed = self.sites.confirmed(site);
        let (known, cell) = self.entry(ldns, site, confirmed)?;
        let counts = cell.current(self.now, self.config.mep.max_age, confirmed) == cell.reach();
        Some((known, counts))
    }
}

impl Values for Told<'_> {
    fn known(&self, ldns: Ldns) -> Option<KnownLdns> {
        let (known, _) = self.entry(ldns, self.config.this_site(), self.neighbours.confirmed())?;
        Some(known)
    }

    fn known_after(&self, after: Option<Ldns>, limit: usize) -> Vec<KnownLdns> {
        self.own.entries_after(after).take(limit).filter_map(|ldns| self.known(ldns)).collect()
    }

    fn column(&self, site: &SiteName, ldns: Ldns) -> Option<KnownLdns> {
        self.told(self.site(site)?, ldns)
    }

    fn columns(&self, site: &SiteName, ldns: &[Ldns]) -> Vec<KnownLdns> {
        let Some(site) = self.site(site) else { return Vec::new() };
        ldns.iter().filter_map(|ldns| self.told(site, *ldns)).collect()
    }

    fn column_after(&self, site: &SiteName, after: Option<Ldns>, limit: usize) -> Vec<KnownLdns> {
        let Some(site) = self.site(site) else { return Vec::new() };
        let entries = self.own.entries_after(after).take(limit);
        let looked_up = entries.filter_map(|ldns| self.looked_up(site, ldns));
        // Nothing is told of a value that is too old, yet a walk must not end because many of them follow one another.
        let pending = |known: KnownLdns| KnownLdns { reach: Reach::Pending, ..known };
        looked_up.map(|(known, counts)| if counts { known } else { pending(known) }).collect()
    }

    fn column_age(&self, site: &SiteName) -> Option<Duration> {
        let confirmed = self.sites.confirmed(self.site(site)?)?;
        Some(self.now.since(confirmed.last_word))
    }

    fn session(&self, key: &SessionKey) -> Option<KnownSession> {
        match Standing::is_decision(key) {
            true => self.standing.known(self.now, key),
            false => self.persistence.get(self.now, key),
        }
    }

    fn sessions_after(&self, after: Option<&SessionKey>, limit: usize) -> Vec<KnownSession> {
        let mut sessions = self.persistence.after(self.now, after, limit);
        // Their keys come after those of all clients.
        sessions.extend(self.standing.known_after(self.now, after, limit.saturating_sub(sessions.len())));
        sessions
    }
}
