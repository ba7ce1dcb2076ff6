//! What nodes tell each other, against what they advertise.
//!
//! How often a row may be told to a peer over one connection is counted: once with the snapshot, once for each change of
//! what the site advertises, and twice for each time that somebody asked for it (the asker is answered, and the others, who
//! may have missed it too, are told along).

use super::Invariant;
use super::table::Mirror;
use crate::world::HostIndex;
use bytes::Bytes;
use gslb_types::{Ldns, Reach, Rtt, SiteIndex};
use mep_core::proto::{self, frame::Body};
use prost::Message as _;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The record.
pub(super) struct Told {
    hosts: Vec<Teller>,
    /// By connection and teller.
    sessions: BTreeMap<(u64, HostIndex), Session>,
}

#[derive(Default)]
struct Teller {
    frames: u64,
    rows: u64,
    changes: u64,
    /// Everything its site ever advertised: in microseconds, or one of the two marks.
    advertised: BTreeMap<Ldns, BTreeSet<u32>>,
    /// How often what it advertises changed, and how often somebody asked for it.
    occasions: BTreeMap<Ldns, u64>,
}

/// What one end of a connection has told the other.
struct Session {
    /// The occasions there had been before.
    before: BTreeMap<Ldns, u64>,
    told: BTreeMap<Ldns, u64>,
    snapshots: u64,
}

const PENDING: u32 = 0;
const UNREACHABLE: u32 = u32::MAX;

fn mark(reach: Reach) -> u32 {
    match reach {
        Reach::Pending => PENDING,
        Reach::Known(rtt) => rtt.as_micros(),
        Reach::Unreachable => UNREACHABLE,
    }
}

impl Told {
    pub(super) fn new(hosts: usize) -> Self {
        Told { hosts: (0..hosts).map(|_| Teller::default()).collect(), sessions: BTreeMap::new() }
    }

    pub(super) fn rows(&self, n: HostIndex) -> u64 {
        self.hosts[n].rows
    }

    pub(super) fn frames(&self, n: HostIndex) -> u64 {
        self.hosts[n].frames
    }

    pub(super) fn changes(&self, n: HostIndex) -> u64 {
        self.hosts[n].changes
    }

    /// A site advertises another value.
    pub(super) fn changed(&mut self, n: HostIndex, ldns: Ldns, reach: Reach) {
        let teller = &mut self.hosts[n];
        teller.changes += 1;
        teller.advertised.entry(ldns).or_default().insert(mark(reach));
        *teller.occasions.entry(ldns).or_default() += 1;
    }

    pub(super) fn was_advertised(&self, site: usize, ldns: Ldns, reach: Reach) -> bool {
        reach == Reach::Pending
            || self
                .hosts
                .get(site)
                .and_then(|t| t.advertised.get(&ldns))
                .is_some_and(|all| all.contains(&mark(reach)))
    }

    /// A node heard a frame: whoever it asks for may be told again.
    pub(super) fn heard(&mut self, n: HostIndex, _from: HostIndex, frame: &Bytes) {
        let asked = match body(frame) {
            Some(Body::Sightings(s)) => {
                s.groups.into_iter().filter(|g| g.fresh).flat_map(|g| addresses(&g.v4, &g.v6)).collect()
            }
            Some(Body::Wanted(w)) => addresses(&w.v4, &w.v6),
            _ => return,
        };
        for address in asked {
            *self.hosts[n].occasions.entry(Ldns::exact(address)).or_default() += 2;
        }
    }

    /// A node sends a frame that nobody reads.
    pub(super) fn passed(&mut self, from: HostIndex) {
        self.hosts[from].frames += 1;
    }

    /// A node sends a frame.
    pub(super) fn sent(
        &mut self,
        from: HostIndex,
        to: HostIndex,
        wire: u64,
        frame: &Bytes,
        own: &Mirror,
    ) -> Result<(), (Invariant, String)> {
        let teller = &mut self.hosts[from];
        teller.frames += 1;
        let session = self.sessions.entry((wire, from)).or_insert_with(|| Session {
            before: teller.occasions.clone(),
            told: BTreeMap::new(),
            snapshots: 0,
        });
        match body(frame) {
            Some(Body::SnapshotBegin(_)) => session.snapshots += 1,
            Some(Body::Rtts(rows)) => {
                for (ldns, reach) in rows.groups.iter().flat_map(rows_of) {
                    teller.rows += 1;
                    let times = session.told.entry(ldns).or_default();
                    *times += 1;
                    if SiteIndex::new(from).is_none_or(|site| !own.advertises(ldns, site, reach)) {
                        let what = format!(
                            "host {from} told {reach:?} of {ldns} to {to}, which it does not advertise"
                        );
                        return Err((Invariant::Tolerance, what));
                    }
                    let occasions = teller.occasions.get(&ldns).copied().unwrap_or(0);
                    let since = occasions - session.before.get(&ldns).copied().unwrap_or(0);
                    if *times > session.snapshots + since {
                        let what =
                            format!("host {from} told {ldns} {times} times to {to}, which is once too often");
                        return Err((Invariant::Tolerance, what));
                    }
                }
            }
            Some(_) | None => {}
        }
        Ok(())
    }
}

fn body(frame: &Bytes) -> Option<Body> {
    proto::Frame::decode(frame.clone()).ok()?.body
}

/// The rows of a frame.
pub(super) fn rows(frame: &Bytes) -> Vec<(Ldns, Reach)> {
    match body(frame) {
        Some(Body::Rtts(rows)) => rows.groups.iter().flat_map(rows_of).collect(),
        Some(_) | None => Vec::new(),
    }
}

/// The addresses that a frame says have asked.
pub(super) fn sightings(frame: &Bytes) -> Vec<IpAddr> {
    match body(frame) {
        Some(Body::Sightings(s)) => s.groups.iter().flat_map(|g| addresses(&g.v4, &g.v6)).collect(),
        Some(_) | None => Vec::new(),
    }
}

fn addresses(v4: &[u32], v6: &[u8]) -> Vec<IpAddr> {
    let v4 = v4.iter().map(|bits| IpAddr::from(Ipv4Addr::from_bits(*bits)));
    let v6 = v6
        .chunks_exact(16)
        .filter_map(|octets| <[u8; 16]>::try_from(octets).ok())
        .map(|o| Ipv6Addr::from(o).into());
    v4.chain(v6).collect()
}

fn rows_of(group: &proto::RttGroup) -> Vec<(Ldns, Reach)> {
    let known = |micros: &[u32]| -> Vec<Reach> {
        let sums = micros.iter().scan(0, |sum, micros| {
            *sum += micros;
            Some(*sum)
        });
        sums.map(|micros| Reach::Known(Rtt::from_micros(micros))).collect()
    };
    let addresses = addresses(&group.v4, &group.v6);
    let reaches = match group.reach() {
        proto::Reach::Known => [known(&group.v4_rtt_us), known(&group.v6_rtt_us)].concat(),
        proto::Reach::Unreachable => vec![Reach::Unreachable; addresses.len()],
        proto::Reach::Withdrawn => vec![Reach::Pending; addresses.len()],
        proto::Reach::Unspecified => Vec::new(),
    };
    addresses.into_iter().map(Ldns::exact).zip(reaches).collect()
}
