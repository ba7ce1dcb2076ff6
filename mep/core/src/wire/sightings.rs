//! Sightings and wishes in columns.

use super::{Allowance, Columns, Doubts, asker, from_millis, millis, v4_column, v6_column};
use crate::Sighting;
use crate::proto::{self, frame::Body};
use gslb_types::Ldns;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// The body that tells these sightings.
pub(crate) fn sightings(sightings: &[Sighting]) -> Body {
    let mut groups: BTreeMap<(bool, u64), (Duration, Columns)> = BTreeMap::new();
    for sighting in sightings {
        let (oldest, columns) = groups.entry((sighting.fresh, sighting.age.as_secs())).or_default();
        *oldest = (*oldest).max(sighting.age);
        columns.push(sighting.address);
    }
    let pack = |((fresh, _), (oldest, columns)): ((bool, u64), (Duration, Columns))| proto::SightingGroup {
        age_ms: millis(oldest),
        fresh,
        v4: columns.v4,
        v6: columns.v6.freeze(),
    };
    Body::Sightings(proto::Sightings { groups: groups.into_iter().map(pack).collect() })
}

/// The body that asks for the values of these LDNS.
pub(crate) fn wanted(ldns: &[Ldns]) -> Body {
    let mut columns = Columns::default();
    for ldns in ldns {
        columns.push(ldns.address());
    }
    Body::Wanted(proto::Wanted { v4: columns.v4, v6: columns.v6.freeze() })
}

/// The sightings of a body; addresses that nobody has are left out and counted.
pub(super) fn read_sightings(told: proto::Sightings, doubts: &mut Doubts) -> Vec<Sighting> {
    let mut sightings = Vec::new();
    let mut allowance = Allowance::new();
    for group in told.groups {
        let Some(addresses) = addresses(&group.v4, &group.v6, &mut allowance, doubts) else { continue };
        let age = from_millis(group.age_ms);
        sightings.extend(addresses.into_iter().map(|address| Sighting { address, age, fresh: group.fresh }));
    }
    sightings
}

/// The wishes of a body, likewise.
pub(super) fn read_wanted(wanted: proto::Wanted, doubts: &mut Doubts) -> Vec<Ldns> {
    addresses(&wanted.v4, &wanted.v6, &mut Allowance::new(), doubts)
        .unwrap_or_default()
        .into_iter()
        .map(Ldns::exact)
        .collect()
}

fn addresses(v4: &[u32], v6: &[u8], allowance: &mut Allowance, doubts: &mut Doubts) -> Option<Vec<IpAddr>> {
    let Some(v6) = v6_column(v6) else {
        doubts.faults += 1;
        return None;
    };
    if !allowance.take(v4.len() + v6.len(), doubts) {
        return None;
    }
    let all = v4.len() + v6.len();
    let addresses: Vec<IpAddr> = v4_column(v4).chain(v6).filter_map(asker).collect();
    doubts.faults += all.saturating_sub(addresses.len()) as u64;
    Some(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Word, body, decode};

    fn sighting(address: &str, ms: u64, fresh: bool) -> Sighting {
        Sighting { address: address.parse().unwrap(), age: Duration::from_millis(ms), fresh }
    }

    #[test]
    fn sightings_come_out_as_they_went_in() {
        let mut told = vec![
            sighting("192.0.2.1", 0, true),
            sighting("192.0.2.2", 90_000, false),
            sighting("2001:db8::1", 90_000, false),
        ];
        let Some(Word::Sightings(mut read)) = decode(body(sightings(&told))).unwrap().word else {
            panic!("sightings went in")
        };
        told.sort();
        read.sort();
        assert_eq!(read, told);
    }

    #[test]
    fn wishes_come_out_as_they_went_in() {
        let told: Vec<Ldns> =
            ["192.0.2.1", "2001:db8::1"].iter().map(|a| Ldns::exact(a.parse().unwrap())).collect();
        assert_eq!(decode(body(wanted(&told))).unwrap().word, Some(Word::Wanted(told)));
    }

    #[test]
    fn a_cut_column_and_addresses_that_nobody_has_are_counted() {
        let cut = proto::SightingGroup { v6: vec![1; 15].into(), ..Default::default() };
        let nobody = proto::SightingGroup { v4: vec![0, 0xC000_0201], ..Default::default() };
        let mut doubts = Doubts::default();
        let read = read_sightings(proto::Sightings { groups: vec![cut, nobody] }, &mut doubts);
        assert_eq!((read, doubts.faults), (vec![sighting("192.0.2.1", 0, false)], 2));
    }
}
