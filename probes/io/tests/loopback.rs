//! Probes on the loopback interface, with real sockets.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

mod common;

use common::{LONG, Ldns, Running, answered, may_ping, ms, rtt, v4};
use gslb_types::{ProbeKind, Rtt};
use probes_core::wire::{Check, CheckOutcome, CheckRequest, ProbeOutcome, ProbeRequest};
use probes_io::{ProbeIo, Reply, Request, Settings, StartError};
use socket2::{Domain, SockAddr, Socket, Type};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::mpsc as std_mpsc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

#[tokio::test]
async fn every_rcode_is_an_answer_and_its_time_is_that_of_the_delay() {
    let (delays, delayed) = std_mpsc::channel();
    let mut rcode = 0;
    let ldns = Ldns::start((v4(10, 0, 1), 0), move |socket, query, from| {
        let came = Instant::now();
        std::thread::sleep(ms(20));
        socket.send_to(&answered(query, rcode), from).unwrap();
        delays.send(came.elapsed()).unwrap();
        rcode += 1;
    });
    let mut running = Running::on_port(ldns.addr.port());
    let mut errors = Vec::new();
    for rcode in 0..16 {
        let outcome = running.probe(v4(10, 0, 1), ProbeKind::DnsUdp, LONG).await;
        let ProbeOutcome::DnsAnswer(rtt) = outcome else { panic!("rcode {rcode}: {outcome:?}") };
        let delay = delayed.recv().unwrap();
        assert!(rtt.as_duration() >= ms(20), "{rtt} of {delay:?}");
        errors.push(rtt.as_duration().abs_diff(delay));
    }
    let best = errors.iter().min().unwrap();
    assert!(*best < ms(1), "the RTT is off by {best:?} at best");
    running.stop().await;
}

#[tokio::test]
async fn a_truncated_answer_and_one_without_question_count() {
    let mut asked = 0;
    let ldns = Ldns::start((v4(10, 0, 2), 0), move |socket, query, from| {
        let mut answer = answered(query, 5);
        match asked {
            0 => answer[2] |= 0x02,
            _ => {
                answer.truncate(12);
                answer[5] = 0;
            }
        }
        asked += 1;
        socket.send_to(&answer, from).unwrap();
    });
    let mut running = Running::on_port(ldns.addr.port());
    for what in ["truncated", "without question"] {
        let outcome = running.probe(v4(10, 0, 2), ProbeKind::DnsUdp, LONG).await;
        assert!(matches!(outcome, ProbeOutcome::DnsAnswer(_)), "{what}: {outcome:?}");
    }
}

#[tokio::test]
async fn what_is_not_the_answer_is_passed_over_and_the_answer_still_counts() {
    let stranger = UdpSocket::bind((v4(10, 0, 4), 0)).unwrap();
    let ldns = Ldns::start((v4(10, 0, 3), 0), move |socket, query, from| {
        let other_port = UdpSocket::bind((v4(10, 0, 3), 0)).unwrap();
        let good = answered(query, 0);
        let changed = |at: usize| {
            let mut answer = good.clone();
            answer[at] ^= 1;
            answer
        };
        stranger.send_to(&good, from).unwrap();
        other_port.send_to(&good, from).unwrap();
        socket.send_to(&changed(0), from).unwrap(); // id
        socket.send_to(&changed(14), from).unwrap(); // type
        socket.send_to(query, from).unwrap(); // QR=0
        socket.send_to(&[], from).unwrap();
        std::thread::sleep(ms(60));
        socket.send_to(&good, from).unwrap();
    });
    let mut running = Running::on_port(ldns.addr.port());
    let outcome = running.probe(v4(10, 0, 3), ProbeKind::DnsUdp, LONG).await;
    let ProbeOutcome::DnsAnswer(rtt) = outcome else { panic!("{outcome:?}") };
    assert!(rtt.as_duration() >= ms(59), "{rtt}: something else was taken for the answer");
    running.assert_silent();
}

#[tokio::test]
async fn an_answer_to_an_earlier_probe_is_not_paired_with_a_new_one() {
    let mut first = None;
    let ldns = Ldns::start((v4(10, 0, 5), 0), move |socket, query, from| match first.take() {
        None => first = Some((query.to_vec(), from)),
        Some((old, old_from)) => {
            socket.send_to(&answered(&old, 0), old_from).unwrap();
            socket.send_to(&answered(&old, 0), from).unwrap();
        }
    });
    let mut running = Running::on_port(ldns.addr.port());
    assert_eq!(running.probe(v4(10, 0, 5), ProbeKind::DnsUdp, ms(100)).await, ProbeOutcome::TimedOut);
    assert_eq!(running.probe(v4(10, 0, 5), ProbeKind::DnsUdp, ms(300)).await, ProbeOutcome::TimedOut);
}

