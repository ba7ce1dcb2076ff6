//! Who asks is probed, and who must not be is not (behaviour 3, faults I-42, threat T4).
#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use conformance::fixture::Setup;
use conformance::packet::{query, rtype::A, rtype::TXT};
use conformance::{PATIENCE, Udp, eventually, ours};
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A resolver that answers probes on an address of loopback, and counts them.
struct Resolver {
    address: IpAddr,
    probes: Arc<AtomicU64>,
}

impl Resolver {
    fn start(address: [u8; 4], port: u16) -> Resolver {
        let probes = Arc::new(AtomicU64::new(0));
        let socket = UdpSocket::bind((IpAddr::from(address), port)).expect("an address of loopback");
        let counter = probes.clone();
        // It ends with the process.
        thread::spawn(move || {
            let mut packet = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut packet) {
                counter.fetch_add(1, Ordering::Relaxed);
                packet[2] |= 0x80;
                let _ = socket.send_to(&packet[..length], from);
            }
        });
        Resolver { address: address.into(), probes }
    }

    fn probes(&self) -> u64 {
        self.probes.load(Ordering::Relaxed)
    }
}

/// A port that is free on all addresses of loopback.
fn free_port() -> u16 {
    let any = UdpSocket::bind(("0.0.0.0", 0)).expect("a port");
    any.local_addr().expect("bound").port()
}

#[test]
fn an_ldns_that_asks_is_probed_and_excluded_ones_are_not() {
    if !ours() {
        return;
    }
    let port = free_port();
    let setup = Setup::default().listen(&["0.0.0.0:0"]).table(&format!(
        "[probe]\norder = [\"dns-udp\"]\nport = {port}\ninterval = \"200ms\"\ntimeout = \"100ms\"\n\
         per_prefix = 100\nretry_order = \"1s\"\n\
         [ldns]\ninclude = [\"127.53.0.0/16\"]\nexclude = [\"127.53.9.0/24\"]"
    ));
    let node = setup.start();
    let server = |n: u8| ([127, 53, 0, n], node.address().port()).into();
    let near = Resolver::start([127, 53, 1, 1], port);
    let excluded = Resolver::start([127, 53, 9, 1], port);
    let loopback = Resolver::start([127, 0, 0, 1], port);
    let static_only = Resolver::start([127, 53, 1, 2], port);
    for _ in 0..3 {
        for resolver in [&excluded, &loopback, &near] {
            let reply = Udp::from(resolver.address, server(1)).ask(&query("www.gslb.test", A));
            assert_eq!(reply.counts()[1], 1);
        }
        // Who asks nothing that an RTT decides is nobody to be measured.
        Udp::from(static_only.address, server(1)).ask(&query("v4only.gslb.test", A));
        Udp::from(static_only.address, server(1)).ask(&query("www.gslb.test", TXT));
    }
    eventually("five rounds", PATIENCE, || (near.probes() >= 5).then_some(()));
    let others = [&excluded, &loopback, &static_only].map(Resolver::probes);
    assert_eq!(others, [0, 0, 0]);
    let known = node.get("/v1/ldns");
    assert_eq!(known["total"], 1, "{known}");
    assert_eq!(known["ldns"][0]["ldns"], "127.53.1.1", "{known}");
}

/// Over TCP and for an alias too.
#[test]
fn it_does_not_matter_how_the_ldns_asked() {
    if !ours() {
        return;
    }
    let port = free_port();
    let setup = Setup::default().table(&format!(
        "[probe]\norder = [\"dns-udp\"]\nport = {port}\ninterval = \"200ms\"\ntimeout = \"100ms\"\nper_prefix = 100\n\
         retry_order = \"1s\"\n[ldns]\ninclude = [\"127.53.0.0/16\"]"
    ));
    let node = setup.start();
    let (by_tcp, by_alias) = (Resolver::start([127, 53, 2, 1], port), Resolver::start([127, 53, 2, 2], port));
    conformance::Tcp::from(by_tcp.address, node.address()).ask(&query("www.gslb.test", A));
    Udp::from(by_alias.address, node.address()).ask(&query("chain.gslb.test", A));
    eventually("both are probed", PATIENCE, || (by_tcp.probes() > 0 && by_alias.probes() > 0).then_some(()));
}
