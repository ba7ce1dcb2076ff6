//! The laboratory keeps what it promises, on real sockets.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use lab::{Flood, Kind, Lab, Rejection, Topology, Unreachable, can_run, left_behind, spread};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How far a measured round trip may be from what was set; mostly it is 0.4 ms.
const EXACT: Duration = Duration::from_millis(2);

/// Longer than every round trip here.
const PATIENCE: Duration = Duration::from_millis(500);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Two sites and an LDNS: fra - iad 20 ms, fra - ldns 12 ms, iad - ldns 50 ms there and back.
fn small() -> Topology {
    Topology::new("itself")
        .site("fra")
        .site("iad")
        .ldns("ldns")
        .link("fra", "iad", ms(10))
        .link("fra", "ldns", ms(6))
        .link("iad", "ldns", ms(25))
}

#[track_caller]
fn assert_near(measured: Option<Duration>, set: Duration) {
    let measured = measured.expect("a reply");
    assert!(measured >= set, "{measured:?} is less than the {set:?} that was set");
    assert!(measured - set < EXACT, "{measured:?} instead of {set:?}");
}

/// One UDP exchange from a node to a port where nobody need listen.
fn udp(lab: &Lab, from: &str, to: impl Into<SocketAddr>) -> io::Result<Duration> {
    let to = to.into();
    let exchange = || {
        let any: IpAddr = if to.is_ipv6() { [0u16; 8].into() } else { [0u8; 4].into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.connect(to)?;
        let sent = Instant::now();
        socket.send(b"anyone there?")?;
        socket.recv(&mut [0; 64]).map(|_| sent.elapsed())
    };
    lab.in_namespace(from, exchange).expect("namespace")
}

fn tcp(lab: &Lab, from: &str, to: impl Into<SocketAddr>) -> io::Result<Duration> {
    let to = to.into();
    let connect = || {
        let sent = Instant::now();
        TcpStream::connect_timeout(&to, PATIENCE).map(|_| sent.elapsed())
    };
    lab.in_namespace(from, connect).expect("namespace")
}

fn error_of(result: io::Result<Duration>) -> ErrorKind {
    result.expect_err("an error").kind()
}

#[test]
fn ping_measures_the_set_delay_in_both_families() {
    if !can_run(&[]) {
        return;
    }
    let lab = small().up().expect("up");
    for (from, to, round_trip) in [("fra", "iad", 20), ("fra", "ldns", 12), ("ldns", "iad", 50)] {
        for address in [IpAddr::V4(lab.v4(to)), IpAddr::V6(lab.v6(to))] {
            assert_eq!(lab.round_trip(from, address), Some(ms(round_trip)));
            assert_near(lab.ping(from, address, 9).expect("ping"), ms(round_trip));
        }
    }
}

#[test]
fn a_new_delay_is_measured_at_once() {
    if !can_run(&[]) {
        return;
    }
    let lab = small().up().expect("up");
    lab.set_link("fra", "ldns", ms(40));
    assert_near(lab.ping("fra", lab.v4("ldns").into(), 5).expect("ping"), ms(80));
    lab.set_one_way("fra", "ldns", ms(5));
    assert_near(lab.ping("fra", lab.v4("ldns").into(), 5).expect("ping"), ms(45));
}

#[test]
fn a_cut_is_silence_until_it_is_healed() {
    if !can_run(&[]) {
        return;
    }
    let lab = small().up().expect("up");
    let iad = lab.v4("iad").into();
    let alive =
        |from| lab.in_namespace(from, || lab::ping(iad, PATIENCE)).expect("namespace").expect("no error");
    lab.cut("fra", "iad");
    assert_eq!(alive("fra"), None);
    assert!(alive("ldns").is_some(), "a cut is between two nodes alone");
    assert_eq!(lab.round_trip("fra", iad), None);
    lab.heal("fra", "iad");
    assert!(alive("fra").is_some());
    lab.cut_one_way("iad", "fra");
    assert_eq!(alive("fra"), None);
    assert_eq!((lab.stats("fra", "iad").cut, lab.stats("iad", "fra").cut), (1, 1));
    lab.isolate("iad");
    assert_eq!(alive("ldns"), None);
    lab.heal_all();
    assert!(alive("fra").is_some() && alive("ldns").is_some());
}

#[test]
fn a_node_without_a_server_answers_as_a_host_does() {
    if !can_run(&[]) {
        return;
    }
    let lab = small().up().expect("up");
    for ldns in [IpAddr::V4(lab.v4("ldns")), IpAddr::V6(lab.v6("ldns"))] {
        assert_eq!(error_of(udp(&lab, "fra", (ldns, 53))), ErrorKind::ConnectionRefused);
        assert_eq!(error_of(tcp(&lab, "fra", (ldns, 53))), ErrorKind::ConnectionRefused);
    }
}

#[test]
fn a_filter_drops_each_kind_for_itself() {
    if !can_run(&[]) {
        return;
    }
    let lab = small().up().expect("up");
    let ldns: IpAddr = lab.v4("ldns").into();
    let pinged =
        || lab.in_namespace("fra", || lab::ping(ldns, PATIENCE)).expect("namespace").expect("no error");
    let refused = |result| error_of(result) == ErrorKind::ConnectionRefused;

    lab.drop_kinds("ldns", &[Kind::Icmp]);
    assert_eq!(pinged(), None);
    assert!(refused(udp(&lab, "fra", (ldns, 53))) && refused(tcp(&lab, "fra", (ldns, 53))));

    lab.drop_kinds("ldns", &[Kind::Icmp, Kind::Udp]);
    assert_eq!(error_of(udp(&lab, "fra", (ldns, 53))), ErrorKind::WouldBlock);
    assert!(refused(tcp(&lab, "fra", (ldns, 53))));

    lab.drop_kinds("ldns", &[Kind::Icmp, Kind::Udp, Kind::Tcp]);
    assert_eq!(error_of(tcp(&lab, "fra", (ldns, 53))), ErrorKind::TimedOut);
    // What it asks itself is answered.
    assert!(lab.ping("ldns", lab.v4("fra").into(), 1).expect("ping").is_some());
    assert!(refused(tcp(&lab, "ldns", (lab.v4("fra"), 53))));

    lab.drop_kinds("ldns", &[]);
    assert!(pinged().is_some());
}

#[test]
fn a_node_can_turn_packets_away_in_every_manner() {
    if !can_run(&["nft"]) {
        return;
    }
    let lab = small().up().expect("up");
    for ldns in [IpAddr::V4(lab.v4("ldns")), IpAddr::V6(lab.v6("ldns"))] {
        let listening = lab.in_namespace("ldns", || TcpListener::bind((ldns, 53))).expect("namespace");
        let _listening = listening.expect("bind");
        assert!(tcp(&lab, "fra", (ldns, 53)).expect("accepted") >= ms(12));
        lab.reject("ldns", &[("tcp dport 53", Rejection::Reset)]).expect("nft");
        assert_eq!(error_of(tcp(&lab, "fra", (ldns, 53))), ErrorKind::ConnectionRefused);
        lab.reject("ldns", &[("udp dport 53", Rejection::Prohibited)]).expect("nft");
        let prohibited = error_of(udp(&lab, "fra", (ldns, 53)));
        assert!(
            matches!(prohibited, ErrorKind::HostUnreachable | ErrorKind::PermissionDenied),
            "{prohibited:?}"
        );
        assert!(tcp(&lab, "fra", (ldns, 53)).is_ok(), "rules are replaced, not added");
        lab.reject("ldns", &[("udp dport 53", Rejection::Silence)]).expect("nft");
        assert_eq!(error_of(udp(&lab, "fra", (ldns, 53))), ErrorKind::WouldBlock);
        lab.reject("ldns", &[]).expect("nft");
        assert_eq!(error_of(udp(&lab, "fra", (ldns, 53))), ErrorKind::ConnectionRefused);
    }
}

#[test]
fn a_router_on_the_way_can_reject() {
    if !can_run(&[]) {
        return;
    }
    let lab = small().up().expect("up");
    lab.reject_on_the_way("fra", "ldns", Unreachable::Host);
    assert_eq!(error_of(tcp(&lab, "fra", (lab.v4("ldns"), 53))), ErrorKind::HostUnreachable);
    assert_eq!(error_of(tcp(&lab, "fra", (lab.v6("ldns"), 53))), ErrorKind::HostUnreachable);
    lab.reject_on_the_way("fra", "ldns", Unreachable::Port);
    assert_eq!(error_of(udp(&lab, "fra", (lab.v4("ldns"), 53))), ErrorKind::ConnectionRefused);
    assert_eq!(error_of(udp(&lab, "fra", (lab.v6("ldns"), 53))), ErrorKind::ConnectionRefused);
    assert_eq!(lab.stats("ldns", "fra").packets, 0, "the LDNS itself said nothing");
    assert!(lab.stats("fra", "ldns").rejected >= 4);
    lab.heal("fra", "ldns");
    assert!(lab.ping("fra", lab.v4("ldns").into(), 1).expect("ping").is_some());
}

#[test]
fn stats_count_what_crossed_each_link() {
    if !can_run(&[]) {
        return;
    }
    let lab = small().up().expect("up");
    lab.ping("fra", lab.v4("ldns").into(), 4).expect("ping");
    assert!(udp(&lab, "fra", (lab.v4("ldns"), 53)).is_err());
    assert!(tcp(&lab, "fra", (lab.v4("ldns"), 53)).is_err());
    let (there, back) = (lab.stats("fra", "ldns"), lab.stats("ldns", "fra"));
    assert_eq!((there.packets, there.icmp, there.udp, there.tcp), (6, 4, 1, 1));
    assert_eq!((there.pings, there.requests, there.connects), (4, 1, 1));
    assert_eq!((back.packets, back.icmp, back.udp, back.tcp), (6, 5, 0, 1));
    assert_eq!((back.pings, back.requests, back.connects), (0, 0, 0));
    assert_eq!(lab.stats("fra", "iad").packets, 0);
    assert_eq!(lab.unroutable(), 0);
    lab.reset_stats();
    assert_eq!(lab.stats("fra", "ldns").packets, 0);
}

#[test]
fn pool_addresses_are_as_far_as_the_truth_says() {
    if !can_run(&[]) {
        return;
    }
    let far = || spread(ms(2), ms(60));
    let lab = small().pool("pool").link("fra", "pool", far()).link("iad", "pool", far()).seed(7);
    let lab = lab.up().expect("up");
    let mut distances = Vec::new();
    for n in [1, 2, 300, 65_534] {
        for address in [IpAddr::V4(lab.nth_v4("pool", n)), IpAddr::V6(lab.nth_v6("pool", n.into()))] {
            let truth = lab.truth(address);
            assert_eq!(truth.len(), 2, "only sites: {truth:?}");
            assert!(truth[0].1 <= truth[1].1, "nearest first: {truth:?}");
            for (site, round_trip) in truth {
                let round_trip = round_trip.expect("not cut");
                assert_near(lab.ping(&site, address, 5).expect("ping"), round_trip);
                distances.push(round_trip);
            }
        }
    }
    distances.sort();
    distances.dedup();
    assert!(distances.len() > 12, "distances differ: {distances:?}");
}

#[test]
fn two_labs_at_once_do_not_meet() {
    if !can_run(&[]) {
        return;
    }
    let (one, two) = (small().up().expect("up"), small().up().expect("up"));
    two.set_link("fra", "ldns", ms(30));
    one.cut("fra", "iad");
    assert_near(one.ping("fra", one.v4("ldns").into(), 5).expect("ping"), ms(12));
    assert_near(two.ping("fra", two.v4("ldns").into(), 5).expect("ping"), ms(60));
    assert_near(two.ping("fra", two.v4("iad").into(), 5).expect("ping"), ms(20));
    drop(one);
    assert_near(two.ping("fra", two.v4("ldns").into(), 5).expect("ping"), ms(60));
}

#[test]
fn packets_of_a_link_stay_in_order_under_jitter() {
    if !can_run(&[]) {
        return;
    }
    let lab = small().up().expect("up");
    lab.set_link("fra", "ldns", lab::Link::from(ms(20)).jitter(ms(10)));
    let ldns = lab.v4("ldns");
    let bind = || UdpSocket::bind((ldns, 5300));
    let receiver = lab.in_namespace("ldns", bind).expect("namespace").expect("bind");
    receiver.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let send = || {
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        (0..200u8).try_for_each(|n| socket.send_to(&[n], (ldns, 5300)).map(|_| ()))
    };
    lab.in_namespace("fra", send).expect("namespace").expect("sent");
    for expected in 0..200 {
        let mut datagram = [0];
        receiver.recv(&mut datagram).expect("none lost");
        assert_eq!(datagram[0], expected);
    }
}

#[test]
fn a_flood_comes_from_many_sources_and_is_counted() {
    if !can_run(&[]) {
        return;
    }
    let lab = small().pool("pool").up().expect("up");
    for target in [SocketAddr::from((lab.v4("fra"), 53)), SocketAddr::from((lab.v6("fra"), 53))] {
        let sources = if target.is_ipv6() { lab.prefix_v6("pool") } else { lab.prefix_v4("pool") };
        let listen = || UdpSocket::bind(target);
        let listener = lab.in_namespace("fra", listen).expect("namespace").expect("bind");
        listener.set_read_timeout(Some(PATIENCE)).expect("timeout");
        lab.reset_stats();
        let flood = Flood::new(sources, target, "www.gslb.test").count(100).rate(2_000);
        let report = lab.flood("pool", &flood).expect("flood");
        assert_eq!((report.sent, report.refused), (100, 0));
        assert!(report.took >= ms(49), "bounded in rate: {:?}", report.took);

        let mut seen = Vec::new();
        for _ in 0..100 {
            let mut query = [0; 512];
            let (length, source) = listener.recv_from(&mut query).expect("none lost");
            assert!(query[..length].ends_with(b"\x03www\x04gslb\x04test\x00\x00\x01\x00\x01"));
            assert!(sources.contains(&source.ip()));
            seen.push(source.ip());
        }
        seen.sort();
        seen.dedup();
        assert!(seen.len() > 90, "{} sources", seen.len());
        let stats = lab.stats("pool", "fra");
        assert_eq!((stats.udp, stats.requests, stats.overflowed), (100, 100, 0));
    }
}

#[test]
fn a_flood_does_not_leave_the_laboratory() {
    if !can_run(&[]) {
        return;
    }
    let lab = small().up().expect("up");
    let outside = SocketAddr::from(([192, 0, 2, 1], 53));
    let flood = Flood::new(lab.prefix_v4("ldns"), outside, "www.gslb.test").count(1);
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lab.flood("fra", &flood)));
    let message = *refused.expect_err("refused").downcast::<String>().expect("a message");
    assert!(message.contains("floods stay inside"), "{message}");
    assert_eq!(lab.unroutable(), 0);
}