#[tokio::test]
async fn each_query_has_its_own_port_and_id() {
    let (seen, queries) = std_mpsc::channel();
    let ldns = Ldns::start((v4(10, 0, 6), 0), move |socket, query, from| {
        seen.send((from.port(), query[..2].to_vec())).unwrap();
        socket.send_to(&answered(query, 0), from).unwrap();
    });
    let mut running = Running::on_port(ldns.addr.port());
    running.probes(&[(v4(10, 0, 6), ProbeKind::DnsUdp, LONG); 32]).await;
    let (mut ports, mut ids): (Vec<_>, Vec<_>) = queries.try_iter().unzip();
    ports.sort_unstable();
    ids.sort_unstable();
    let steps = ports.windows(2).filter(|pair| pair[1] - pair[0] <= 2).count();
    ports.dedup();
    ids.dedup();
    assert!(ports.len() >= 31, "ports repeat: {ports:?}");
    assert!(ids.len() >= 31, "ids repeat: {ids:?}");
    assert!(steps < 16, "ports are counted up: {ports:?}");
}

#[tokio::test]
async fn where_nobody_listens_the_hosts_port_unreachable_is_the_answer() {
    let free = UdpSocket::bind((v4(10, 1, 1), 0)).unwrap().local_addr().unwrap().port();
    let mut running = Running::on_port(free);
    for target in [v4(10, 1, 2), V6] {
        let outcome = running.probe(target, ProbeKind::DnsUdp, LONG).await;
        assert!(matches!(outcome, ProbeOutcome::PortUnreachable(_)), "{target}: {outcome:?}");
    }
}

