//! Compression of names: what is remembered of those a message holds already, and how they are compared (RFC 1035 section
//! 4.1.4).

use super::name;
use arrayvec::ArrayVec;

/// Offsets beyond it do not fit into a pointer.
pub(super) const POINTER_LIMIT: usize = 0x4000;
/// Suffixes remembered. Beyond it names are written in full, which costs bytes and not correctness.
pub(super) const MAX_MARKS: usize = 64;

/// Where suffixes of names stand in the message: hash and offset. Kept small, as it is moved about with the reply.
#[derive(Default)]
pub(super) struct Marks(ArrayVec<(u16, u16), MAX_MARKS>);

impl Marks {
    /// Where this suffix stands in what is written of the message.
    pub(super) fn find(&self, written: &[u8], hash: u16, suffix: &[u8]) -> Option<usize> {
        let mut same = self.0.iter().filter(|(h, _)| *h == hash).map(|(_, at)| usize::from(*at));
        same.find(|at| name_at_is(written, *at, suffix))
    }

    /// Remembers a suffix, if there is room and a pointer reaches it.
    pub(super) fn add(&mut self, hash: u16, at: usize) {
        if let Ok(offset) = u16::try_from(at)
            && at < POINTER_LIMIT
        {
            let _ = self.0.try_push((hash, offset));
        }
    }

    /// How many are remembered.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets all but the first ones.
    pub(super) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

/// The pointer to an offset below [`POINTER_LIMIT`].
pub(super) fn pointer_to(at: usize) -> [u8; 2] {
    (0xc000 | u16::try_from(at).unwrap_or(0)).to_be_bytes()
}

/// A hash of each suffix, the shortest first; the root has none.
pub(super) fn suffix_hashes(name: &[u8]) -> ArrayVec<u16, { name::MAX_LABELS }> {
    let labels: ArrayVec<&[u8], { name::MAX_LABELS }> = name::suffixes(name)
        .filter_map(|suffix| suffix.get(..1 + usize::from(*suffix.first()?)).filter(|l| l.len() > 1))
        .take(name::MAX_LABELS)
        .collect();
    let mut hash = 0x811c_9dc5_u32;
    let mut hashes = ArrayVec::new();
    for label in labels.iter().rev() {
        for byte in *label {
            // FNV-1a, over folded bytes.
            hash = (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193);
        }
        // Folded to half; what the hash finds is compared anyway.
        let [h0, h1, l0, l1] = hash.to_be_bytes();
        hashes.push(u16::from_be_bytes([h0 ^ l0, h1 ^ l1]));
    }
    hashes
}

/// Compares a possibly compressed name in a message with a whole one. Pointers only lead back, so it ends.
pub(super) fn name_at_is(message: &[u8], mut at: usize, mut name: &[u8]) -> bool {
    loop {
        let Some(length) = message.get(at).copied() else { return false };
        if length >= 0xc0 {
            let Some(low) = message.get(at + 1) else { return false };
            let target = usize::from(u16::from_be_bytes([length & 63, *low]));
            if target >= at {
                return false;
            }
            at = target;
            continue;
        }
        let end = 1 + usize::from(length);
        let (Some(here), Some((label, rest))) = (message.get(at..at + end), name.split_at_checked(end))
        else {
            return false;
        };
        if !here.eq_ignore_ascii_case(label) {
            return false;
        }
        if length == 0 {
            return true;
        }
        (at, name) = (at + end, rest);
    }
}
