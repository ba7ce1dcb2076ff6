//! RFC 2181: clarifications: replies from the address asked, whole RRsets, one TTL each.

/// The address a reply comes from.
mod section_4_1 {
    use conformance::fixture::Setup;
    use conformance::packet::rtype::{A, SOA};
    use conformance::{Node, Udp, ours, query};
    use lab::{Topology, can_run};
    use std::net::{IpAddr, SocketAddr};
    use std::process::Command;

    /// Faults I-23. The socket is connected, so that a reply from another address would not be seen.
    #[test]
    fn on_a_wildcard_bind_a_reply_leaves_from_the_address_that_was_asked() {
        if !ours() {
            return;
        }
        let node = Setup::default().listen(&["0.0.0.0:0"]).start();
        for last in [1, 2, 77, 254] {
            let server = SocketAddr::from(([127, 0, 0, last], node.address().port()));
            let reply = Udp::to(server).ask(&query("v4only.gslb.test", A));
            assert_eq!(reply.data(), ["192.0.2.4"], "{server}");
        }
    }

    /// Faults I-23, with addresses that are not on loopback; the asker is on another machine.
    #[test]
    fn on_a_wildcard_bind_of_ipv6_too() {
        if !ours() || !can_run(&[]) {
            return;
        }
        let lab = Topology::new("wildcard").site("fra").host("web").up().expect("a laboratory");
        let setup = Setup::default().listen(&["0.0.0.0:53", "[::]:53"]);
        let node = Node::start_with(&setup.text(), &[], |program: Command| {
            let mut inside = lab.command("fra", program.get_program());
            inside.args(program.get_args());
            inside
        });
        assert_eq!(node.dns().len(), 2);
        for nth in [1, 2, 0x1234] {
            let addresses =
                [IpAddr::V4(lab.nth_v4("fra", nth & 0xff)), IpAddr::V6(lab.nth_v6("fra", nth.into()))];
            for address in addresses {
                let server = SocketAddr::new(address, 53);
                let ask = || Udp::to(server).ask(&query("gslb.test", SOA)).counts();
                let counts = lab.in_namespace("web", ask).expect("the namespace");
                assert_eq!(counts, [1, 1, 0, 0], "{server}");
            }
        }
    }
}

/// TTLs.
mod section_5_2 {
    use conformance::fixture::Setup;
    use conformance::packet::rtype::A;
    use conformance::{Udp, ours, query};

    /// Faults I-30. Other servers refuse such a zone, or take one of the TTLs.
    #[test]
    fn the_records_of_an_rrset_share_their_lowest_ttl() {
        if !ours() {
            return;
        }
        let node = Setup::default().record("mixed 300 A 192.0.2.90\nmixed 30 A 192.0.2.91").start();
        let reply = Udp::to(node.address()).ask(&query("mixed.gslb.test", A));
        let both = ["mixed.gslb.test. 30 A 192.0.2.90", "mixed.gslb.test. 30 A 192.0.2.91"];
        assert_eq!(reply.sorted_answers(), both);
    }
}

/// Truncation.
mod section_9 {
    use conformance::packet::rtype::A;
    use conformance::{Subject, query};

    /// Faults I-05: a client might use the part it sees.
    #[test]
    fn a_truncated_reply_has_its_question_and_opt_and_no_part_of_an_rrset() {
        let subject = Subject::get();
        for (packet, opts) in [(query("big.gslb.test", A), 0), (query("big.gslb.test", A).edns(512), 1)] {
            let reply = subject.ask(&packet);
            assert!(reply.is_truncated());
            assert_eq!((reply.counts(), reply.opt().is_some()), ([1, 0, 0, opts], opts == 1));
            assert!(reply.is_authoritative());
        }
    }

    #[test]
    fn what_is_truncated_over_udp_is_whole_over_tcp() {
        for (name, count) in [("big.gslb.test", 60), ("huge.gslb.test", 200)] {
            let reply = Subject::get().tcp().ask(&query(name, A).edns(512));
            assert!(!reply.is_truncated());
            let mut addresses = reply.data();
            addresses.sort();
            addresses.dedup();
            assert_eq!(addresses.len(), count);
        }
    }

    #[test]
    fn sixty_addresses_fit_into_a_reply_of_the_default_size() {
        let reply = Subject::get().ask(&query("big.gslb.test", A).edns(1232));
        assert_eq!((reply.is_truncated(), reply.data().len()), (false, 60));
        // Header, question, 60 compressed records, OPT. NSD adds the name servers.
        Subject::get().expect(reply.bytes.len(), 12 + 19 + 60 * 16 + 11, &[12 + 19 + 60 * 16 + 11 + 68]);
    }
}
