//! The query of a dns check, and what answers it.

use gslb_types::DnsCheck;
use hickory_proto::op::{Message, MessageType, OpCode, Query as Question, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use std::net::IpAddr;
use std::str::FromStr;

/// One query.
pub(super) struct Query {
    id: u16,
    question: Question,
    bytes: Vec<u8>,
}

/// What a message is to a query.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// An answer as it should be.
    Well,
    /// An answer that does not fit a datagram.
    Truncated,
    /// Another answer, for this reason.
    Wrongly(String),
    /// None to this query.
    Not,
}

impl Query {
    /// Without EDNS: every server knows it.
    pub(super) fn of(check: &DnsCheck, id: u16) -> Result<Self, String> {
        let name = Name::from_str(&check.name).map_err(|e| format!("'{}' is no name: {e}", check.name))?;
        let question = Question::query(name, RecordType::from(check.rtype));
        let mut message = Message::new(id, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = check.recurse;
        message.add_query(question.clone());
        let bytes = message.to_vec().map_err(|e| format!("the query can't be sent: {e}"))?;
        Ok(Query { id, question, bytes })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What this message is to the query. Id and question must be ours (RFC 5452 section 4.2); an error may leave the
    /// question out.
    pub(super) fn answered(&self, bytes: &[u8], check: &DnsCheck) -> Answered {
        let [high, low, flags, ..] = *bytes else { return Answered::Not };
        if u16::from_be_bytes([high, low]) != self.id || flags & 0x80 == 0 {
            return Answered::Not;
        }
        let Ok(message) = Message::from_vec(bytes) else {
            return Answered::Wrongly("not DNS, or half of a message".to_owned());
        };
        let rcode = u16::from(message.metadata.response_code);
        match message.queries.as_slice() {
            [question] if *question == self.question => {}
            [] if rcode != 0 => {}
            _ => return Answered::Not,
        }
        if message.metadata.truncation {
            return Answered::Truncated;
        }
        if rcode != check.rcode {
            let expected: ResponseCode = check.rcode.into();
            return Answered::Wrongly(format!(
                "{}, expected {}",
                message.metadata.response_code.to_str(),
                expected.to_str()
            ));
        }
        addresses(&message, check)
    }
}

fn addresses(message: &Message, check: &DnsCheck) -> Answered {
    let address = |data: &RData| match data {
        RData::A(a) => Some(IpAddr::V4(a.0)),
        RData::AAAA(a) => Some(IpAddr::V6(a.0)),
        _ => None,
    };
    let given: Vec<IpAddr> = message.answers.iter().filter_map(|record| address(&record.data)).collect();
    if check.addresses.is_empty() || given.iter().any(|a| check.addresses.contains(a)) {
        return Answered::Well;
    }
    let list = |addresses: &[IpAddr], between: &str| {
        addresses.iter().take(8).map(IpAddr::to_string).collect::<Vec<_>>().join(between)
    };
    let given = if given.is_empty() { "no address".to_owned() } else { list(&given, ", ") };
    Answered::Wrongly(format!("{given}, expected {}", list(&check.addresses, " or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check() -> DnsCheck {
        DnsCheck {
            name: "www.example.".to_owned(),
            rtype: 1,
            recurse: false,
            rcode: 0,
            addresses: vec!["192.0.2.1".parse().unwrap()],
        }
    }

    /// A response to the query with these flags and rcode, and one A record.
    fn response(query: &Query, flags: u8, rcode: u8, address: [u8; 4]) -> Vec<u8> {
        let mut bytes = query.bytes().to_vec();
        bytes[2] |= 0x80 | flags;
        bytes[3] = rcode;
        bytes[7] = 1;
        bytes.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4]);
        bytes.extend_from_slice(&address);
        bytes
    }

    #[test]
    fn an_answer_is_ours_and_says_what_it_should() {
        let check = check();
        let query = Query::of(&check, 0xabcd).unwrap();
        let answered = |bytes: &[u8]| query.answered(bytes, &check);
        let good = response(&query, 0, 0, [192, 0, 2, 1]);
        assert_eq!(answered(&good), Answered::Well);
        assert_eq!(answered(&response(&query, 2, 0, [192, 0, 2, 1])), Answered::Truncated);
        let other = "192.0.2.9, expected 192.0.2.1".to_owned();
        assert_eq!(answered(&response(&query, 0, 0, [192, 0, 2, 9])), Answered::Wrongly(other));
        let rcode = "Server Failure, expected No Error".to_owned();
        assert_eq!(answered(&response(&query, 0, 2, [192, 0, 2, 1])), Answered::Wrongly(rcode));
        assert_eq!(answered(query.bytes()), Answered::Not, "our own query, sent back");
        let mut stranger = good.clone();
        stranger[0] ^= 1;
        assert_eq!(answered(&stranger), Answered::Not);
        let mut question = good.clone();
        question[13] ^= 1;
        assert_eq!(answered(&question), Answered::Not);
        for half in 3..good.len() {
            assert!(matches!(answered(&good[..half]), Answered::Wrongly(_)), "{half}");
        }
    }

    #[test]
    fn the_case_of_the_name_does_not_matter() {
        let check = check();
        let query = Query::of(&check, 1).unwrap();
        let mut bytes = response(&query, 0, 0, [192, 0, 2, 1]);
        bytes[13] = b'W';
        assert_eq!(query.answered(&bytes, &check), Answered::Well);
    }

    #[test]
    fn random_bytes_are_no_good_answer() {
        let check = check();
        let query = Query::of(&check, 7).unwrap();
        for seed in 0..20_000u32 {
            let mut bytes = response(&query, 0, 0, [192, 0, 2, 2]);
            let at = (seed as usize * 7919) % bytes.len();
            bytes[at] = (seed >> 3) as u8;
            bytes.truncate(bytes.len() - (seed as usize % 5));
            let is_the_address = at == bytes.len() - 1;
            assert!(is_the_address || query.answered(&bytes, &check) != Answered::Well, "{bytes:?}");
        }
    }
}
