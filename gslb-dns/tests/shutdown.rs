//! Faults I-71: a node that is told to stop ends at once, whoever holds a connection to it.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod process;

use nix::sys::signal::Signal;
use process::group::Group;
use std::collections::BTreeSet;
use std::io::Read;
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// More than a restart by hand would wait, less than peers need to notice by silence.
const BAR: Duration = Duration::from_secs(5);

const SOON: Duration = Duration::from_secs(30);

/// Whoever holds a connection and says nothing: to DNS, to the exchange, to the admin API.
fn silent(group: &Group, node: usize) -> Vec<TcpStream> {
    let addresses = [group.dns(node), group.mep(node), group.admin(node)];
    addresses.iter().filter_map(|address| TcpStream::connect(address).ok()).collect()
}

#[test]
fn a_node_ends_at_once_with_peers_a_stream_and_silent_clients_and_its_peers_know_why() {
    let mut group = Group::start();
    let mut stream = group.ask(0, &["--json", "peers", "--watch"]);
    stream.wait_for_line(r#""event":"state""#, SOON);
    let mut told = group.ask(1, &["--json", "peers", "--watch"]);
    told.wait_for_line(r#""event":"state""#, SOON);
    let clients = silent(&group, 0);
    assert!(clients.len() >= 2, "DNS and admin take connections");
    // A peer whose kernel acknowledges and that does not read.
    group.nodes[2].signal(Signal::SIGSTOP);

    group.nodes[0].signal(Signal::SIGTERM);
    let asked = Instant::now();
    let status = group.nodes[0].wait(SOON);
    let took = asked.elapsed();
    println!("ended {took:?} after SIGTERM");
    assert!(status.success() && took < BAR, "{status} after {took:?}");
    drop(UdpSocket::bind(group.dns(0)).unwrap());
    for mut client in clients {
        client.set_read_timeout(Some(SOON)).unwrap();
        assert!(!matches!(client.read(&mut [0; 1]), Ok(1..)), "closed without a word");
    }

    // Long before silence would tell it, which takes 10 s.
    told.wait_for_line(r#""peer":"fra/1""#, BAR);
    let known = asked.elapsed();
    println!("known to a peer {known:?} after SIGTERM");
    let peers = group.peers(1);
    let fra = peers.iter().find(|peer| peer["peer"] == "fra/1").unwrap();
    assert_eq!((&fra["state"], &fra["downs_by_reason"]["goodbye"]), (&"down".into(), &1.into()), "{fra}");
    assert!(fra["reason"].as_str().unwrap().contains("peer closed"), "{fra}");
    stream.interrupt();
    assert!(stream.wait(SOON).success());
    let events = stream.stdout();
    assert!(events.contains(r#""event":"end""#), "{events}");
}

/// Handshakes and snapshots are under way, or have not begun.
#[test]
fn a_node_ends_at_once_while_it_starts() {
    let mut group = Group::start();
    group.nodes[0].signal(Signal::SIGKILL);
    for pause in [0, 20, 60, 150, 400] {
        group.nodes[0].wait(SOON);
        group.nodes[0] = group.run(0);
        process::wait_for_listener(&group.dns(0).to_string(), SOON);
        std::thread::sleep(Duration::from_millis(pause));
        let asked = Instant::now();
        group.nodes[0].signal(Signal::SIGTERM);
        let status = group.nodes[0].wait(SOON);
        let took = asked.elapsed();
        println!("{pause} ms after it listened: ended {took:?} after SIGTERM");
        assert!(status.success() && took < BAR, "{status} after {took:?}");
    }
}

/// Bar R20: queries that have come when the node is told to stop are answered.
#[test]
fn queries_that_wait_when_a_node_is_told_to_stop_are_answered() {
    // Their replies fit into the receive buffer that the kernel gives by default.
    const QUERIES: u16 = 160;
    let mut group = Group::start();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(group.dns(0)).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    // All are there before the node sees the first of them, or that it is to stop.
    group.nodes[0].signal(Signal::SIGSTOP);
    for id in 0..QUERIES {
        let [high, low] = id.to_be_bytes();
        let query = [high, low, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1];
        assert_eq!(client.send(&query).unwrap(), query.len());
    }
    group.nodes[0].signal(Signal::SIGTERM);
    group.nodes[0].signal(Signal::SIGCONT);
    let mut unanswered: BTreeSet<u16> = (0..QUERIES).collect();
    let mut reply = [0; 512];
    while !unanswered.is_empty() && client.recv(&mut reply).is_ok() {
        unanswered.remove(&u16::from_be_bytes([reply[0], reply[1]]));
    }
    println!("{} of {QUERIES} queries that waited were not answered", unanswered.len());
    assert!(group.nodes[0].wait(SOON).success());
    assert_eq!(unanswered, BTreeSet::new());
}
