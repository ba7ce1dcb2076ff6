//! What a node task that failed has left behind, taken over by the one after it (faults I-57).
//!
//! DNS has gone on answering from it, so a new task that began from nothing would take answers back: services that are down
//! would count as not checked yet, and RTTs would be unknown until peers have told them again.

use super::Node;
use gslb_types::{Ldns, Timestamp};
use probes_core::prober::{Origin, Sighting};
use std::sync::Arc;

impl Node {
    /// Takes over health, confirmations and rows. Does nothing for the first task of a process.
    pub(super) fn resume(&mut self, now: Timestamp) {
        let published = self.shared.published.load_full();
        // What was judged of another configuration has other places in it.
        if Arc::ptr_eq(&published.config, &self.config) {
            self.health.resume(now, &published.services, &published.sites, &published.last_good);
            self.resume_local(now, &published.local);
            self.metrics_changed(now);
            self.standing.resume(&published);
            self.sites.resume(published.sites.iter().map(|view| view.confirmed));
        }
        for ldns in self.shared.rtts.keys() {
            if !self.adopts(now, ldns) {
                self.shared.rtts.remove(ldns);
            }
        }
        self.resume_sessions(now);
        // The column must have its entries.
        self.settle(now);
        // Until the neighbours are heard again all LDNS are this node's; what they told ages from their last words on.
        let told = published.sites.get(self.config.this_site().get()).and_then(|view| view.confirmed);
        self.own.shared_out(told, |ldns| self.neighbours.is_ours(ldns), &self.shared.rtts);
    }

    /// Gives a row an entry of the prober, without which nothing would measure it or take it away. A row says which prefix
    /// asked and not which address of it, so one that stands for several has to wait for the next query.
    fn adopts(&mut self, now: Timestamp, ldns: Ldns) -> bool {
        let (address, masks) = (ldns.address(), self.config.ldns.masks);
        let is_exact = if address.is_ipv4() { masks.v4 == 32 } else { masks.v6 == 128 };
        let Some(row) = self.shared.rtts.row(ldns).filter(|_| is_exact) else { return false };
        let age = now.since(row.last_seen());
        match self.prober.handle_sighting(now, address, age, Origin::Peer) {
            Sighting::Admitted | Sighting::Refreshed => {
                self.own.adopted(now, ldns, &self.shared.rtts);
                true
            }
            Sighting::NeverProbed | Sighting::TooOld | Sighting::TurnedAway => false,
        }
    }
}
