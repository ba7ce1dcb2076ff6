//! What nodes tell each other, against what they advertise.
//!
//! How often a row may be told to a peer over one connection is counted: once with the snapshot, once for each change of
//! what the site advertises, and twice for each time that somebody asked for it (the asker is answered, and the others, who
//! may have missed it too, are told along). A withdrawal may be told once more when a session begins.

use super::Invariant;
use super::table::Mirror;
use crate::world::HostIndex;
use bytes::Bytes;
use gslb_types::{Ldns, Reach, Rtt, SiteIndex, Timestamp};
use mep_core::proto::{self, frame::Body, relayed::What};
use prost::Message as _;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The record.
pub(super) struct Told {
    hosts: Vec<Teller>,
    /// By connection and teller.
    sessions: BTreeMap<(u64, HostIndex), Session>,
}

struct Teller {
    site: SiteIndex,
    frames: u64,
    bytes: u64,
    rows: u64,
    changes: u64,
    changed_at: BTreeMap<Ldns, Timestamp>,
    /// Everything it ever advertised for its site.
    advertised: BTreeMap<Ldns, BTreeMap<Mark, Span>>,
    /// How often what it advertises changed, and how often somebody asked for it.
    occasions: BTreeMap<Ldns, u64>,
}

/// What one end of a connection has told the other.
struct Session {
    /// The occasions there had been before.
    before: BTreeMap<Ldns, u64>,
    told: BTreeMap<Ldns, u64>,
    /// Withdrawals told before the first snapshot began.
    repeated: BTreeSet<Ldns>,
    snapshots: u64,
}

/// When something was advertised last.
#[derive(Clone, Copy)]
struct Span {
    /// Nothing if it still is.
    until: Option<Timestamp>,
}

/// A value as it is kept here: in microseconds, or one of the two marks below.
type Mark = u32;

const PENDING: Mark = 0;
const UNREACHABLE: Mark = u32::MAX;

/// How long a withdrawal told by a process that is gone may be on its way: as long as a connection outlives a cut, twice.
const UNDER_WAY: Duration = Duration::from_secs(60);

fn mark(reach: Reach) -> Mark {
    match reach {
        Reach::Pending => PENDING,
        Reach::Known(rtt) => rtt.as_micros(),
        Reach::Unreachable => UNREACHABLE,
    }
}

impl Told {
    pub(super) fn new(sites: &[SiteIndex]) -> Self {
        let teller = |site: &SiteIndex| Teller {
            site: *site,
            frames: 0,
            bytes: 0,
            rows: 0,
            changes: 0,
            changed_at: BTreeMap::new(),
            advertised: BTreeMap::new(),
            occasions: BTreeMap::new(),
        };
        Told { hosts: sites.iter().map(teller).collect(), sessions: BTreeMap::new() }
    }

    pub(super) fn rows(&self, n: HostIndex) -> u64 {
        self.hosts[n].rows
    }

    pub(super) fn frames(&self, n: HostIndex) -> u64 {
        self.hosts[n].frames
    }

    pub(super) fn bytes(&self, n: HostIndex) -> u64 {
        self.hosts[n].bytes
    }

    pub(super) fn changes(&self, n: HostIndex) -> u64 {
        self.hosts[n].changes
    }

    pub(super) fn site(&self, n: HostIndex) -> SiteIndex {
        self.hosts[n].site
    }

    /// A node advertises another value for its site.
    pub(super) fn changed(&mut self, now: Timestamp, n: HostIndex, ldns: Ldns, reach: Reach) {
        let teller = &mut self.hosts[n];
        teller.changes += 1;
        teller.changed_at.insert(ldns, now);
        teller.forgot(now, ldns);
        teller.advertised.entry(ldns).or_default().insert(mark(reach), Span { until: None });
        *teller.occasions.entry(ldns).or_default() += 1;
    }

    /// Whether a node has changed what it advertises since then.
    pub(super) fn changed_since(&self, n: HostIndex, ldns: Ldns, then: Timestamp) -> bool {
        self.hosts[n].changed_at.get(&ldns).is_some_and(|at| *at >= then)
    }

    /// A node's entry is gone: everywhere, as nobody asked any more, or it has been pushed out here, and what it said is withdrawn.
    pub(super) fn forgot(&mut self, now: Timestamp, n: HostIndex, ldns: Ldns, is_pushed_out: bool) {
        if is_pushed_out {
            self.hosts[n].forgot(now, ldns);
        }
        *self.hosts[n].occasions.entry(ldns).or_default() += 1;
        if let Some(marks) = self.hosts[n].advertised.get_mut(&ldns) {
            marks.insert(PENDING, Span { until: Some(now) });
            *self.hosts[n].occasions.entry(ldns).or_default() += 1;
        }
    }

    /// A node's process is gone, and with it all that it advertised.
    pub(super) fn died(&mut self, now: Timestamp, n: HostIndex) {
        let spans = self.hosts[n].advertised.values_mut().flat_map(|marks| marks.values_mut());
        spans.for_each(|span| span.until = span.until.or(Some(now)));
    }

