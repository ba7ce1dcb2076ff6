//! How long an answer with all records of one owner and type is at least.

use super::Found;
use hickory_proto::rr::Name;
use hickory_proto::serialize::binary::BinEncodable;
use std::collections::BTreeSet;

/// What a DNS message holds: over TCP its length has 16 bits (RFC 1035 section 4.2.2).
pub(super) const MOST: usize = u16::MAX as usize;

/// Header, and type and class of the question.
const AROUND: usize = 12 + 4;

/// Pointer to the owner, type, class, TTL and length of the data.
const BEFORE_DATA: usize = 12;

/// The bytes of a response to a question for these records, with every name compressed as far as a message of any length
/// would let it be: no server can do with less.
pub(super) fn least_answer(owner: &Name, rtype: u16, set: &[Found]) -> usize {
    let owner = owner.to_lowercase().to_bytes().unwrap_or_default();
    let whole = AROUND + owner.len() + set.iter().map(|r| BEFORE_DATA + r.data.wire.len()).sum::<usize>();
    match compressible(rtype) {
        Some(names) if whole > MOST => {
            let mut written = Written::default();
            written.name(&owner);
            let data = set.iter().map(|r| BEFORE_DATA + written.data(&r.data.wire, names));
            AROUND + owner.len() + data.sum::<usize>()
        }
        Some(_) | None => whole,
    }
}

/// Names in data that may be compressed: those of the types of RFC 1035 (RFC 3597 section 4). So many bytes stand before
/// them, and so many they are.
fn compressible(rtype: u16) -> Option<(usize, usize)> {
    match rtype {
        // NS, MD, MF, CNAME, MB, MG, MR, PTR
        2..=5 | 7..=9 | 12 => Some((0, 1)),
        // SOA, MINFO
        6 | 14 => Some((0, 2)),
        // MX
        15 => Some((2, 1)),
        _ => None,
    }
}

/// The names a message holds, which later ones can point to.
#[derive(Default)]
struct Written(BTreeSet<Vec<u8>>);

impl Written {
    /// The bytes that data takes.
    fn data(&mut self, wire: &[u8], (before, names): (usize, usize)) -> usize {
        let (mut rest, mut taken) = (wire.get(before..).unwrap_or_default(), before);
        for _ in 0..names {
            let (name, after) = rest.split_at(length(rest));
            taken += self.name(&name.to_ascii_lowercase());
            rest = after;
        }
        taken + rest.len()
    }

    /// The bytes that a name in lower case takes: its labels up to the first suffix that was written before, and a pointer.
    fn name(&mut self, name: &[u8]) -> usize {
        let mut at = 0;
        while let Some(label) = name.get(at).copied().filter(|label| *label > 0) {
            if !self.0.insert(name.get(at..).unwrap_or_default().to_vec()) {
                return at + 2;
            }
            at += 1 + usize::from(label);
        }
        at + 1
    }
}

/// The length of the name that these bytes begin with.
fn length(wire: &[u8]) -> usize {
    let mut at = 0;
    while let Some(label) = wire.get(at).copied() {
        at += 1 + usize::from(label);
        if label == 0 {
            break;
        }
    }
    at.min(wire.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(name: &str) -> Vec<u8> {
        Name::from_ascii(name).unwrap().to_bytes().unwrap()
    }

    #[test]
    fn a_name_points_to_the_longest_part_that_stands_before_it() {
        let mut written = Written::default();
        assert_eq!(written.name(&wire("gslb.test.")), 11);
        assert_eq!(written.name(&wire("ns1.gslb.test.")), 4 + 2);
        assert_eq!(written.name(&wire("a.ns1.gslb.test.")), 2 + 2);
        assert_eq!(written.name(&wire("ns1.gslb.test.")), 2);
        assert_eq!((written.name(&wire("test.")), written.name(&wire("."))), (2, 1));
        assert_eq!(written.data(&[&[0, 10][..], &wire("MX.gslb.test.")].concat(), (2, 1)), 2 + 3 + 2);
    }
}
