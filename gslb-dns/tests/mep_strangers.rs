//! Reliability R7: a thousand strangers at the port of the metric exchange, none of whom gets to the point, disturb neither
//! DNS nor peers.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod process;

use process::group::Group;
use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

const STRANGERS: usize = 1000;

/// A query for gslb.test SOA.
const QUERY: &[u8] = b"\0\x07\0\0\0\x01\0\0\0\0\0\0\x04gslb\x04test\0\0\x06\0\x01";

/// The 99th percentile of the time that so many queries take, one after the other.
fn slowest_of_100(dns: SocketAddr, count: usize) -> Duration {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.connect(dns).unwrap();
    let ask = |_| {
        let asked = Instant::now();
        socket.send(QUERY).unwrap();
        let length = socket.recv(&mut [0; 512]).unwrap();
        assert!(length > QUERY.len());
        asked.elapsed()
    };
    let mut times: Vec<Duration> = (0..count).map(ask).collect();
    times.sort();
    times[count * 99 / 100]
}

/// The beginning of a TLS ClientHello, which promises 512 octets and gives 20.
const HALF_HELLO: &[u8] = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03abcdefghi";

/// Strangers that connect over TCP, say a part of a hello, and then one octet now and then.
fn over_tcp(mep: SocketAddr) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect_timeout(&mep, Duration::from_secs(5)).ok()?;
        stream.write_all(HALF_HELLO).ok()?;
        Some(stream)
    };
    (0..STRANGERS).filter_map(connect).collect()
}

/// Datagrams that look like the first of a QUIC handshake, of a thousand connections that never go on.
fn over_udp(mep: SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for n in 0..STRANGERS {
        let mut first = vec![0xc3, 0, 0, 0, 1, 8];
        first.extend((n as u64).to_be_bytes());
        first.extend([0, 0, 0x44, 0x9e]);
        first.resize(1200, 0x5a);
        // A full socket buffer is no concern of the test.
        let _ = socket.send_to(&first, mep);
    }
}

#[test]
fn strangers_at_the_exchange_disturb_neither_dns_nor_peers() {
    let mut group = Group::start();
    let (dns, mep) = (group.dns(0), group.mep(0));
    let idle = slowest_of_100(dns, 1000);
    let alone = returns(&mut group);
    let mut held = over_tcp(mep);
    let connected = held.len();
    over_udp(mep);
    let busy = slowest_of_100(dns, 1000);

    let met = returns(&mut group);
    // Whoever is still there may say one octet more.
    let alive = held.iter_mut().filter_map(|stream| stream.write_all(b"x").ok()).count();
    println!(
        "R7: {connected} of {STRANGERS} strangers over TCP and as many over UDP, {alive} not yet turned away: DNS p99 {busy:.1?} \
         (idle {idle:.1?}); a peer that restarts had sessions with both others {met:.2?} after it began to listen (alone {alone:.2?})"
    );
    // On a machine that is busy with other tests a percentile of a millisecond means little.
    assert!(busy <= idle * 5 + Duration::from_millis(20), "{idle:?} to {busy:?}");
    // Both wait up to a second or two before they dial, at random, so that not all dial at once.
    assert!(met <= Duration::from_secs(4));
}

/// Kills the last node and starts it again; how long after it began to listen it had sessions with both others.
fn returns(group: &mut Group) -> Duration {
    group.nodes.pop();
    let peer = group.run(2);
    group.nodes.push(peer);
    while TcpStream::connect(group.admin(2)).is_err() {
        thread::sleep(Duration::from_millis(5));
    }
    let listening = Instant::now();
    group.await_peers(2, "sessions", |peers| {
        peers.len() == 2 && peers.iter().all(|peer| peer["state"] == "up")
    });
    listening.elapsed()
}