#[tokio::test]
async fn silence_ends_on_time() {
    let ldns = Ldns::start((v4(10, 1, 3), 0), |_, _, _| {});
    let mut running = Running::on_port(ldns.addr.port());
    let began = Instant::now();
    assert_eq!(running.probe(v4(10, 1, 3), ProbeKind::DnsUdp, ms(200)).await, ProbeOutcome::TimedOut);
    let took = began.elapsed();
    assert!((ms(200)..ms(1200)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_listener_connects_and_a_closed_port_resets() {
    let listener = TcpListener::bind((v4(10, 2, 1), 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let v6 = TcpListener::bind((V6, port));
    let mut running = Running::on_port(port);
    let outcome = running.probe(v4(10, 2, 1), ProbeKind::DnsTcp, LONG).await;
    assert!(matches!(outcome, ProbeOutcome::Connected(_)), "{outcome:?}");
    let outcome = running.probe(v4(10, 2, 2), ProbeKind::DnsTcp, LONG).await;
    assert!(matches!(outcome, ProbeOutcome::Reset(_)), "{outcome:?}");
    if v6.is_ok() {
        let outcome = running.probe(V6, ProbeKind::DnsTcp, LONG).await;
        assert!(matches!(outcome, ProbeOutcome::Connected(_)), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_probe_leaves_no_time_wait_behind() {
    let listener = TcpListener::bind((v4(10, 2, 3), 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut running = Running::on_port(port);
    running.probes(&[(v4(10, 2, 3), ProbeKind::DnsTcp, LONG); 8]).await;
    for _ in 0..8 {
        drop(listener.accept());
    }
    running.stop().await;
    // Remote address 127.10.2.3, state 6: TIME_WAIT.
    let time_wait = format!(" 03020A7F:{port:04X} 06 ");
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    assert!(!sockets.contains(&time_wait), "{time_wait} in\n{sockets}");
}

/// A listener whose backlog is full drops further SYNs.
fn blackhole(address: IpAddr) -> (Socket, Vec<Socket>, u16) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SockAddr::from(SocketAddr::new(address, 0))).unwrap();
    listener.listen(0).unwrap();
    let full = listener.local_addr().unwrap();
    let fill = |_| {
        let client = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None).unwrap();
        let _ = client.connect(&full);
        client
    };
    let clients = (0..4).map(fill).collect();
    (listener, clients, full.as_socket().unwrap().port())
}

#[tokio::test]
async fn a_dropped_syn_times_out() {
    let (_listener, _clients, port) = blackhole(v4(10, 2, 4));
    let mut running = Running::on_port(port);
    let began = Instant::now();
    assert_eq!(running.probe(v4(10, 2, 4), ProbeKind::DnsTcp, ms(300)).await, ProbeOutcome::TimedOut);
    assert!(began.elapsed() >= ms(300));
}

#[tokio::test]
async fn a_lost_syn_does_not_look_like_a_second_of_distance() {
    let (listener, clients, port) = blackhole(v4(10, 2, 5));
    let mut running = Running::on_port(port);
    let room = std::thread::spawn(move || {
        std::thread::sleep(ms(400));
        drop(clients);
        let accepted: Vec<_> = (0..1).map(|_| listener.accept()).collect();
        (listener, accepted)
    });
    let outcome = running.probe(v4(10, 2, 5), ProbeKind::DnsTcp, LONG).await;
    assert_eq!(outcome, ProbeOutcome::TimedOut);
    drop(room.join());
}

#[tokio::test]
async fn ping_measures_the_nearest_host_as_more_than_nothing() {
    let mut running = Running::on_port(53);
    if !may_ping(&running) {
        return;
    }
    for target in [v4(0, 0, 1), v4(77, 1, 2), V6] {
        for _ in 0..10 {
            let outcome = running.probe(target, ProbeKind::Ping, LONG).await;
            let ProbeOutcome::EchoReply(rtt) = outcome else { panic!("{target}: {outcome:?}") };
            assert!(rtt >= Rtt::MIN && rtt.as_duration() < ms(500), "{target}: {rtt}");
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn five_hundred_pings_at_once_are_each_answered() {
    let mut running = Running::on_port(53);
    if !may_ping(&running) {
        return;
    }
    let pings: Vec<_> =
        (0..500u32).map(|i| (v4(20, (i / 250) as u8, (i % 250) as u8 + 1), ProbeKind::Ping, LONG)).collect();
    let outcomes = running.probes(&pings).await;
    assert!(outcomes.iter().all(|o| matches!(o, ProbeOutcome::EchoReply(_))), "{outcomes:?}");
    running.assert_silent();
}

#[tokio::test]
async fn pings_of_one_host_at_once_do_not_disturb_each_other() {
    let mut running = Running::on_port(53);
    if !may_ping(&running) {
        return;
    }
    let outcomes = running.probes(&[(v4(21, 0, 1), ProbeKind::Ping, LONG); 200]).await;
    assert!(outcomes.iter().all(|o| matches!(o, ProbeOutcome::EchoReply(_))), "{outcomes:?}");
}

#[tokio::test]
async fn two_senders_in_one_process_keep_their_replies_apart() {
    let (mut one, mut two) = (Running::on_port(53), Running::on_port(53));
    if !may_ping(&one) {
        return;
    }
    let pings: Vec<_> = (1..=200).map(|i| (v4(22, 0, i), ProbeKind::Ping, LONG)).collect();
    let (first, second) = tokio::join!(one.probes(&pings), two.probes(&pings));
    for outcome in first.into_iter().chain(second) {
        assert!(matches!(outcome, ProbeOutcome::EchoReply(_)), "{outcome:?}");
    }
    one.assert_silent();
    two.assert_silent();
}

#[tokio::test]
async fn probes_and_checks_leave_from_the_configured_source() {
    let source = Ipv4Addr::new(127, 30, 0, 9);
    let (seen, sources) = std_mpsc::channel();
    let ldns = Ldns::start((v4(30, 0, 1), 0), move |socket, query, from| {
        seen.send(from.ip()).unwrap();
        socket.send_to(&answered(query, 0), from).unwrap();
    });
    let listener = TcpListener::bind(ldns.addr).unwrap();
    let settings = Settings { port: ldns.addr.port(), source_v4: Some(source), ..Settings::default() };
    let mut running = Running::start(settings);
    assert!(rtt(running.probe(v4(30, 0, 1), ProbeKind::DnsUdp, LONG).await).is_some());
    assert_eq!(sources.recv().unwrap(), source);
    assert!(rtt(running.probe(v4(30, 0, 1), ProbeKind::DnsTcp, LONG).await).is_some());
    assert_eq!(listener.accept().unwrap().1.ip(), source);
    assert!(matches!(running.check(ldns.addr, Check::Tcp, LONG).await, CheckOutcome::Passed(_)));
    assert_eq!(listener.accept().unwrap().1.ip(), source);
    if may_ping(&running) {
        let outcome = running.probe(v4(30, 0, 1), ProbeKind::Ping, LONG).await;
        assert!(matches!(outcome, ProbeOutcome::EchoReply(_)), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_source_that_is_not_ours_is_an_error_at_start_that_names_it() {
    let strange_v4 = Settings { source_v4: Some(Ipv4Addr::new(192, 0, 2, 7)), ..Settings::default() };
    let strange_v6 = Settings { source_v6: "2001:db8::7".parse().ok(), ..Settings::default() };
    for (settings, named) in [(strange_v4, "192.0.2.7"), (strange_v6, "2001:db8::7")] {
        let ((_, requests), (replies, _)) = (mpsc::channel(1), mpsc::channel(1));
        let error = ProbeIo::start(settings, requests, replies, &CancellationToken::new()).unwrap_err();
        assert!(matches!(error, StartError::Source { .. }), "{error:?}");
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[tokio::test]
async fn beyond_the_cap_a_probe_is_answered_at_once_and_a_check_is_not_starved() {
    let ldns = Ldns::start((v4(31, 0, 1), 0), |_, _, _| {});
    let listener = TcpListener::bind((v4(31, 0, 1), 0)).unwrap();
    let settings = Settings { port: ldns.addr.port(), in_flight: 4, ..Settings::default() };
    let mut running = Running::start(settings);
    let outcomes = running.probes(&[(v4(31, 0, 1), ProbeKind::DnsUdp, ms(500)); 10]).await;
    assert_eq!(outcomes[..4], [ProbeOutcome::TimedOut; 4]);
    assert_eq!(outcomes[4..], [ProbeOutcome::SendFailed; 6]);

    let id = running.id();
    let silent = ProbeRequest { id, target: v4(31, 0, 1), kind: ProbeKind::DnsUdp, timeout: LONG };
    for _ in 0..4 {
        running.requests().send(Request::Probe(silent)).await.unwrap();
    }
    let passed = running.check(listener.local_addr().unwrap(), Check::Tcp, LONG).await;
    assert!(matches!(passed, CheckOutcome::Passed(_)), "{passed:?}");
    running.stop().await;
}

#[tokio::test]
async fn replies_nobody_reads_hold_the_sender_up_and_are_not_lost() {
    let (requests, requested) = mpsc::channel(64);
    let (replied, mut replies) = mpsc::channel(1);
    let cancel = CancellationToken::new();
    let settings = Settings { in_flight: 2, port: 9, ..Settings::default() };
    let io = ProbeIo::start(settings, requested, replied, &cancel).unwrap();
    let total = 50;
    for id in 0..total {
        let id = probes_core::wire::ProbeId(id);
        let check = CheckRequest {
            id,
            check: Check::Tcp.into(),
            target: SocketAddr::new(v4(31, 0, 2), 9),
            source: None,
            timeout: LONG,
        };
        requests.send(Request::Check(check)).await.unwrap();
    }
    drop(requests);
    let mut ids = Vec::new();
    while let Some(reply) = replies.recv().await {
        let Reply::Check(reply) = reply else { panic!("{reply:?}") };
        ids.push(reply.id.0);
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..total).collect::<Vec<_>>());
    io.join().await;
}

#[tokio::test]
async fn once_the_requests_end_what_is_under_way_is_finished() {
    let ldns = Ldns::start((v4(31, 0, 3), 0), |socket, query, from| {
        std::thread::sleep(ms(100));
        socket.send_to(&answered(query, 0), from).unwrap();
    });
    let mut running = Running::on_port(ldns.addr.port());
    let id = running.id();
    let probe = ProbeRequest { id, target: v4(31, 0, 3), kind: ProbeKind::DnsUdp, timeout: LONG };
    running.requests().send(Request::Probe(probe)).await.unwrap();
    let rest = running.drain().await;
    assert!(
        matches!(&rest[..], [Reply::Probe(reply)] if matches!(reply.outcome, ProbeOutcome::DnsAnswer(_))),
        "{rest:?}"
    );
}

#[tokio::test]
async fn cancelled_it_stops_at_once() {
    let ldns = Ldns::start((v4(31, 0, 4), 0), |_, _, _| {});
    let mut running = Running::on_port(ldns.addr.port());
    let id = running.id();
    let probe = ProbeRequest {
        id,
        target: v4(31, 0, 4),
        kind: ProbeKind::DnsUdp,
        timeout: Duration::from_secs(3600),
    };
    running.requests().send(Request::Probe(probe)).await.unwrap();
    tokio::time::timeout(LONG, running.stop()).await.unwrap();
}

#[tokio::test]
async fn an_address_in_ipv6_clothes_is_the_ipv4_one() {
    let ldns = Ldns::start((v4(31, 0, 5), 0), |socket, query, from| {
        socket.send_to(&answered(query, 0), from).unwrap();
    });
    let mut running = Running::on_port(ldns.addr.port());
    let mapped = IpAddr::V6(Ipv4Addr::new(127, 31, 0, 5).to_ipv6_mapped());
    let outcome = running.probe(mapped, ProbeKind::DnsUdp, LONG).await;
    assert!(matches!(outcome, ProbeOutcome::DnsAnswer(_)), "{outcome:?}");
}

#[tokio::test]
async fn what_cannot_be_sent_is_said_to_be_so() {
    let mut running = Running::on_port(53);
    let broadcast = IpAddr::V4(Ipv4Addr::BROADCAST);
    for kind in [ProbeKind::DnsUdp, ProbeKind::DnsTcp] {
        assert_eq!(running.probe(broadcast, kind, LONG).await, ProbeOutcome::SendFailed, "{kind}");
    }
    if may_ping(&running) {
        assert_eq!(running.probe(broadcast, ProbeKind::Ping, LONG).await, ProbeOutcome::SendFailed);
    }
}
