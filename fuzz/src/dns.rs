//! DNS requests: `answer` over UDP and TCP.

use crate::group;
use gslb_core::Shared;
use gslb_core::dns::{Transport, answer};
use gslb_types::Timestamp;
use hickory_proto::op::Message;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

const HEADER: usize = 12;

/// The largest UDP reply by default.
const UDP: usize = 1232;

const LDNS: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 53));

static SHARED: LazyLock<Shared> = LazyLock::new(|| group::shared(&group::of("fra/1")));

/// Answers, and judges the reply.
pub fn run(request: &[u8]) {
    reply(&SHARED, request, Transport::Udp);
    reply(&SHARED, request, Transport::Tcp);
}

/// The reply to a request, which must be one that others understand; `None` for silence.
pub(crate) fn reply(shared: &Shared, request: &[u8], transport: Transport) -> Option<Message> {
    let mut buffer = vec![0; 65_535];
    let published = shared.published.load();
    let answered = answer(shared, &published, request, LDNS, transport, Timestamp::ZERO, &mut buffer);
    let reply = &buffer[..answered.len];
    let is_request = request.len() >= HEADER && request[2] & 0x80 == 0;
    assert!(is_request || reply.is_empty(), "a reply to what is no request");
    if reply.is_empty() {
        return None;
    }
    assert_eq!(reply[..2], request[..2], "the ID");
    assert_eq!(reply[2] & 0xf8, 0x80 | request[2] & 0x78, "QR and opcode");
    assert!(transport != Transport::Udp || reply.len() <= UDP, "{} octets", reply.len());
    let message =
        Message::from_vec(reply).unwrap_or_else(|error| panic!("undecodable: {error}: {reply:02x?}"));
    if !message.queries.is_empty() {
        let question = HEADER..HEADER + question_length(&reply[HEADER..]);
        assert_eq!(reply[question.clone()], request[question], "the question, octet for octet");
    }
    if message.metadata.truncation {
        assert!(message.answers.is_empty() && message.authorities.is_empty(), "a part of an RRset");
    }
    Some(message)
}

/// Octets of the question at the beginning.
fn question_length(octets: &[u8]) -> usize {
    let mut at = 0;
    while octets[at] != 0 {
        at += 1 + usize::from(octets[at]);
    }
    at + 5
}

/// A query by hand: a name as labels, a type, and EDNS options if any.
pub(crate) fn query(name: &str, rtype: u16, options: Option<&[u8]>) -> Vec<u8> {
    let mut packet = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(options.is_some())];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        packet.push(label.len() as u8);
        packet.extend(label.as_bytes());
    }
    packet.push(0);
    packet.extend([rtype.to_be_bytes(), [0, 1]].concat());
    if let Some(options) = options {
        packet.extend([0, 0, 41, 4, 208, 0, 0, 0, 0]);
        packet.extend((options.len() as u16).to_be_bytes());
        packet.extend(options);
    }
    packet
}

/// Queries for something of everything.
pub fn seeds() -> Vec<Vec<u8>> {
    let subnet = [0, 8, 0, 7, 0, 1, 24, 0, 198, 51, 100];
    let cookie_and_nsid = [0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 3, 0, 0];
    vec![
        query("www.gslb.test", 1, None),
        query("wWw.gslb.test", 28, Some(&[])),
        query("alias.gslb.test", 1, Some(&subnet)),
        query("gslb.test", 255, Some(&cookie_and_nsid)),
        query("x.wild.gslb.test", 16, None),
        query("a.tree.gslb.test", 1, None),
        query("loop.gslb.test", 1, None),
        query("x.sub.gslb.test", 43, None),
        query("svc.gslb.test", 65, None),
        query("nope.gslb.test", 252, None),
        query("example.org", 6, None),
        [&query("version.bind", 16, None)[..28], &[0, 3]].concat(),
    ]
}
