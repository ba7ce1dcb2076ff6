//! The DNS query of a DNS-UDP probe, and which messages answer it.

/// Bytes of a DNS header.
const HEADER: usize = 12;
/// The root name, type NS, class IN: what the query asks (behaviour 3: a query for "."). Every resolver knows the answer
/// or refuses it, and either is short of recursion: RD is 0, so no LDNS works for a probe.
const QUESTION: [u8; 5] = [0, 0, 2, 0, 1];

/// One query for ". NS" with a random id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    id: u16,
}

impl Query {
    /// A query nobody can foresee.
    pub(crate) fn random() -> Self {
        Query { id: rand::random() }
    }

    /// The message.
    pub(crate) fn bytes(&self) -> [u8; HEADER + QUESTION.len()] {
        let mut bytes = [0; HEADER + QUESTION.len()];
        let (header, question) = bytes.split_at_mut(HEADER);
        header[..2].copy_from_slice(&self.id.to_be_bytes());
        header[5] = 1; // QDCOUNT
        question.copy_from_slice(&QUESTION);
        bytes
    }

    /// Whether the message answers this query, with whatever rcode, truncated or not (faults I-33).
    ///
    /// Id and question must be ours (RFC 5452 section 4.2). An error may leave the question out, as some servers do with
    /// FORMERR and REFUSED.
    pub(crate) fn is_answered_by(&self, message: &[u8]) -> bool {
        let Some((header, rest)) = message.split_at_checked(HEADER) else { return false };
        let [id_hi, id_lo, flags, rcode, qd_hi, qd_lo, ..] = *header else { return false };
        let is_query_response = flags & 0xf8 == 0x80; // QR, opcode QUERY
        u16::from_be_bytes([id_hi, id_lo]) == self.id
            && is_query_response
            && match u16::from_be_bytes([qd_hi, qd_lo]) {
                0 => rcode & 0x0f != 0,
                1 => rest.starts_with(&QUESTION),
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Query = Query { id: 0xabcd };

    fn answer(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = OURS.bytes().to_vec();
        bytes[2] |= 0x80;
        change(&mut bytes);
        bytes
    }

    #[test]
    fn the_query_asks_for_the_root_without_recursion() {
        assert_eq!(OURS.bytes(), [0xab, 0xcd, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1]);
    }

    #[test]
    fn any_rcode_answers() {
        for rcode in 0..16 {
            assert!(OURS.is_answered_by(&answer(|b| b[3] = rcode)), "{rcode}");
        }
    }

    #[test]
    fn a_truncated_answer_answers() {
        assert!(OURS.is_answered_by(&answer(|b| b[2] |= 0x02)));
    }

    #[test]
    fn an_error_without_the_question_answers() {
        let header_only = |rcode| {
            answer(|b| {
                b.truncate(HEADER);
                b[3] = rcode;
                b[5] = 0;
            })
        };
        assert!(OURS.is_answered_by(&header_only(1)));
        assert!(!OURS.is_answered_by(&header_only(0)), "no error, so the question is due");
    }

    #[test]
    fn what_is_not_ours_does_not_answer() {
        assert!(!OURS.is_answered_by(&OURS.bytes()), "our own query, sent back");
        assert!(!OURS.is_answered_by(&answer(|b| b[1] ^= 1)), "id");
        assert!(!OURS.is_answered_by(&answer(|b| b[14] = 1)), "type");
        assert!(!OURS.is_answered_by(&answer(|b| b[16] = 3)), "class");
        assert!(!OURS.is_answered_by(&answer(|b| b.splice(12..13, [1, b'a', 0]).for_each(drop))), "name");
        assert!(!OURS.is_answered_by(&answer(|b| b[2] |= 0x28)), "opcode");
        assert!(!OURS.is_answered_by(&answer(|b| b[5] = 2)), "two questions");
        for len in 0..17 {
            assert!(!OURS.is_answered_by(&answer(|b| b.truncate(len))), "cut at {len}");
        }
    }
}
