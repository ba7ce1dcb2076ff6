//! RFC 7766: DNS over TCP.

/// Several queries on one connection.
mod section_6_2_1 {
    use conformance::packet::{Packet, query, rtype::A, rtype::AAAA, rtype::SOA};
    use conformance::{Subject, framed, ours};
    use std::collections::BTreeSet;

    /// Faults I-24: A and AAAA as glibc sends them, in one segment.
    #[test]
    fn two_queries_in_one_write_are_both_answered() {
        let mut tcp = Subject::get().tcp();
        let both = [query("v4only.gslb.test", A).id(1), query("v4only.gslb.test", AAAA).id(2)];
        tcp.send(&both.map(|packet| framed(&packet.bytes())).concat());
        let replies = [tcp.receive().expect("one"), tcp.receive().expect("another")];
        let ids: BTreeSet<_> = replies.iter().map(|reply| reply.id()).collect();
        assert_eq!(ids, BTreeSet::from([1, 2]));
    }

    /// Faults I-24: pipelining, and the end of one direction.
    #[test]
    fn two_hundred_queries_and_a_half_close_get_two_hundred_replies_and_then_the_end() {
        let mut tcp = Subject::get().tcp();
        let queries: Vec<u8> =
            (0..200).flat_map(|id| framed(&query("gslb.test", SOA).id(id).bytes())).collect();
        tcp.send(&queries);
        tcp.finish();
        let ids: BTreeSet<_> = (0..200).map(|_| tcp.receive().expect("a reply").id()).collect();
        assert_eq!(ids, (0..200).collect());
        assert!(tcp.receive().is_none());
    }

    #[test]
    fn a_connection_is_used_again_and_again() {
        let mut tcp = Subject::get().tcp();
        for id in 0..50 {
            assert_eq!(tcp.ask(&query("gslb.test", SOA).id(id)).id(), id);
        }
    }

    /// Faults I-17: what is wrong with one query is not wrong with the next. NSD and Knot close the connection.
    #[test]
    fn a_format_error_does_not_end_the_connection() {
        if !ours() {
            return;
        }
        let mut tcp = Subject::get().tcp();
        for bad in [Packet::new(), query("v4only.gslb.test", A).question(b"\0", A, 1)] {
            let reply = tcp.ask(&bad);
            assert_eq!((reply.rcode(), reply.counts()[1]), (1, 0));
        }
        assert_eq!(tcp.ask(&query("v4only.gslb.test", A)).data(), ["192.0.2.4"]);
    }
}

/// Framing.
mod section_8 {
    use conformance::packet::{query, rtype::A, rtype::SOA};
    use conformance::{Subject, framed, ours};

    /// Faults I-24: the stream knows no messages.
    #[test]
    fn two_messages_may_be_split_anywhere() {
        let packets = [query("gslb.test", SOA).id(1), query("v4only.gslb.test", A).id(2)];
        let octets = packets.map(|packet| framed(&packet.bytes())).concat();
        for split in 1..octets.len() {
            let mut tcp = Subject::get().tcp();
            let (first, second) = octets.split_at(split);
            tcp.send(first);
            tcp.send(second);
            assert_eq!(
                [tcp.receive().expect("one").id(), tcp.receive().expect("two").id()],
                [1, 2],
                "at {split}"
            );
        }
    }

    #[test]
    fn a_message_may_come_octet_by_octet() {
        let mut tcp = Subject::get().tcp();
        for octet in framed(&query("gslb.test", SOA).bytes()) {
            tcp.send(&[octet]);
        }
        assert_eq!(tcp.receive().expect("a reply").counts()[1], 1);
    }

    /// Faults I-24: the largest message there can be, a query with much behind it. Others close the connection.
    #[test]
    fn a_message_of_64_kibibytes_is_read_to_its_end() {
        if !ours() {
            return;
        }
        let mut tcp = Subject::get().tcp();
        let mut long = query("gslb.test", SOA).bytes();
        long.resize(65_535, 0);
        tcp.send(&framed(&long));
        assert_eq!(tcp.receive().expect("a reply").rcode(), 1);
        assert_eq!(tcp.ask(&query("gslb.test", SOA).id(2)).id(), 2);
    }

