//! A reply: its octets, and what hickory-proto makes of them.

use crate::packet::HEADER;
use hickory_proto::op::Message;
use hickory_proto::rr::Record;

/// A reply that hickory-proto can decode.
#[derive(Clone, Debug)]
pub struct Reply {
    /// As it came.
    pub bytes: Vec<u8>,
    /// Decoded.
    pub message: Message,
}

/// The OPT record of a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opt {
    /// The server's own size.
    pub size: u16,
    /// Its version.
    pub version: u8,
    /// DO and the flags that mean nothing.
    pub flags: u16,
    /// The options, octets as they came.
    pub options: Vec<u8>,
}

impl Reply {
    /// Decodes it.
    ///
    /// # Panics
    /// If it can't be decoded: then a resolver could not either.
    #[track_caller]
    pub fn of(bytes: Vec<u8>) -> Reply {
        match Message::from_vec(&bytes) {
            Ok(message) => Reply { bytes, message },
            Err(error) => panic!("undecodable reply: {error}: {bytes:02x?}"),
        }
    }

    /// Its ID.
    pub fn id(&self) -> u16 {
        self.word(0)
    }

    /// The second word of its header.
    pub fn flags(&self) -> u16 {
        self.word(2)
    }

    /// The response code, with the upper bits that EDNS adds.
    pub fn rcode(&self) -> u16 {
        self.message.metadata.response_code.into()
    }

    /// Whether the answer is authoritative.
    pub fn is_authoritative(&self) -> bool {
        self.message.metadata.authoritative
    }

    /// Whether it was cut short.
    pub fn is_truncated(&self) -> bool {
        self.message.metadata.truncation
    }

    /// How many records the header claims in each section, questions first.
    pub fn counts(&self) -> [u16; 4] {
        [4, 6, 8, 10].map(|at| self.word(at))
    }

    /// The octets of the question section, if there is one question.
    pub fn question(&self) -> &[u8] {
        match self.counts()[0] {
            1 => &self.bytes[HEADER..question_end(&self.bytes)],
            _ => &[],
        }
    }

    /// The answer section, each record as `OWNER TTL TYPE DATA`, in order.
    pub fn answers(&self) -> Vec<String> {
        lines(&self.message.answers)
    }

    /// The same, sorted: an RRset has no order.
    pub fn sorted_answers(&self) -> Vec<String> {
        let mut lines = self.answers();
        lines.sort();
        lines
    }

    /// The data of the answers alone.
    pub fn data(&self) -> Vec<String> {
        self.message.answers.iter().map(|record| record.data.to_string()).collect()
    }

    /// The authority section.
    pub fn authorities(&self) -> Vec<String> {
        lines(&self.message.authorities)
    }

    /// The additional section, without OPT.
    pub fn additionals(&self) -> Vec<String> {
        lines(&self.message.additionals)
    }

    /// Its OPT record, read from the octets: the last record, in all servers there are.
    pub fn opt(&self) -> Option<Opt> {
        let edns = self.message.edns.as_ref()?;
        let at = self.bytes.windows(3).rposition(|three| three == [0, 0, 41]).expect("an OPT record");
        let word = |from: usize| u16::from_be_bytes([self.bytes[at + from], self.bytes[at + from + 1]]);
        assert_eq!((word(3), self.bytes[at + 6]), (edns.max_payload(), edns.version()));
        let options = self.bytes[at + 11..].to_vec();
        assert_eq!(usize::from(word(9)), options.len(), "OPT is the last record");
        Some(Opt { size: word(3), version: self.bytes[at + 6], flags: word(7), options })
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }
}

/// Where the first question of a packet ends that holds no pointer in it.
pub(crate) fn question_end(packet: &[u8]) -> usize {
    let mut at = HEADER;
    while packet[at] != 0 {
        at += 1 + usize::from(packet[at]);
    }
    at + 5
}

fn lines(records: &[Record]) -> Vec<String> {
    let line = |r: &Record| format!("{} {} {} {}", r.name, r.ttl, r.record_type(), r.data);
    records.iter().map(line).collect()
}
