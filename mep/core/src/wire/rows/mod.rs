//! RTT rows in columns.
//!
//! A row costs 4 bytes of address and about 2 of RTT: rows that have state, kind and age (to the second) in common share
//! them, and within such a group rows are sorted by RTT, so that differences are small.

use super::{Allowance, Doubts, asker, from_millis, millis, v4_column, v6_column};
use crate::RttRow;
use crate::proto::{self, frame::Body};
use bytes::BytesMut;
use gslb_types::{Ldns, ProbeKind, Reach, Rtt};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// A round trip that two kernels need at the least, over whatever wire: who tells a shorter one makes it up (threat T8).
const LEAST_PLAUSIBLE: Rtt = Rtt::from_micros(10);

/// The body that tells these rows.
pub(crate) fn rtts(rows: &[RttRow]) -> Body {
    Body::Rtts(rtt_rows(rows))
}

/// Likewise, as part of another body.
pub(super) fn rtt_rows(rows: &[RttRow]) -> proto::RttRows {
    let mut groups: BTreeMap<(i32, i32, u64), Group> = BTreeMap::new();
    for row in rows {
        let key = (reach_to_wire(row.reach) as i32, kind_to_wire(row.kind) as i32, row.age.as_secs());
        groups.entry(key).or_default().push(row);
    }
    proto::RttRows {
        groups: groups.into_iter().map(|((reach, kind, _), group)| group.pack(reach, kind)).collect(),
    }
}

/// The rows of a body; those that can't be true are left out and counted.
pub(super) fn read_rtts(rtts: proto::RttRows, doubts: &mut Doubts) -> Vec<RttRow> {
    let mut rows = Vec::new();
    let mut allowance = Allowance::new();
    for group in rtts.groups {
        let Some(v6) = v6_column(&group.v6) else {
            doubts.faults += 1;
            continue;
        };
        if !allowance.take(group.v4.len() + v6.len(), doubts) {
            break;
        }
        let Ok(reach) = proto::Reach::try_from(group.reach) else {
            doubts.unknown = true;
            continue;
        };
        let common = Common { reach, kind: kind_from_wire(group.kind), age: from_millis(group.age_ms) };
        common.read(v4_column(&group.v4), &group.v4_rtt_us, &mut rows, doubts);
        common.read(v6, &group.v6_rtt_us, &mut rows, doubts);
    }
    rows
}

#[derive(Default)]
struct Group {
    oldest: Duration,
    v4: Vec<(u32, u32)>,
    v6: Vec<(u32, [u8; 16])>,
}

impl Group {
    fn push(&mut self, row: &RttRow) {
        self.oldest = self.oldest.max(row.age);
        let micros = row.reach.rtt().map_or(0, Rtt::as_micros);
        match row.ldns.address() {
            IpAddr::V4(a) => self.v4.push((micros, a.to_bits())),
            IpAddr::V6(a) => self.v6.push((micros, a.octets())),
        }
    }

    fn pack(mut self, reach: i32, kind: i32) -> proto::RttGroup {
        self.v4.sort_unstable();
        self.v6.sort_unstable();
        let known = reach == proto::Reach::Known as i32;
        let column = |micros: &mut dyn Iterator<Item = u32>| {
            if known { differences(micros) } else { Vec::new() }
        };
        let mut v6 = BytesMut::with_capacity(self.v6.len() * 16);
        for (_, octets) in &self.v6 {
            v6.extend_from_slice(octets);
        }
        proto::RttGroup {
            reach,
            kind,
            age_ms: millis(self.oldest),
            v4: self.v4.iter().map(|(_, bits)| *bits).collect(),
            v4_rtt_us: column(&mut self.v4.iter().map(|(micros, _)| *micros)),
            v6: v6.freeze(),
            v6_rtt_us: column(&mut self.v6.iter().map(|(micros, _)| *micros)),
        }
    }
}

fn differences(rising: &mut dyn Iterator<Item = u32>) -> Vec<u32> {
    let mut before = 0;
    rising.map(|micros| micros - std::mem::replace(&mut before, micros)).collect()
}

/// What the rows of a group have in common.
struct Common {
    reach: proto::Reach,
    kind: Option<ProbeKind>,
    age: Duration,
}

impl Common {
    fn read(
        &self,
        addresses: impl ExactSizeIterator<Item = IpAddr>,
        differences: &[u32],
        rows: &mut Vec<RttRow>,
        doubts: &mut Doubts,
    ) {
        let columns_fit = differences.len()
            == match self.reach {
                proto::Reach::Known => addresses.len(),
                proto::Reach::Unspecified | proto::Reach::Unreachable | proto::Reach::Withdrawn => 0,
            };
        if !columns_fit {
            doubts.faults += 1;
            return;
        }
        let mut micros = 0_u32;
        for (n, address) in addresses.enumerate() {
            micros = micros.saturating_add(differences.get(n).copied().unwrap_or(0));
            let is_implausible = self.reach == proto::Reach::Known && micros < LEAST_PLAUSIBLE.as_micros();
            doubts.implausible += u64::from(is_implausible);
            match (asker(address), self.reach_of(micros)) {
                (Some(address), Some(reach)) => {
                    rows.push(RttRow { ldns: Ldns::exact(address), reach, kind: self.kind, age: self.age });
                }
                _ => doubts.faults += 1,
            }
        }
    }

    fn reach_of(&self, micros: u32) -> Option<Reach> {
        match self.reach {
            proto::Reach::Known => (Rtt::MIN.as_micros()..=Rtt::MAX.as_micros())
                .contains(&micros)
                .then(|| Reach::Known(Rtt::from_micros(micros))),
            proto::Reach::Unreachable => Some(Reach::Unreachable),
            proto::Reach::Withdrawn => Some(Reach::Pending),
            proto::Reach::Unspecified => None,
        }
    }
}

fn reach_to_wire(reach: Reach) -> proto::Reach {
    match reach {
        Reach::Pending => proto::Reach::Withdrawn,
        Reach::Known(_) => proto::Reach::Known,
        Reach::Unreachable => proto::Reach::Unreachable,
    }
}

fn kind_to_wire(kind: Option<ProbeKind>) -> proto::ProbeKind {
    match kind {
        None => proto::ProbeKind::Unspecified,
        Some(ProbeKind::Ping) => proto::ProbeKind::Ping,
        Some(ProbeKind::DnsUdp) => proto::ProbeKind::DnsUdp,
        Some(ProbeKind::DnsTcp) => proto::ProbeKind::DnsTcp,
    }
}

/// A kind this version does not know measures as well as any; only its name is lost.
fn kind_from_wire(kind: i32) -> Option<ProbeKind> {
    match proto::ProbeKind::try_from(kind).unwrap_or_default() {
        proto::ProbeKind::Unspecified => None,
        proto::ProbeKind::Ping => Some(ProbeKind::Ping),
        proto::ProbeKind::DnsUdp => Some(ProbeKind::DnsUdp),
        proto::ProbeKind::DnsTcp => Some(ProbeKind::DnsTcp),
    }
}

#[cfg(test)]
mod tests;
