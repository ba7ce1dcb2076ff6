//! What the records of a zone must be to each other, and what a GSLB domain must be to them.

use super::{Found, size};
use crate::model::{Zone, ZoneRecord};
use crate::text::Spot;
use hickory_proto::rr::{Name, RecordType};
use hickory_proto::serialize::binary::BinDecodable;
use std::collections::BTreeMap;

const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const KEY: u16 = 25;
const AAAA: u16 = 28;
const DNAME: u16 = 39;
const RRSIG: u16 = 46;
const NSEC: u16 = 47;

/// A zone, with the places of its records for what is checked later.
pub(crate) struct LoadedZone {
    pub(crate) zone: Zone,
    /// By owner in lower case and type.
    sets: Sets,
}

type Sets = BTreeMap<Name, BTreeMap<u16, Vec<Found>>>;
type Complain<'a> = &'a dyn Fn(&Spot, String);

impl LoadedZone {
    /// Puts the records together, and complains of those that can't stand together. `whole` says whether records are
    /// missing that could not be read: then none is missed.
    pub(super) fn checked(
        origin: Name,
        found: Vec<Found>,
        whole: bool,
        start: &Spot,
        complain: Complain<'_>,
    ) -> Self {
        let mut sets = Sets::new();
        for record in found {
            if !origin.zone_of(&record.owner) {
                complain(&record.spot, format!("'{}' lies outside the zone '{origin}'", record.owner));
                continue;
            }
            let sets = sets.entry(record.owner.to_lowercase()).or_default();
            sets.entry(record.rtype).or_default().push(record);
        }
        for set in sets.values_mut().flat_map(BTreeMap::values_mut) {
            remove_repetitions(set);
        }
        let loaded = LoadedZone { zone: Zone { origin, records: Vec::new() }, sets };
        if whole {
            loaded.apex(start, complain);
            loaded.servers(complain);
        }
        loaded.sizes(complain);
        loaded.singletons(complain);
        loaded.cnames(complain);
        loaded.dnames(complain);
        loaded.with_records()
    }

    /// Moves the data into the records that are served; places stay. An RRset has one TTL (RFC 2181 section 5.2): the
    /// lowest of what its records state, as real zones mix them.
    fn with_records(mut self) -> Self {
        for set in self.sets.values_mut().flat_map(BTreeMap::values_mut) {
            let ttl = set.iter().map(|r| r.ttl).min().unwrap_or(0);
            for record in set {
                let rdata = std::mem::take(&mut record.data.wire);
                let owner = record.owner.clone();
                self.zone.records.push(ZoneRecord { owner, rtype: record.rtype, ttl, rdata });
            }
        }
        self
    }

    fn first(&self, owner: &Name, rtype: u16) -> Option<&Found> {
        self.sets.get(owner)?.get(&rtype)?.first()
    }

    /// Sets of one type, with their owners.
    fn all_of(&self, rtype: u16) -> impl Iterator<Item = (&Name, &[Found])> {
        self.sets.iter().filter_map(move |(owner, sets)| Some((owner, sets.get(&rtype)?.as_slice())))
    }

    /// A zone begins with one SOA and its name servers (RFC 1035 section 5.2).
    fn apex(&self, start: &Spot, complain: Complain<'_>) {
        let origin = &self.zone.origin;
        if self.first(origin, SOA).is_none() {
            complain(start, format!("the zone '{origin}' has no SOA record"));
        }
        if self.first(origin, NS).is_none() {
            complain(start, format!("the zone '{origin}' has no NS record at its apex"));
        }
        for (owner, set) in self.all_of(SOA).filter(|(owner, _)| *owner != origin) {
            for record in set {
                complain(&record.spot, format!("SOA at '{owner}': it belongs at the apex, '{origin}'"));
            }
        }
    }

    /// A name server of the zone that lies in it has an address in it, and is no alias (RFC 2181 section 10.3): else nobody
    /// finds the zone.
    fn servers(&self, complain: Complain<'_>) {
        let apex = self.sets.get(&self.zone.origin).and_then(|sets| sets.get(&NS));
        for record in apex.into_iter().flatten() {
            let Ok(target) = Name::from_bytes(&record.data.wire) else { continue };
            let target = target.to_lowercase();
            if !self.zone.origin.zone_of(&target) || self.cut_above(&target).is_some() {
                continue;
            }
            if let Some(alias) = self.first(&target, CNAME) {
                let place = alias.spot.file_and_line();
                complain(&record.spot, format!("name server '{target}' is an alias, at {place}"));
            } else if !self.has_address(&target) {
                complain(
                    &record.spot,
                    format!("name server '{target}' has no A or AAAA record in this zone"),
                );
            }
        }
    }

    fn has_address(&self, name: &Name) -> bool {
        let at = |name: &Name| self.first(name, A).or(self.first(name, AAAA)).is_some();
        at(name)
            || (!self.sets.contains_key(name)
                && name.clone().into_wildcard() != *name
                && at(&name.clone().into_wildcard()))
    }

