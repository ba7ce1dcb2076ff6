//! Writes a reply: header, question, records with compressed names, OPT last, within a limit that is never passed.

#[cfg(test)]
mod tests;

use super::compress::{Marks, POINTER_LIMIT, name_at_is, pointer_to, suffix_hashes};
use super::edns::OptReply;
use super::name;
use super::rrset::{Layout, RrSet};
use super::rtype::{A, AAAA, CLASS_IN};
use arrayvec::ArrayVec;
use std::net::IpAddr;

/// Offset of the question's name: where a compressed owner usually points.
pub(super) const QUESTION: usize = 12;
/// The pointer to it.
const TO_QUESTION: [u8; 2] = [0xc0, 12];

/// The reply does not fit into its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Where a record goes. Records are written in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Answer,
    Authority,
    Additional,
}

/// The owner of records to be written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner<'a> {
    /// The name asked for.
    Question,
    /// Another name, uncompressed.
    Name(&'a [u8]),
}

/// A reply under way.
pub(super) struct Reply<'o> {
    out: &'o mut [u8],
    len: usize,
    /// Bytes for everything but OPT.
    limit: usize,
    /// Length of header and question.
    question_end: usize,
    counts: [u16; 3],
    marks: Marks,
    question_marked: bool,
    /// Offset of the RDATA written last.
    rdata: usize,
}

/// A state of the reply to return to.
#[derive(Clone, Copy)]
pub(super) struct Checkpoint {
    len: usize,
    counts: [u16; 3],
    marks: usize,
    question_marked: bool,
}

impl<'o> Reply<'o> {
    /// A reply with this question, of at most `limit` bytes, `reserved` of them for OPT. `None` if not even the question
    /// fits.
    pub(super) fn new(out: &'o mut [u8], limit: usize, reserved: usize, question: &[u8]) -> Option<Self> {
        let limit = limit.min(out.len()).checked_sub(reserved)?;
        let end = QUESTION + question.len();
        if end > limit {
            return None;
        }
        out.get_mut(QUESTION..end)?.copy_from_slice(question);
        Some(Reply {
            out,
            len: end,
            limit,
            question_end: end,
            counts: [0; 3],
            marks: Marks::default(),
            question_marked: false,
            rdata: end,
        })
    }

