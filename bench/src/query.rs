//! The one query that is asked again and again, and whether a reply answers it.

/// What is asked beside the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// A, as a stub resolver asks.
    Plain,
    /// A with EDNS and the DO flag, as a resolver asks.
    Edns,
}

/// The bytes of a query of type A. The first two are the id, 0.
pub fn query(name: &str, kind: Query) -> Vec<u8> {
    let additional = u8::from(kind == Query::Edns);
    let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, additional];
    for label in name.split('.') {
        bytes.extend(u8::try_from(label.len()));
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.extend_from_slice(&[0, 0, 1, 0, 1]);
    if kind == Query::Edns {
        bytes.extend_from_slice(&[0, 0, 41, 0x04, 0xd0, 0, 0, 0x80, 0, 0, 0]);
    }
    bytes
}

/// Whether a reply holds one record and no error.
pub(crate) fn is_answer(reply: &[u8]) -> bool {
    matches!(reply, [_, _, flags, rcode, _, _, 0, 1, ..] if flags & 0x82 == 0x80 && rcode & 15 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_a_header_a_question_and_maybe_an_opt_record() {
        let plain = query("www.example.com", Query::Plain);
        assert_eq!(plain.len(), 12 + 17 + 4);
        assert_eq!(&plain[12..], b"\x03www\x07example\x03com\0\0\x01\0\x01");
        let edns = query("www.example.com", Query::Edns);
        assert_eq!((edns.len(), edns[11]), (plain.len() + 11, 1));
    }

    #[test]
    fn an_answer_is_whole_and_of_one_record() {
        let reply = |flags, rcode, count| is_answer(&[0, 0, flags, rcode, 0, 1, 0, count, 0, 0, 0, 0]);
        assert!(reply(0x84, 0, 1));
        assert!(!reply(0x04, 0, 1), "a query");
        assert!(!reply(0x86, 0, 1), "truncated");
        assert!(!reply(0x84, 5, 1), "refused");
        assert!(!reply(0x84, 0, 0), "empty");
        assert!(!is_answer(&[0; 4]));
    }
}