    /// An RRset is answered whole or not at all, so one that no message can hold is never answered.
    fn sizes(&self, complain: Complain<'_>) {
        for (owner, sets) in &self.sets {
            for (rtype, set) in sets {
                let (Some(first), least) = (set.first(), size::least_answer(owner, *rtype, set)) else {
                    continue;
                };
                if least > size::MOST {
                    let (count, rtype, most) = (set.len(), RecordType::from(*rtype), size::MOST);
                    complain(
                        &first.spot,
                        format!(
                            "'{owner}' has {count} {rtype} records: an answer of {least} bytes, and a DNS message holds {most}"
                        ),
                    );
                }
            }
        }
    }

    /// Types an owner has one record of at most (RFC 1035, RFC 2181 section 10.1, RFC 6672 section 2.4).
    fn singletons(&self, complain: Complain<'_>) {
        for rtype in [SOA, CNAME, DNAME] {
            for (owner, set) in self.all_of(rtype) {
                if let [first, rest @ ..] = set {
                    let (place, name) = (first.spot.file_and_line(), RecordType::from(rtype));
                    for record in rest {
                        complain(&record.spot, format!("'{owner}' has one {name} already, at {place}"));
                    }
                }
            }
        }
    }

    /// A CNAME stands alone (RFC 1034 section 3.6.2, RFC 2181 section 10.1), so never at the apex, beside SOA and NS.
    fn cnames(&self, complain: Complain<'_>) {
        for (owner, set) in self.all_of(CNAME) {
            let Some(cname) = set.first() else { continue };
            if *owner == self.zone.origin {
                complain(&cname.spot, format!("CNAME at the apex '{owner}', beside its SOA and NS"));
                continue;
            }
            let beside = self.sets.get(owner).into_iter().flatten();
            let beside = beside.filter(|(rtype, _)| !matches!(**rtype, CNAME | RRSIG | NSEC | KEY));
            for (rtype, other) in beside.filter_map(|(rtype, set)| Some((rtype, set.first()?))) {
                let (place, rtype) = (other.spot.file_and_line(), RecordType::from(*rtype));
                complain(
                    &cname.spot,
                    format!("CNAME at '{owner}' beside {rtype}, at {place}: a CNAME stands alone"),
                );
            }
        }
    }

    /// Nothing lies below a DNAME, and it stands at no delegation (RFC 6672 sections 2.3 and 2.4).
    fn dnames(&self, complain: Complain<'_>) {
        for (owner, set) in self.all_of(DNAME) {
            let Some(dname) = set.first() else { continue };
            if let Some(ns) = self.first(owner, NS)
                && *owner != self.zone.origin
            {
                let place = ns.spot.file_and_line();
                complain(&dname.spot, format!("DNAME at '{owner}' beside NS, at {place}"));
            }
            // Canonical order: what lies below an owner follows it.
            let below = self.sets.range(owner.clone()..).take_while(|(name, _)| owner.zone_of(name)).skip(1);
            for record in below.filter_map(|(_, sets)| sets.values().next()?.first()) {
                let place = dname.spot.file_and_line();
                let below = record.owner.to_lowercase();
                complain(&record.spot, format!("'{below}' lies below the DNAME of '{owner}', at {place}"));
            }
        }
    }

    /// The delegation that a name lies at or below.
    fn cut_above(&self, name: &Name) -> Option<&Found> {
        self.above(name, NS, true)
    }

    /// The record of this type at one of the owners above a name, below the apex; or at the name itself.
    fn above(&self, name: &Name, rtype: u16, itself: bool) -> Option<&Found> {
        let mut at = if itself { name.clone() } else { name.base_name() };
        let mut nearest = None;
        while self.zone.origin.zone_of(&at) && at != self.zone.origin {
            nearest = self.first(&at, rtype).or(nearest);
            at = at.base_name();
        }
        nearest
    }

    /// Whether a GSLB domain can have this name, or why not.
    pub(crate) fn admits(&self, name: &Name) -> Result<(), String> {
        for rtype in [A, AAAA, CNAME] {
            if let Some(record) = self.first(name, rtype) {
                let (rtype, place) = (RecordType::from(rtype), record.spot.file_and_line());
                return Err(format!("'{name}' has a static {rtype} record, at {place}"));
            }
        }
        if let Some(cut) = self.cut_above(name) {
            let (owner, place) = (cut.owner.to_lowercase(), cut.spot.file_and_line());
            return Err(format!("'{name}' is not ours to answer: '{owner}' is delegated away, at {place}"));
        }
        let at_apex = self.first(&self.zone.origin, DNAME).filter(|_| *name != self.zone.origin);
        if let Some(dname) = self.above(name, DNAME, false).or(at_apex) {
            let place = dname.spot.file_and_line();
            return Err(format!("'{name}' lies below the DNAME at {place}"));
        }
        Ok(())
    }
}

/// Keeps the first of records that say the same (RFC 2181 section 5). The lowest TTL of them stays.
fn remove_repetitions(set: &mut Vec<Found>) {
    let mut lowest: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    for record in set.iter() {
        let ttl = lowest.entry(record.data.canonical.clone()).or_insert(record.ttl);
        *ttl = record.ttl.min(*ttl);
    }
    // What a record says is taken out at its first mention.
    set.retain_mut(|record| match lowest.remove(&record.data.canonical) {
        Some(ttl) => {
            record.ttl = ttl;
            true
        }
        None => false,
    });
}
