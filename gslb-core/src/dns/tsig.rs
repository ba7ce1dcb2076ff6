//! TSIG without keys: nobody has one here, so every signed request gets NOTAUTH with BADKEY (RFC 8945 section 5.2.1), as
//! from NSD and Knot.

use super::name;
use super::rtype::{CLASS_ANY, TSIG};

/// BADKEY: the key is not known here.
const BADKEY: u16 = 17;

/// The parts of a request's TSIG record that the error reply repeats (RFC 8945 section 5.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signature<'a> {
    /// The key's name.
    key: &'a [u8],
    /// Algorithm name, time signed and fudge.
    head: &'a [u8],
    original_id: [u8; 2],
}

impl<'a> Signature<'a> {
    /// Reads the record; its names are never compressed (RFC 8945 section 4.2).
    pub(super) fn read(owner: &'a [u8], rdata: &'a [u8]) -> Option<Self> {
        let key = owner.get(..name::measure(owner)?)?;
        let head = name::measure(rdata)? + 8;
        let mac = usize::from(u16::from_be_bytes(*rdata.get(head..)?.first_chunk()?));
        let after = rdata.get(head + 2 + mac..)?;
        let &[i0, i1, _, _, o0, o1] = after.first_chunk()?;
        let other = usize::from(u16::from_be_bytes([o0, o1]));
        let whole = after.len() == 6 + other;
        whole.then_some(Signature { key, head: rdata.get(..head)?, original_id: [i0, i1] })
    }

    /// Appends the unsigned BADKEY record to a finished reply of `len` bytes and counts it in the header. Returns the new
    /// length; the old one if the record would pass the limit.
    pub(super) fn append_badkey(&self, out: &mut [u8], len: usize, limit: usize) -> usize {
        let rdata = u16::try_from(self.head.len() + 8).unwrap_or(u16::MAX);
        let pieces: [&[u8]; 10] = [
            self.key,
            &TSIG.to_be_bytes(),
            &CLASS_ANY.to_be_bytes(),
            &[0; 4],
            &rdata.to_be_bytes(),
            self.head,
            &[0; 2],
            &self.original_id,
            &BADKEY.to_be_bytes(),
            &[0; 2],
        ];
        let end = len + pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if end > limit || end > out.len() {
            return len;
        }
        let mut at = len;
        for piece in pieces {
            if let Some(place) = out.get_mut(at..at + piece.len()) {
                place.copy_from_slice(piece);
                at += piece.len();
            }
        }
        if let Some(count) = out.get_mut(10..12).and_then(|c| c.first_chunk_mut::<2>()) {
            *count = u16::from_be_bytes(*count).saturating_add(1).to_be_bytes();
        }
        end
    }
}