    /// Faults I-24. Others close the connection.
    #[test]
    fn an_empty_message_is_passed_over() {
        if !ours() {
            return;
        }
        let mut tcp = Subject::get().tcp();
        tcp.send(&[0; 20]);
        assert_eq!(tcp.ask(&query("gslb.test", SOA).id(7)).id(), 7);
    }
}

/// Connections that are not used, or used against the server.
mod section_6_1 {
    use conformance::fixture::Setup;
    use conformance::packet::{query, rtype::SOA};
    use conformance::{Node, PATIENCE, Tcp, Udp, eventually, framed, ours};
    use nix::sys::signal::Signal;
    use std::net::{IpAddr, SocketAddr};
    use std::time::{Duration, Instant};

    const IDLE: Duration = Duration::from_secs(2);

    fn with_limits(connections: usize, per_address: usize) -> Node {
        let setup = Setup::default()
            .listen(&["0.0.0.0:0"])
            .dns(&format!("tcp_idle_timeout = \"{}s\"", IDLE.as_secs()));
        let setup = setup.dns(&format!("tcp_connections = {connections}"));
        setup.dns(&format!("tcp_connections_per_address = {per_address}")).start()
    }

    /// The time is right if it is not early, and late only as far as a busy machine makes it.
    #[track_caller]
    fn assert_idle_time(since: Instant) {
        let after = since.elapsed();
        assert!(
            after + Duration::from_millis(100) >= IDLE && after < IDLE + Duration::from_secs(5),
            "{after:?}"
        );
    }

