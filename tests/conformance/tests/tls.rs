//! DNS over TLS (RFC 7858), asked by a client of rustls, and by kdig where it is installed.
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use conformance::fixture::Setup;
use conformance::mutate::Mutator;
use conformance::packet::{Packet, query, rtype::A, rtype::SOA};
use conformance::{Node, PATIENCE, Reply, eventually, framed, next_message, ours};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// A node with DNS over TLS on an address of its own, and the certificate it shows.
struct TlsNode {
    node: Node,
    address: SocketAddr,
    certificate: CertificateDer<'static>,
}

fn start() -> TlsNode {
    start_with(Setup::default())
}

fn start_with(setup: Setup) -> TlsNode {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let certified = rcgen::generate_simple_self_signed(["dns.gslb.test".to_owned()]).expect("a certificate");
    // Nobody else uses this address: it is made of the process id.
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, 128 | high & 0x7f, low, NEXT.fetch_add(1, Ordering::Relaxed));
    let address = SocketAddr::from((address, 8853));
    let setup = setup
        .table(&format!("[dns.tls]\nlisten = [\"{address}\"]\ncertificate = \"tls.crt\"\nkey = \"tls.key\""));
    let (certificate, key) = (certified.cert.pem(), certified.signing_key.serialize_pem());
    let files = [("tls.crt", certificate.as_bytes()), ("tls.key", key.as_bytes())];
    let node = Node::start_with(&setup.text(), &files, |program| program);
    TlsNode { node, address, certificate: certified.cert.der().clone() }
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

impl TlsNode {
    fn connect(&self, alpn: &[&[u8]]) -> Stream {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = builder.expect("versions").with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        let name = ServerName::try_from("dns.gslb.test").expect("a name");
        let session = ClientConnection::new(Arc::new(config), name).expect("a session");
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        StreamOwned::new(session, stream)
    }
}

fn ask(stream: &mut Stream, packet: &Packet) -> Reply {
    stream.write_all(&framed(&packet.bytes())).expect("sent");
    Reply::of(next_message(stream).expect("read").expect("a reply"))
}

#[test]
fn queries_are_answered_as_over_tcp() {
    if !ours() {
        return;
    }
    let server = start();
    let mut tls = server.connect(&[b"dot"]);
    let mut tcp = conformance::Tcp::to(server.node.address());
    let packets = [
        query("v4only.gslb.test", A),
        query("huge.gslb.test", A).edns(512),
        query("nope.gslb.test", A).edns(1232),
        query("www.example.org", A),
        query("gslb.test", SOA).edns(1232).edns_version(1, 0),
        query("v4only.gslb.test", A).edns(1232).edns_version(0, 0x8000),
        query("wWw.gSlB.tEsT", 28),
        query("v4only.gslb.test", A).client_subnet(1, 24, &[198, 51, 100]),
        query("gslb.test", 252),
    ];
    for packet in packets {
        let (over_tls, over_tcp) = (ask(&mut tls, &packet), tcp.ask(&packet));
        assert_eq!(over_tls.rcode(), over_tcp.rcode(), "{packet:?}");
        assert_eq!(over_tls.flags(), over_tcp.flags(), "{packet:?}");
        assert_eq!(over_tls.counts(), over_tcp.counts(), "{packet:?}");
        assert_eq!(over_tls.question(), over_tcp.question(), "{packet:?}");
        assert_eq!(over_tls.opt(), over_tcp.opt(), "{packet:?}");
        assert_eq!(over_tls.sorted_answers(), over_tcp.sorted_answers(), "{packet:?}");
    }
    assert!(server.node.metric("gslb_dns_requests_total{transport=\"tls\"}") >= 8);
}

#[test]
fn pipelined_queries_are_all_answered() {
    if !ours() {
        return;
    }
    let server = start();
    // Without ALPN, as older clients are.
    let mut tls = server.connect(&[]);
    let queries: Vec<u8> = (0..100).flat_map(|id| framed(&query("gslb.test", SOA).id(id).bytes())).collect();
    tls.write_all(&queries).expect("sent");
    let mut next = || Reply::of(next_message(&mut tls).expect("read").expect("a reply"));
    let ids: BTreeSet<_> = (0..100).map(|_| next().id()).collect();
    assert_eq!(ids.len(), 100);
}

