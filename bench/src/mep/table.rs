//! The table of the node that tells.

use gslb_types::{Ldns, ProbeKind, Reach, Rtt};
use mep_core::{KnownLdns, Values};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Bound;
use std::time::Duration;

/// LDNS with an RTT each, as far away as resolvers are: 1 to 200 ms.
pub(crate) struct Table {
    rtts: BTreeMap<Ldns, Rtt>,
    /// The LDNS, to find some of them without a walk that would count as work of the exchange.
    keys: Vec<Ldns>,
    chance: Pcg32,
}

impl Table {
    /// So many LDNS, spread over the address space.
    pub(crate) fn new(rows: u32) -> Self {
        let mut table =
            Table { rtts: BTreeMap::new(), keys: Vec::new(), chance: Pcg32::seed_from_u64(u64::from(rows)) };
        while table.rtts.len() < rows as usize {
            // Of 1.0.0.0 to 223.255.255.255: no peer takes a multicast address.
            let address = Ipv4Addr::from(0x0100_0000 + table.chance.next_u32() % 0xdf00_0000);
            let rtt = table.some_rtt();
            table.rtts.insert(Ldns::exact(IpAddr::V4(address)), rtt);
        }
        table.keys = table.rtts.keys().copied().collect();
        table
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.rtts.len()
    }

    /// Gives so many LDNS, evenly spread, another RTT, and says which.
    pub(crate) fn change(&mut self, count: usize) -> Vec<Ldns> {
        let step = (self.keys.len() / count.max(1)).max(1);
        let changed: Vec<Ldns> = self.keys.iter().copied().step_by(step).take(count).collect();
        for ldns in &changed {
            let rtt = self.some_rtt();
            self.rtts.insert(*ldns, rtt);
        }
        changed
    }

    fn some_rtt(&mut self) -> Rtt {
        Rtt::from_micros(1_000 + self.chance.next_u32() % 199_000)
    }
}

impl Values for Table {
    fn known(&self, ldns: Ldns) -> Option<KnownLdns> {
        self.rtts.get(&ldns).map(|rtt| known(ldns, *rtt))
    }

    fn known_after(&self, after: Option<Ldns>, limit: usize) -> Vec<KnownLdns> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = self.rtts.range((from, Bound::Unbounded)).take(limit);
        rows.map(|(ldns, rtt)| known(*ldns, *rtt)).collect()
    }
}

fn known(ldns: Ldns, rtt: Rtt) -> KnownLdns {
    KnownLdns {
        ldns,
        address: ldns.address(),
        seen: Duration::from_secs(3),
        reach: Reach::Known(rtt),
        kind: Some(ProbeKind::Ping),
        age: Duration::from_secs(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_rows_it_was_asked_for_and_changes_as_many_as_it_says() {
        let mut table = Table::new(10_000);
        assert_eq!(table.len(), 10_000);
        let before = table.known_after(None, usize::MAX);
        let changed = table.change(100);
        assert_eq!(changed.len(), 100);
        let differs =
            before.iter().filter(|old| table.known(old.ldns).is_some_and(|new| new.reach != old.reach));
        assert!(differs.count() >= 95, "few get the same RTT again");
    }
}
