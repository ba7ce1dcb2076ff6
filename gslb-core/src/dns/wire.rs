//! Reads a request: a strict parser over the bytes as they came, without allocation.
//!
//! Strict means: every count is honoured, every record must be whole, nothing may follow the last one. What is broken gets
//! FORMERR with as much of an echo as could be read; what is no request at all gets silence (faults I-16 to I-18).

use super::edns::Edns;
use super::name::{self, LowerName};
use super::rtype::{BADVERS, FORMERR, NOTIMP, OPT, TSIG};
use super::tsig::Signature;

const QR: u16 = 0x8000;
const RD: u16 = 0x0100;

/// A well-formed query with its one question.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) id: u16,
    /// Recursion desired: copied, never done.
    pub(super) rd: bool,
    /// The question entry, octet for octet as it came (faults I-07).
    pub(super) question: &'a [u8],
    pub(super) qtype: u16,
    pub(super) qclass: u16,
    pub(super) edns: Option<Edns<'a>>,
    pub(super) tsig: Option<Signature<'a>>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Unanswerable<'a> {
    /// Not a request: shorter than a header, or a reply itself. Answering replies makes loops (threat T2).
    Silence,
    /// An error reply.
    Error(ErrorReply<'a>),
}

/// What an error reply repeats of the request.
#[derive(Debug)]
pub(super) struct ErrorReply<'a> {
    pub(super) id: u16,
    pub(super) opcode: u8,
    pub(super) rd: bool,
    pub(super) rcode: u16,
    /// The question entry; empty if none could be read.
    pub(super) question: &'a [u8],
    /// If the request had EDNS, so has the reply (faults I-28).
    pub(super) edns: Option<Edns<'a>>,
}

/// Reads a request. `name` receives the name asked for, in lower case.
pub(super) fn read<'a>(packet: &'a [u8], name: &mut LowerName) -> Result<Request<'a>, Unanswerable<'a>> {
    let (header, _) = packet.split_first_chunk::<12>().ok_or(Unanswerable::Silence)?;
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (id, flags) = (word(0), word(2));
    if flags & QR != 0 {
        return Err(Unanswerable::Silence);
    }
    let opcode = flags.to_be_bytes()[0] >> 3 & 15;
    if opcode != 0 {
        // Other operations have other sections, so nothing of them is read; no flag is copied (RFC 8906 section 8.1.4).
        let bare = ErrorReply { id, opcode, rd: false, rcode: NOTIMP, question: &[], edns: None };
        return Err(Unanswerable::Error(bare));
    }
    let mut reading = Reading { packet, at: 12, question: &[], edns: None, tsig: None };
    let read = reading.sections([word(4), word(6), word(8), word(10)], name);
    let rd = flags & RD != 0;
    match (read, reading.edns) {
        (Ok((qtype, qclass)), edns) if edns.is_none_or(|e| e.version == 0) => {
            Ok(Request { id, rd, question: reading.question, qtype, qclass, edns, tsig: reading.tsig })
        }
        (read, edns) => {
            let rcode = if read.is_ok() { BADVERS } else { FORMERR };
            Err(Unanswerable::Error(ErrorReply { id, opcode, rd, rcode, question: reading.question, edns }))
        }
    }
}

/// Something is not as RFC 1035 section 4 draws it.
struct Broken;

/// A walk over the packet, and what it has seen so far.
struct Reading<'a> {
    packet: &'a [u8],
    at: usize,
    question: &'a [u8],
    edns: Option<Edns<'a>>,
    tsig: Option<Signature<'a>>,
}

impl<'a> Reading<'a> {
    fn sections(&mut self, counts: [u16; 4], name: &mut LowerName) -> Result<(u16, u16), Broken> {
        let [questions, answers, authorities, additionals] = counts;
        let asked = match questions {
            0 => Err(Broken),
            1 => Ok(self.question(name)?),
            // Two questions have no answer (RFC 9619); where the records begin does not matter then.
            2.. => return Err(Broken),
        };
        // Answers in a query mean nothing, but four servers of five ignore them as long as they are whole.
        for _ in 0..u32::from(answers) + u32::from(authorities) {
            self.record(false)?;
        }
        for _ in 0..additionals {
            self.record(true)?;
        }
        if self.at == self.packet.len() { asked } else { Err(Broken) }
    }

    fn question(&mut self, name: &mut LowerName) -> Result<(u16, u16), Broken> {
        let rest = self.packet.get(self.at..).ok_or(Broken)?;
        let length = name::measure(rest).ok_or(Broken)?;
        let (wire, tail) = rest.split_at_checked(length).ok_or(Broken)?;
        let &[t0, t1, c0, c1] = tail.first_chunk().ok_or(Broken)?;
        if !name.set(wire) {
            return Err(Broken);
        }
        self.question = rest.get(..length + 4).ok_or(Broken)?;
        self.at += length + 4;
        Ok((u16::from_be_bytes([t0, t1]), u16::from_be_bytes([c0, c1])))
    }