    /// Faults I-25: nothing sent, half a message sent, a message and then nothing; and one who trickles is idle as well.
    #[test]
    fn a_connection_without_a_whole_query_is_closed_after_the_idle_time() {
        if !ours() {
            return;
        }
        let node = with_limits(100, 100);
        let begun = Instant::now();
        let mut silent = Tcp::to(node.address());
        let mut half = Tcp::to(node.address());
        half.send(&framed(&query("gslb.test", SOA).bytes())[..9]);
        let trickle = Tcp::to(node.address());
        let long = framed(&[0; 600]);
        let mut octets = long.iter();
        while !trickle.is_closed() {
            // A closed connection may refuse the octet that notices it.
            let _ = std::io::Write::write(&mut trickle.stream(), &[*octets.next().expect("enough octets")]);
            assert!(begun.elapsed() < IDLE + Duration::from_secs(5));
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_idle_time(begun);
        silent.closed_after();
        half.closed_after();
        let begun = Instant::now();
        let mut used = Tcp::to(node.address());
        while begun.elapsed() < IDLE / 2 {
            used.ask(&query("gslb.test", SOA));
        }
        let last = Instant::now();
        used.closed_after();
        assert_idle_time(last);
    }

    /// Faults I-25: one who asks and does not read holds nothing for long.
    #[test]
    fn a_client_that_does_not_read_is_closed_and_holds_no_memory() {
        if !ours() {
            return;
        }
        let node = with_limits(100, 100);
        let before = node.resident();
        let tcp = Tcp::to(node.address());
        tcp.stream().set_write_timeout(Some(Duration::from_millis(50))).expect("a time-out");
        let queries = framed(&query("huge.gslb.test", 1).bytes()).repeat(1000);
        let begun = Instant::now();
        // Until the server takes no more, and then until it has closed: the write fails with a reset.
        loop {
            match std::io::Write::write(&mut tcp.stream(), &queries) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
            assert!(begun.elapsed() < IDLE + Duration::from_secs(20), "still open");
        }
        let grown = node.resident().saturating_sub(before);
        assert!(grown < 16 << 20, "{grown} bytes");
    }

    /// Faults I-25, scaled: six addresses open 240 connections where 60 are allowed, 20 to each.
    #[test]
    fn hoards_of_idle_connections_make_room_for_those_who_ask() {
        if !ours() {
            return;
        }
        let node = with_limits(60, 20);
        let server = SocketAddr::from(([127, 0, 0, 1], node.address().port()));
        let from = |n: u8| Tcp::from(IpAddr::from([127, 0, 0, n]), server);
        let is_answered = |tcp: &mut Tcp| tcp.ask(&query("gslb.test", SOA)).counts()[1] == 1;
        let open = |hoard: &[Tcp]| hoard.iter().filter(|tcp| !tcp.is_closed()).count();
        let mut asking = from(100);
        let mut hoard = Vec::new();
        for round in 0..40 {
            for n in 1..=6 {
                let mut tcp = from(n);
                tcp.send(&framed(&[0; 30])[..1 + round % 2]);
                hoard.push(tcp);
            }
            assert!(is_answered(&mut asking) && is_answered(&mut from(101)), "round {round}");
        }
        eventually("the cap holds", PATIENCE, || (open(&hoard) <= 60).then_some(()));
        assert!(node.metric("gslb_dns_connections_evicted_total") >= 180);
        let gauge = || node.metric("gslb_dns_open_connections{transport=\"tcp\"}");
        let counted = gauge();
        assert!((1..=60).contains(&counted), "{counted} counted as open");
        // An address that has its share takes nobody else's place.
        let share: Vec<_> = (0..60).map(|_| from(50)).collect();
        eventually("the share holds", PATIENCE, || (open(&share) <= 20).then_some(()));
        assert!(is_answered(&mut asking) && is_answered(&mut from(101)));
        assert_eq!(Udp::to(server).ask(&query("gslb.test", SOA)).counts()[1], 1);
        drop((asking, hoard, share));
        eventually("none is counted as open", PATIENCE, || (gauge() == 0).then_some(()));
    }

    /// Clients that have sent all that the way to the server holds, and read nothing: it takes them in turns, so that one who
    /// comes after them waits for some turns of each (faults I-25).
    #[test]
    fn who_never_stops_asking_does_not_keep_others_waiting() {
        if !ours() {
            return;
        }
        const CLIENTS: u64 = 40;
        let node = with_limits(100, 100);
        let ask = framed(&query("gslb.test", SOA).bytes());
        // The server reads 4 KiB at once. A newcomer waits while it is accepted, read from and answered: some turns of each
        // client. A server that empties one client's buffer after the other has answered the octets of 40 and more by then.
        let turn = CLIENTS * (4096 / ask.len() as u64);
        // The least of some: what is answered while this process waits for a processor, between the reply and its look at the
        // counter, is no fault of the server's.
        let tries: Vec<_> = (0..5).map(|_| answered_before_a_newcomer(&node, CLIENTS, &ask)).collect();
        println!("answered before the newcomer, in turns of {turn}: {tries:?}");
        assert!(tries.iter().any(|answered| *answered < 10 * turn), "{tries:?}, in turns of {turn}");
    }

    /// How many queries of so many clients are answered before that of one who comes when all have been sent. The server
    /// stands still until then, so that it does not depend on who is faster.
    fn answered_before_a_newcomer(node: &Node, clients: u64, ask: &[u8]) -> u64 {
        let queries = ask.repeat(2000);
        let mut busy: Vec<_> = (0..clients).map(|_| Tcp::to(node.address())).collect();
        for tcp in &mut busy {
            // Accepted, and read from.
            tcp.ask(&query("gslb.test", SOA));
            tcp.stream().set_nonblocking(true).expect("non-blocking");
        }
        let answered = || node.metric("gslb_dns_requests_total{transport=\"tcp\"}");
        let before = answered();
        node.signal(Signal::SIGSTOP);
        for tcp in &busy {
            while std::io::Write::write(&mut tcp.stream(), &queries).is_ok() {}
        }
        let mut newcomer = Tcp::to(node.address());
        newcomer.send(ask);
        node.signal(Signal::SIGCONT);
        assert_eq!(newcomer.receive().expect("a reply").counts()[1], 1);
        answered() - before
    }
}
