//! Packets nobody would send on purpose. Whatever comes in: no panic, and every reply is one that a resolver understands.

mod dns_support;

use dns_support::{Packet, Server, UDP_PAYLOAD, query};
use gslb_core::dns::Transport;
use hickory_proto::op::Message;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Replies are judged by what the request asks for, read here a second time, by hickory-proto.
fn judge(server: &Server, request: &[u8], transport: Transport) -> Result<(), TestCaseError> {
    let reply = server.send(request, transport);
    if request.len() < 12 || request[2] & 0x80 != 0 {
        prop_assert!(reply.is_empty(), "a reply to what is no request");
        return Ok(());
    }
    prop_assert!(!reply.is_empty(), "this fixture has something to say to every request");
    prop_assert_eq!(&reply[..2], &request[..2], "the id");
    prop_assert_eq!(reply[2] & 0xf8, 0x80 | request[2] & 0x78, "QR is set and the opcode copied");
    prop_assert!(reply.len() <= limit(request, transport), "{} bytes", reply.len());
    let Ok(message) = Message::from_vec(&reply) else {
        return Err(TestCaseError::fail(format!("undecodable: {reply:x?}")));
    };
    if let [_] = message.queries[..] {
        let question = 12..question_end(&reply);
        prop_assert_eq!(&reply[question.clone()], &request[question], "the question, octet for octet");
    }
    let whole = u16::from(message.metadata.response_code) & 15;
    if whole == 1 || message.metadata.truncation {
        prop_assert!(message.answers.is_empty() && message.authorities.is_empty());
    }
    Ok(())
}

fn question_end(reply: &[u8]) -> usize {
    let mut at = 12;
    while reply[at] != 0 {
        at += 1 + usize::from(reply[at]);
    }
    at + 5
}

/// What the asker may be sent at most. Where hickory-proto cannot read the request, 512 bytes.
fn limit(request: &[u8], transport: Transport) -> usize {
    match transport {
        Transport::Udp => {
            let edns = Message::from_vec(request).ok().and_then(|m| m.edns);
            let strict = edns.map_or(512, |e| usize::from(e.max_payload().clamp(512, UDP_PAYLOAD)));
            // A request hickory-proto refuses and this server takes, say for a client subnet of family 0.
            if Message::from_vec(request).is_err() { usize::from(UDP_PAYLOAD) } else { strict }
        }
        Transport::Tcp | Transport::Tls => 65535,
    }
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "gslb.test",
        "www.gslb.test",
        "alias.gslb.test",
        "x.wild.gslb.test",
        "b.ent.gslb.test",
        "big.gslb.test",
        "huge.gslb.test",
        "nope.gslb.test",
        "_sip._tcp.gslb.test",
        "test",
        "",
        "example.org",
        "version.bind",
    ]);
    let label = vec(any::<u8>(), 1..64).prop_map(|l| [vec![l.len() as u8], l].concat());
    let below = (vec(label, 0..4), known)
        .prop_map(|(labels, tail)| [labels.concat(), dns_support::wire(tail)].concat());
    below.boxed()
}

fn qtype() -> impl Strategy<Value = u16> {
    prop_oneof![
        prop::sample::select(vec![1u16, 2, 5, 6, 15, 16, 28, 33, 41, 43, 64, 65, 250, 251, 252, 255, 257]),
        any::<u16>(),
    ]
}

fn option() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let code = prop_oneof![Just(8u16), Just(3), Just(10), any::<u16>()];
    let subnet = (0u16..4, 0u8..140, vec(any::<u8>(), 0..18));
    let data = prop_oneof![
        vec(any::<u8>(), 0..40),
        subnet.prop_map(|(family, source, address)| {
            [&family.to_be_bytes()[..], &[source, 0], &address].concat()
        }),
    ];
    (code, data)
}

prop_compose! {
    /// A packet that is well formed, or nearly.
    fn packet()(
        name in name(), qtype in qtype(), class in prop_oneof![9 => Just(1u16), 1 => any::<u16>()],
        flags in prop_oneof![4 => Just(0x0100u16), 1 => any::<u16>()],
        edns in prop::option::of((any::<u16>(), prop_oneof![9 => Just(0u8), 1 => any::<u8>()], any::<u16>())),
        options in vec(option(), 0..4), extra in prop_oneof![9 => Just(vec![]), 1 => vec(any::<u8>(), 1..60)],
    ) -> Packet {
        let mut packet = Packet::new().flags(flags).question(&name, qtype, class);
        if !extra.is_empty() {
            packet = packet.additional(1, &extra);
        }
        if let Some((size, version, flags)) = edns {
            packet = packet.edns(size).version(version).edns_flags(flags);
            for (code, data) in options {
                packet = packet.option(code, &data);
            }
        }
        packet
    }
}

/// Changes of the bytes: overwritten, cut out, put in.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<u8>(), 0..4u8);
    (packet(), vec(change, 1..6)).prop_map(|(packet, changes)| {
        let mut bytes = packet.bytes();
        for (at, value, kind) in changes {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = value,
                1 => bytes[at] ^= 1 << (value % 8),
                2 if bytes.len() > 1 => {
                    bytes.remove(at);
                }
                _ => bytes.insert(at, value),
            }
        }
        bytes
    })
}

fn run<S: Strategy<Value = Vec<u8>>>(cases: u32, strategy: S) {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2000, ..Config::default() };
    // A fixed seed: what failed once fails again.
    let seed = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let server = Server::new();
    let healthy = query("www.gslb.test", 1);
    let mut runner = TestRunner::new_with_rng(config, seed);
    let result = runner.run(&strategy, |bytes| {
        judge(&server, &bytes, Transport::Udp)?;
        judge(&server, &bytes, Transport::Tcp)
    });
    assert!(result.is_ok(), "{}", result.map_or_else(|error| error.to_string(), |()| String::new()));
    assert_eq!(server.ask(&healthy).addresses().len(), 1);
}

#[test]
fn well_formed_packets_get_replies_that_resolvers_understand() {
    run(10_000, packet().prop_map(|p| p.bytes()));
}

#[test]
fn mutated_packets_get_replies_that_resolvers_understand() {
    run(30_000, mutated());
}

#[test]
fn noise_gets_replies_that_resolvers_understand() {
    run(10_000, vec(any::<u8>(), 0..120));
}