/// Nobody is kept waiting by clients that never finish, or never begin, a handshake (bar R7).
#[test]
fn handshakes_that_never_end_keep_nobody_from_asking() {
    if !ours() {
        return;
    }
    let server = start();
    let silent: Vec<_> =
        (0..100).map(|_| TcpStream::connect(server.address).expect("a connection")).collect();
    for (n, mut stream) in silent.iter().enumerate() {
        let noise: &[u8] = if n % 2 == 0 { b"\x16\x03\x01\x02\x00\x01" } else { b"GET / HTTP/1.1\r\n\r\n" };
        let _ = stream.write_all(noise);
    }
    assert_eq!(ask(&mut server.connect(&[b"dot"]), &query("gslb.test", SOA)).counts()[1], 1);
    // They are closed in the end, by the server.
    for mut stream in silent {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    }
    // What strangers do is not logged (faults I-66).
    let lines = server.node.log().lines().count();
    assert!(lines <= 5, "{}", server.node.log());
}

/// Faults I-25, threat T15: the caps are those of TCP, and the idlest goes first.
#[test]
fn hoards_make_room_for_those_who_ask() {
    if !ours() {
        return;
    }
    let setup = Setup::default().dns("tcp_connections = 20").dns("tcp_connections_per_address = 20");
    let server = start_with(setup);
    let mut asking = server.connect(&[b"dot"]);
    let hoard: Vec<_> = (0..60)
        .map(|_| {
            assert_eq!(ask(&mut asking, &query("gslb.test", SOA)).counts()[1], 1);
            TcpStream::connect(server.address).expect("a connection")
        })
        .collect();
    let is_closed = |stream: &TcpStream| {
        stream.set_nonblocking(true).expect("non-blocking");
        stream
            .peek(&mut [0; 1])
            .map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |length| length == 0)
    };
    let open = || hoard.iter().filter(|stream| !is_closed(stream)).count();
    // Well before handshakes are given up.
    eventually("the cap holds", Duration::from_secs(6), || (open() < 20).then_some(()));
    assert_eq!(ask(&mut asking, &query("gslb.test", SOA)).counts()[1], 1);
}

#[test]
fn kdig_gets_an_answer() {
    if !ours() {
        return;
    }
    if Command::new("kdig").arg("-V").output().is_err() {
        let _ = writeln!(std::io::stderr(), "skipped: needs the program `kdig` (Debian: knot-dnsutils)");
        return;
    }
    let server = start();
    let kdig = Command::new("kdig")
        .args(["+tls", "+short", "+retry=0", &format!("@{}", server.address.ip()), "-p", "8853"])
        .args(["v4only.gslb.test", "A"])
        .output()
        .expect("kdig");
    assert_eq!(String::from_utf8_lossy(&kdig.stdout).trim(), "192.0.2.4");
}

/// Threat T15: what comes out of the decryption is as hostile as over TCP.
#[test]
fn mutated_queries_end_no_more_than_their_own_connection() {
    if !ours() {
        return;
    }
    let server = start();
    let mut mutator = Mutator::new(3);
    for _ in 0..60 {
        let mut tls = server.connect(&[b"dot"]);
        tls.sock.set_read_timeout(Some(Duration::from_millis(20))).expect("a time-out");
        let octets: Vec<u8> = (0..4).flat_map(|_| framed(&mutator.packet())).collect();
        // The server may have closed by now, or keep silent.
        let _ = tls.write_all(&octets);
        while let Ok(Some(reply)) = next_message(&mut tls) {
            Reply::of(reply);
        }
    }
    assert_eq!(ask(&mut server.connect(&[b"dot"]), &query("gslb.test", SOA)).counts()[1], 1);
    assert!(!server.node.log().contains("panick"), "{}", server.node.log());
}