    fn record(&mut self, additional: bool) -> Result<(), Broken> {
        if self.tsig.is_some() {
            // A signature covers everything before it and must come last (RFC 8945 section 5.1).
            return Err(Broken);
        }
        let owner = self.at;
        self.skip_name()?;
        let rest = self.packet.get(self.at..).ok_or(Broken)?;
        let (&[t0, t1, c0, c1, l0, l1, l2, l3, r0, r1], rest) = rest.split_first_chunk().ok_or(Broken)?;
        let owner = self.packet.get(owner..self.at).ok_or(Broken)?;
        let length = usize::from(u16::from_be_bytes([r0, r1]));
        let rdata = rest.get(..length).ok_or(Broken);
        self.at += 10 + length;
        match u16::from_be_bytes([t0, t1]) {
            OPT => {
                if !additional || owner != name::ROOT || self.edns.is_some() {
                    return Err(Broken);
                }
                let class = u16::from_be_bytes([c0, c1]);
                let edns = self.edns.insert(Edns::fixed(class, u32::from_be_bytes([l0, l1, l2, l3])));
                let rdata = rdata?;
                // What options mean in another version is not known; BADVERS will say so.
                if edns.version == 0 {
                    edns.read_options(rdata).map_err(|_| Broken)?;
                }
            }
            TSIG if additional => self.tsig = Some(Signature::read(owner, rdata?).ok_or(Broken)?),
            TSIG => return Err(Broken),
            _ => {
                rdata?;
            }
        }
        Ok(())
    }

    /// Steps over an owner name. Where a pointer leads does not matter, as nobody reads the name.
    fn skip_name(&mut self) -> Result<(), Broken> {
        let start = self.at;
        loop {
            let length = *self.packet.get(self.at).ok_or(Broken)?;
            match length {
                0 => self.at += 1,
                1..=63 => self.at += 1 + usize::from(length),
                192.. => {
                    let low = *self.packet.get(self.at + 1).ok_or(Broken)?;
                    // A pointer leads back, never to itself or ahead (RFC 1035 section 4.1.4).
                    if usize::from(u16::from_be_bytes([length & 63, low])) >= start {
                        return Err(Broken);
                    }
                    self.at += 2;
                }
                64..=191 => return Err(Broken),
            }
            if self.at - start > name::MAX_NAME {
                return Err(Broken);
            }
            if length == 0 || length >= 192 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a packet made of four counts and the bytes after them.
    fn read_counts(counts: [u8; 4], rest: &[&[u8]]) -> Result<(), u16> {
        let [q, an, ns, ar] = counts;
        let packet = [&[0, 7, 1, 0, 0, q, 0, an, 0, ns, 0, ar][..], &rest.concat()].concat();
        match read(&packet, &mut LowerName::root()) {
            Ok(request) => {
                assert_eq!((request.id, request.rd), (7, true));
                Ok(())
            }
            Err(Unanswerable::Error(error)) => Err(error.rcode),
            Err(Unanswerable::Silence) => panic!("silence"),
        }
    }

    const ASK: &[u8] = b"\x03WWW\x04test\0\0\x01\0\x01";
    const RECORD: &[u8] = b"\0\x01\0\x01\0\0\0\0\0\x04abcd";

    #[test]
    fn the_name_is_folded_and_the_question_is_not() {
        let packet = [b"\0\x07\0\0\0\x01\0\0\0\0\0\0", ASK].concat();
        let mut name = LowerName::root();
        let request = read(&packet, &mut name).unwrap();
        assert_eq!((request.qtype, request.qclass, request.question), (1, 1, ASK));
        assert_eq!(name.as_wire(), b"\x03www\x04test\0");
    }

    #[test]
    fn owners_of_other_records_may_be_pointers_that_lead_back() {
        for owner in [&b"\0"[..], b"\x01a\0", b"\xc0\x0c", b"\x01a\xc0\x0c"] {
            assert_eq!(read_counts([1, 1, 0, 0], &[ASK, owner, RECORD]), Ok(()), "{owner:x?}");
        }
        for owner in [&b"\xc0\x1a"[..], b"\xc0\xff", b"\x40a\0", b"\x80a\0", &[[1, b'a']; 200].concat()] {
            assert_eq!(read_counts([1, 1, 0, 0], &[ASK, owner, RECORD]), Err(FORMERR), "{owner:x?}");
        }
    }

    #[test]
    fn every_count_is_honoured_and_nothing_may_follow() {
        assert_eq!(read_counts([1, 1, 1, 1], &[ASK, b"\0", RECORD, b"\0", RECORD, b"\0", RECORD]), Ok(()));
        assert_eq!(read_counts([1, 1, 1, 1], &[ASK, b"\0", RECORD, b"\0", RECORD]), Err(FORMERR));
        assert_eq!(read_counts([1, 0, 0, 0], &[ASK, b"\0"]), Err(FORMERR));
        assert_eq!(read_counts([0, 0, 0, 0], &[]), Err(FORMERR));
        assert_eq!(read_counts([2, 0, 0, 0], &[ASK, ASK]), Err(FORMERR));
    }

    #[test]
    fn opt_belongs_into_the_additional_section_once_and_has_no_name() {
        let opt: &[u8] = b"\0\x29\x04\xd0\0\0\0\0\0\0";
        assert_eq!(read_counts([1, 0, 0, 1], &[ASK, b"\0", opt]), Ok(()));
        assert_eq!(read_counts([1, 0, 0, 2], &[ASK, b"\0", opt, b"\0", RECORD]), Ok(()), "not last: fine");
        assert_eq!(read_counts([1, 1, 0, 0], &[ASK, b"\0", opt]), Err(FORMERR));
        assert_eq!(read_counts([1, 0, 0, 2], &[ASK, b"\0", opt, b"\0", opt]), Err(FORMERR));
        assert_eq!(read_counts([1, 0, 0, 1], &[ASK, b"\xc0\x0c", opt]), Err(FORMERR));
    }

    #[test]
    fn an_unknown_version_is_told_only_if_the_packet_is_whole() {
        let opt: &[u8] = b"\0\x29\x04\xd0\0\x01\0\0\0\0";
        assert_eq!(read_counts([1, 0, 0, 1], &[ASK, b"\0", opt]), Err(BADVERS));
        assert_eq!(read_counts([1, 0, 0, 1], &[ASK, b"\0", opt, b"\0"]), Err(FORMERR));
    }
}