#[test]
fn commands_run_on_their_node_and_end_with_it() {
    if !can_run(&[]) {
        return;
    }
    let lab = small().up().expect("up");
    let output = lab.command("iad", "ip").args(["-brief", "address"]).output().expect("ip");
    assert!(String::from_utf8_lossy(&output.stdout).contains("198.18.2.1/32"));
    let mut child = lab.command("iad", "sleep").arg("1000").spawn().expect("sleep");
    assert!(lab.process_ids("fra").is_empty());
    let started = Instant::now();
    while lab.process_ids("iad").is_empty() && started.elapsed() < ms(5_000) {
        std::thread::yield_now();
    }
    assert_eq!(lab.process_ids("iad"), [child.id() as i32]);
    drop(lab);
    assert!(!child.wait().expect("wait").success(), "it was ended");
}

/// Set, by the test itself, in the process of a test that must be alone in one.
const ALONE: &str = "GSLB_LAB_ALONE";

/// Runs the test `name` in a process of its own; how it ended, and its process id.
fn alone(name: &str) -> (std::process::Output, u32) {
    let mut command = Command::new(std::env::current_exe().expect("this test program"));
    command.args([name, "--exact", "--nocapture"]).env(ALONE, "1");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run");
    let id = child.id();
    (child.wait_with_output().expect("its end"), id)
}

fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Alone, since the laboratories of other tests stand in this process.
#[test]
fn nothing_is_left_behind_even_by_a_panic() {
    if !can_run(&[]) {
        return;
    }
    if !is_alone() {
        let (output, _) = alone("nothing_is_left_behind_even_by_a_panic");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let panicked = std::panic::catch_unwind(|| -> io::Result<_> {
        let lab = small().up().expect("up");
        assert_eq!(left_behind().len(), 3);
        let mut child = lab.command("iad", "sleep").arg("1000").spawn().expect("sleep");
        lab.cut("fra", "nowhere");
        child.wait()
    });
    let message = *panicked.expect_err("no such node").downcast::<String>().expect("a message");
    assert!(message.contains("no node nowhere"), "{message}");
    assert_eq!(left_behind(), [] as [String; 0]);
}

#[test]
fn what_a_killed_test_left_is_swept_by_the_next_laboratory() {
    if !can_run(&[]) {
        return;
    }
    if is_alone() {
        let lab = small().up().expect("up");
        lab.command("iad", "sleep")
            .arg("1000")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sleep");
        eprintln!("a laboratory of {} namespaces stands", left_behind().len());
        std::process::abort();
    }
    let (output, id) = alone("what_a_killed_test_left_is_swept_by_the_next_laboratory");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("a laboratory of 3 namespaces stands"), "{said}");
    let _lab = small().up().expect("up");
    let names = std::fs::read_dir("/run/netns").expect("namespaces").flatten();
    let left = names.filter(|name| name.file_name().to_string_lossy().contains(&format!("-{id}-"))).count();
    assert_eq!(left, 0);
}