    /// Whether a node of the site advertised that. Nothing was, unless it was withdrawn just now: a process that knows nothing
    /// must not take back what an earlier one said (behaviour 4).
    pub(super) fn was_advertised(&self, now: Timestamp, site: SiteIndex, ldns: Ldns, reach: Reach) -> bool {
        self.untils(site, ldns, reach).any(|until| match (reach, until) {
            (Reach::Pending, Some(until)) => now.since(until) < UNDER_WAY,
            (Reach::Pending | Reach::Known(_) | Reach::Unreachable, _) => true,
        })
    }

    /// When a node of the site advertised that last; nothing if none ever did.
    pub(super) fn last_true(
        &self,
        now: Timestamp,
        site: SiteIndex,
        ldns: Ldns,
        reach: Reach,
    ) -> Option<Timestamp> {
        self.untils(site, ldns, reach).map(|until| until.unwrap_or(now)).max()
    }

    fn untils(&self, site: SiteIndex, ldns: Ldns, reach: Reach) -> impl Iterator<Item = Option<Timestamp>> {
        let tellers = self.hosts.iter().filter(move |teller| teller.site == site);
        let spans = tellers.filter_map(move |teller| teller.advertised.get(&ldns)?.get(&mark(reach)));
        spans.map(|span| span.until)
    }

    /// A node heard a frame: whoever it asks for may be told again.
    pub(super) fn heard(&mut self, n: HostIndex, body: Option<&Body>) {
        let asked: Vec<IpAddr> = match body {
            Some(Body::Sightings(s)) => {
                s.groups.iter().filter(|g| g.fresh).flat_map(|g| addresses(&g.v4, &g.v6)).collect()
            }
            Some(Body::Wanted(w)) => addresses(&w.v4, &w.v6),
            _ => return,
        };
        for address in asked {
            *self.hosts[n].occasions.entry(Ldns::exact(address)).or_default() += 2;
        }
    }

    /// A node sends a frame that nobody reads.
    pub(super) fn passed(&mut self, from: HostIndex, frame: &Bytes) {
        self.hosts[from].frames += 1;
        self.hosts[from].bytes += frame.len() as u64;
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
        self.passed(from, frame);
        let teller = &mut self.hosts[from];
        let session = self.sessions.entry((wire, from)).or_insert_with(|| Session {
            before: teller.occasions.clone(),
            told: BTreeMap::new(),
            repeated: BTreeSet::new(),
            snapshots: 0,
        });
        match news(frame) {
            Some(Body::SnapshotBegin(_)) => session.snapshots += 1,
            Some(Body::Rtts(rows)) => {
                for (ldns, reach) in rows.groups.iter().flat_map(rows_of) {
                    teller.rows += 1;
                    let was_forgotten =
                        reach == Reach::Pending && !own.has(ldns) && teller.advertised.contains_key(&ldns);
                    if !was_forgotten && !own.shows(ldns, teller.site, reach) {
                        let what = format!(
                            "host {from} told {reach:?} of {ldns} to {to}, which it does not advertise"
                        );
                        return Err((Invariant::Tolerance, what));
                    }
                    // The connection before may have been lost with the withdrawal on it, and no snapshot tells one.
                    if reach == Reach::Pending && session.snapshots == 0 && session.repeated.insert(ldns) {
                        continue;
                    }
                    let times = session.told.entry(ldns).or_default();
                    *times += 1;
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

impl Teller {
    fn forgot(&mut self, now: Timestamp, ldns: Ldns) {
        for span in self.advertised.get_mut(&ldns).into_iter().flat_map(|marks| marks.values_mut()) {
            span.until = span.until.or(Some(now));
        }
    }
}

/// What a frame says.
pub(crate) fn body(frame: &Bytes) -> Option<Body> {
    proto::Frame::decode(frame.clone()).ok()?.body
}

/// What a frame says, if it speaks of LDNS or of RTTs. Most only say that all is as it was, and need not be read.
pub(super) fn news(frame: &Bytes) -> Option<Body> {
    let (snapshot_begin, rtts, sightings, wanted, relayed) = (9, 11, 12, 13, 19);
    let mut rest = frame.clone();
    while !rest.is_empty() {
        let (tag, wire_type) = decode_key(&mut rest).ok()?;
        if [snapshot_begin, rtts, sightings, wanted, relayed].contains(&tag) {
            return body(frame);
        }
        skip_field(wire_type, tag, &mut rest, DecodeContext::default()).ok()?;
    }
    None
}

/// Rows, and the site they are relayed of.
pub(super) struct Rows {
    pub(super) relayed: Option<String>,
    pub(super) rows: Vec<(Ldns, Reach)>,
}

/// The rows of a frame.
pub(super) fn rows(body: Option<&Body>) -> Rows {
    match body {
        Some(Body::Rtts(rows)) => {
            Rows { relayed: None, rows: rows.groups.iter().flat_map(rows_of).collect() }
        }
        Some(Body::Relayed(proto::Relayed { site, what: Some(What::Rtts(rows)), .. })) => {
            Rows { relayed: Some(site.clone()), rows: rows.groups.iter().flat_map(rows_of).collect() }
        }
        Some(_) | None => Rows { relayed: None, rows: Vec::new() },
    }
}

/// The addresses that a frame says have asked.
pub(super) fn sightings(body: Option<&Body>) -> Vec<IpAddr> {
    match body {
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