    /// Where the reply stands, to come back to if the rest turns out not to fit.
    pub(super) fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            len: self.len,
            counts: self.counts,
            marks: self.marks.len(),
            question_marked: self.question_marked,
        }
    }

    /// Takes back everything written since.
    pub(super) fn rollback(&mut self, to: Checkpoint) {
        self.len = to.len;
        self.counts = to.counts;
        self.marks.truncate(to.marks);
        self.question_marked = to.question_marked;
    }

    /// Takes back every record. Truncated replies hold none, as a client might use the part it sees (faults I-05).
    pub(super) fn clear(&mut self) {
        let start = Checkpoint { len: self.question_end, counts: [0; 3], marks: 0, question_marked: false };
        self.rollback(start);
    }

    /// Writes a whole RRset.
    pub(super) fn rrset(&mut self, section: Section, owner: Owner<'_>, set: &RrSet) -> Result<(), Full> {
        self.rrset_with_ttl(section, owner, set, set.ttl())
    }

    /// Writes a whole RRset with another TTL than its own.
    pub(super) fn rrset_with_ttl(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        set: &RrSet,
        ttl: u32,
    ) -> Result<(), Full> {
        let mut pointer = None;
        for rdata in set.rdatas() {
            let at = self.len;
            match (owner, pointer) {
                (Owner::Name(_), Some(pointer)) => self.bytes(pointer)?,
                (owner, _) => self.owner(owner)?,
            }
            // The records after the first point to the owner of the first, unless it was as short as a pointer itself.
            if pointer.is_none() && self.len - at > 2 && at < POINTER_LIMIT {
                pointer = Some(pointer_to(at));
            } else if pointer.is_none() && self.len - at == 2 {
                pointer = self.out.get(at..at + 2).and_then(|p| p.try_into().ok());
            }
            self.fixed(set.rtype(), CLASS_IN, ttl)?;
            self.rdata(set.layout(), rdata)?;
            self.count(section)?;
        }
        Ok(())
    }

    /// Writes one record with RDATA that holds no name.
    pub(super) fn record(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        (rtype, class): (u16, u16),
        ttl: u32,
        rdata: &[u8],
    ) -> Result<(), Full> {
        self.owner(owner)?;
        self.fixed(rtype, class, ttl)?;
        self.rdata(Layout::Opaque, rdata)?;
        self.count(section)
    }

    /// Writes one A or AAAA record into the answer.
    pub(super) fn address(&mut self, owner: Owner<'_>, ttl: u32, address: IpAddr) -> Result<(), Full> {
        match address {
            IpAddr::V4(v4) => self.record(Section::Answer, owner, (A, CLASS_IN), ttl, &v4.octets()),
            IpAddr::V6(v6) => self.record(Section::Answer, owner, (AAAA, CLASS_IN), ttl, &v6.octets()),
        }
    }

    /// Writes one record whose RDATA is a single name, compressed.
    pub(super) fn alias(
        &mut self,
        owner: Owner<'_>,
        rtype: u16,
        ttl: u32,
        target: &[u8],
    ) -> Result<(), Full> {
        self.owner(owner)?;
        self.fixed(rtype, CLASS_IN, ttl)?;
        self.rdata(Layout::Names { before: 0, names: 1 }, target)?;
        self.count(Section::Answer)
    }

    /// Where the RDATA of the last record begins.
    pub(super) fn last_rdata(&self) -> usize {
        self.rdata
    }

    /// Whether the name that begins at `at` in the reply is this one, whatever the case of either.
    pub(super) fn name_at_is(&self, at: usize, name: &[u8]) -> bool {
        name_at_is(self.written(), at, name)
    }

    /// Writes header and OPT, and returns the length of the whole. `flags` holds everything but QR and the response code.
    pub(super) fn finish(&mut self, id: u16, flags: u16, rcode: u16, opt: Option<&OptReply<'_>>) -> usize {
        let Reply { out, question_end, counts: [an, ns, ar], .. } = self;
        let (mut len, mut ar) = (self.len, *ar);
        if let Some(opt) = opt {
            opt.each_piece(|piece| {
                if let Some(place) = out.get_mut(len..len + piece.len()) {
                    place.copy_from_slice(piece);
                    len += piece.len();
                }
            });
            ar = ar.saturating_add(1);
        }
        let questions = u16::from(*question_end > QUESTION);
        let words = [id, 0x8000 | flags | rcode & 15, questions, *an, *ns, ar];
        if let Some(header) = out.get_mut(..QUESTION) {
            for (place, word) in header.chunks_exact_mut(2).zip(words) {
                place.copy_from_slice(&word.to_be_bytes());
            }
        }
        len
    }

    fn owner(&mut self, owner: Owner<'_>) -> Result<(), Full> {
        match owner {
            // The root is shorter than a pointer to it.
            Owner::Question if self.out.get(QUESTION) == Some(&0) => self.bytes(*b"\0"),
            Owner::Question => self.bytes(TO_QUESTION),
            Owner::Name(name) => self.name(name),
        }
    }

    fn fixed(&mut self, rtype: u16, class: u16, ttl: u32) -> Result<(), Full> {
        let ([t0, t1], [c0, c1], [l0, l1, l2, l3]) =
            (rtype.to_be_bytes(), class.to_be_bytes(), ttl.to_be_bytes());
        self.bytes([t0, t1, c0, c1, l0, l1, l2, l3])
    }

    fn rdata(&mut self, layout: Layout, rdata: &[u8]) -> Result<(), Full> {
        let at = self.len;
        self.bytes([0, 0])?;
        self.rdata = self.len;
        match layout {
            Layout::Opaque => self.slice(rdata)?,
            Layout::Names { before, names } => {
                let (head, mut rest) = rdata.split_at_checked(before).ok_or(Full)?;
                self.slice(head)?;
                for _ in 0..names {
                    let length = name::measure(rest).ok_or(Full)?;
                    let (name, after) = rest.split_at_checked(length).ok_or(Full)?;
                    self.name(name)?;
                    rest = after;
                }
                self.slice(rest)?;
            }
        }
        let length = u16::try_from(self.len - self.rdata).map_err(|_| Full)?;
        self.out.get_mut(at..at + 2).ok_or(Full)?.copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// Writes a name, the longest suffix that stands in the reply already as a pointer to it.
    fn name(&mut self, name: &[u8]) -> Result<(), Full> {
        self.mark_question();
        let hashes = suffix_hashes(name);
        let mut rest = name;
        for hash in hashes.iter().rev() {
            if let Some(at) = self.marks.find(self.written(), *hash, rest) {
                return self.bytes(pointer_to(at));
            }
            self.marks.add(*hash, self.len);
            let label = rest.get(..1 + rest.first().map_or(0, |l| usize::from(*l))).ok_or(Full)?;
            self.slice(label)?;
            rest = rest.get(label.len()..).ok_or(Full)?;
        }
        self.bytes(*b"\0")
    }

    /// What is written so far: what lies behind it is left from an earlier reply.
    fn written(&self) -> &[u8] {
        self.out.get(..self.len).unwrap_or_default()
    }

    /// The suffixes of the question's name are marked when the first other name is written: most answers have none.
    fn mark_question(&mut self) {
        if self.question_marked {
            return;
        }
        self.question_marked = true;
        let Some(question) = self.out.get(QUESTION..self.question_end) else { return };
        let Some(name) = name::measure(question).and_then(|length| question.get(..length)) else { return };
        let end = QUESTION + name.len();
        let offsets: ArrayVec<usize, { name::MAX_LABELS + 1 }> =
            name::suffixes(name).take(name::MAX_LABELS + 1).map(|suffix| end - suffix.len()).collect();
        for (hash, at) in suffix_hashes(name).iter().rev().zip(offsets) {
            self.marks.add(*hash, at);
        }
    }

    fn count(&mut self, section: Section) -> Result<(), Full> {
        let count = match section {
            Section::Answer => &mut self.counts[0],
            Section::Authority => &mut self.counts[1],
            Section::Additional => &mut self.counts[2],
        };
        *count = count.checked_add(1).ok_or(Full)?;
        Ok(())
    }

    fn bytes<const N: usize>(&mut self, bytes: [u8; N]) -> Result<(), Full> {
        self.slice(&bytes)
    }

    fn slice(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let end = self.len + bytes.len();
        if end > self.limit {
            return Err(Full);
        }
        self.out.get_mut(self.len..end).ok_or(Full)?.copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }
}
