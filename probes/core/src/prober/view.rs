//! What people and peers may see of the prober.

use super::entry::{Entry, Phase, Seen};
use super::{Prober, ProberStats};
use gslb_types::{Ldns, ProbeKind, Timestamp};
use std::net::IpAddr;
use std::time::Duration;

/// How far the measurement of an LDNS has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LdnsState {
    /// No sample so far.
    Pending,
    /// The last sample holds.
    Known,
    /// The last rounds failed.
    Unreachable,
}

/// One LDNS, as the admin API shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryView {
    /// How far it has come.
    pub state: LdnsState,
    /// The kind of probe that worked last, and is used first.
    pub kind: Option<ProbeKind>,
    /// The address that is probed: the most recent asker.
    pub address: IpAddr,
    /// When it last asked anybody in the group; the start of the node if that was before.
    pub last_seen: Timestamp,
    /// When it was last measured.
    pub last_sample: Option<Timestamp>,
    /// Failed rounds since then.
    pub failed_rounds: u32,
    /// When the next round is due; `None` while one runs, and while another node of the site probes it.
    pub next_round: Option<Timestamp>,
    /// Whether newcomers leave its entry alone.
    pub is_proven: bool,
    /// Whether this node probes it, of those that share out the site's LDNS.
    pub ours: bool,
}

impl Prober {
    /// What is known of an LDNS.
    pub fn entry(&self, ldns: Ldns) -> Option<EntryView> {
        let entry = self.table.get(self.table.find(ldns)?)?;
        Some(EntryView {
            state: self.state(entry),
            kind: entry.sticky,
            address: entry.address,
            last_seen: entry.seen.plus(Duration::ZERO),
            last_sample: entry.last_sample(),
            failed_rounds: entry.failed_rounds,
            next_round: match entry.phase {
                Phase::Due(at) | Phase::PutOff { until: at, .. } if entry.tried.is_empty() => Some(at),
                Phase::Due(_) | Phase::PutOff { .. } | Phase::Resting | Phase::Probing(_) => None,
            },
            is_proven: entry.is_proven(&self.settings),
            ours: entry.ours,
        })
    }

    /// The most recent asker of an entry, and how long ago it asked; a query from before this node's start keeps its age, for
    /// peers to whom it is told.
    pub fn asker(&self, now: Timestamp, ldns: Ldns) -> Option<(IpAddr, Duration)> {
        let entry = self.table.get(self.table.find(ldns)?)?;
        Some((entry.address, Seen::before(now, Duration::ZERO).since(entry.seen)))
    }

    /// All entries with the address that is probed and the age of its last query, for a peer that connects. Walks the
    /// whole table.
    pub fn sightings(&self, now: Timestamp) -> impl Iterator<Item = (Ldns, IpAddr, Duration)> + '_ {
        let now = Seen::before(now, Duration::ZERO);
        self.table.iter().map(move |e| (self.table.ldns_of(e), e.address, now.since(e.seen)))
    }

    /// What was counted.
    pub fn stats(&self) -> ProberStats {
        ProberStats {
            ldns: self.table.len(),
            proven: self.table.proven(),
            ours: self.table.len() - self.resting,
            icmp_permitted: self.permission.is_granted(),
            ..self.stats
        }
    }

    fn state(&self, entry: &Entry) -> LdnsState {
        match entry.is_measured() {
            _ if entry.failed_rounds >= self.settings.fatal_rounds() => LdnsState::Unreachable,
            true => LdnsState::Known,
            false => LdnsState::Pending,
        }
    }
}
