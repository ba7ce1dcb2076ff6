//! Another implementation's opinion: hickory-server's catalogue and gslb-dns serve one zone, and are asked the same questions.
//!
//! Only what a zone's data decide is compared: response code and answer section. What hickory-server 0.26 itself gets wrong is
//! left out by name, with its reason.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use conformance::{Udp, fixture::Setup, query};
use hickory_net::runtime::TokioRuntimeProvider;
use hickory_proto::op::Message;
use hickory_proto::rr::{LowerName, Name};
use hickory_proto::serialize::txt::Parser;
use hickory_server::Server;
use hickory_server::store::in_memory::InMemoryZoneHandler;
use hickory_server::zone_handler::{AxfrPolicy, Catalog, ZoneType};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

const ORIGIN: &str = "plain.test.";

const ZONE: &str = "\
@         3600 IN SOA   ns1 hostmaster 1 7200 1800 259200 5
@         3600 IN NS    ns1
@         3600 IN NS    ns2
@         3600 IN MX    10 mail
@         3600 IN TXT   \"one\" \"two\"
ns1       3600 IN A     192.0.2.1
ns2       3600 IN A     192.0.2.2
ns2       3600 IN AAAA  2001:db8::2
mail      3600 IN A     192.0.2.3
www         60 IN A     192.0.2.4
www         60 IN A     192.0.2.5
www         60 IN AAAA  2001:db8::4
alias       60 IN CNAME www
chain       60 IN CNAME alias
out         60 IN CNAME www.example.org.
a.b.ent     60 IN A     192.0.2.6
*.wild      60 IN A     192.0.2.7
_sip._tcp   60 IN SRV   1 2 5060 www
ptr         60 IN PTR   www
";

const NAMES: [&str; 20] = [
    "",
    "ns1.",
    "ns2.",
    "mail.",
    "www.",
    "WwW.",
    "alias.",
    "chain.",
    "out.",
    "a.b.ent.",
    "b.ent.",
    "ent.",
    "c.b.ent.",
    "x.wild.",
    "x.y.wild.",
    "_sip._tcp.",
    "_tcp.",
    "ptr.",
    "nope.",
    "x.www.",
];

/// A, NS, CNAME, SOA, PTR, MX, TXT, AAAA, SRV, and a type nobody has.
const TYPES: [u16; 10] = [1, 2, 5, 6, 12, 15, 16, 28, 33, 65_399];

/// The catalogue at a port of its own, until the runtime ends.
async fn catalogue() -> SocketAddr {
    let origin = Name::from_ascii(ORIGIN).unwrap();
    let (origin, records) = Parser::new(ZONE, None, Some(origin)).parse().unwrap();
    let zone: InMemoryZoneHandler<TokioRuntimeProvider> =
        InMemoryZoneHandler::new(origin.clone(), records, ZoneType::Primary, AxfrPolicy::Deny).unwrap();
    let mut catalog = Catalog::new();
    catalog.upsert(LowerName::new(&origin), vec![Arc::new(zone)]);
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let mut server = Server::new(catalog);
    server.register_socket(socket);
    tokio::spawn(async move { server.block_until_done().await });
    address
}

/// Response code and answers: owner in lower case, type and data; the order within an RRset says nothing.
fn opinion(server: SocketAddr, name: &str, rtype: u16) -> (String, BTreeSet<String>) {
    let udp = Udp::to(server);
    udp.send(&query(name, rtype).bytes());
    let mut buffer = [0; 4096];
    let len = udp.socket().recv(&mut buffer).unwrap();
    let reply = Message::from_vec(&buffer[..len]).unwrap();
    let answers = reply.answers.iter();
    let line =
        |r: &hickory_proto::rr::Record| format!("{} {} {}", r.name.to_lowercase(), r.record_type(), r.data);
    (reply.metadata.response_code.to_string(), answers.map(line).collect())
}

/// What is known to be wrong or a matter of taste in hickory-server, not here.
fn is_excepted(name: &str, rtype: u16) -> bool {
    let wildcard = name.ends_with("wild.");
    // Wildcard NODATA is NXDOMAIN there (faults I-12); RFC 4592 section 2.2.1 and four other servers say NODATA.
    wildcard && rtype != 1
}

#[test]
fn gslb_dns_and_hickory_server_agree_on_plain_zones() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let theirs = runtime.block_on(catalogue());
    let node =
        Setup::default().table(&format!("[[zones]]\nname = \"{ORIGIN}\"\nrecords = '''\n{ZONE}'''")).start();
    let ours = node.address();
    let mut compared = 0;
    for name in NAMES {
        for rtype in TYPES.into_iter().filter(|t| !is_excepted(name, *t)) {
            let name = format!("{name}{ORIGIN}");
            assert_eq!(opinion(ours, &name, rtype), opinion(theirs, &name, rtype), "{name} TYPE{rtype}");
            compared += 1;
        }
    }
    assert!(compared > 150, "{compared} questions");
}
