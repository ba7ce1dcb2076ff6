//! RFC 8906: what makes resolvers fail: silence where an answer is due.

/// Known and unknown types.
mod section_3_1 {
    use conformance::packet::rtype::ANY;
    use conformance::{Subject, query};

    /// All types but those that ask for something else: OPT, and 128 and beyond that are meta types (RFC 6895 section 3.1).
    #[test]
    fn every_type_gets_an_authoritative_answer() {
        let udp = Subject::get().udp();
        for rtype in (1..128).filter(|&rtype| rtype != 41).chain([ANY, 256, 257, 258, 32_769, 65_535]) {
            let reply = udp.ask(&query("v4only.gslb.test", rtype));
            assert_eq!((reply.rcode(), reply.is_authoritative()), (0, true), "TYPE{rtype}");
            let [_, answers, authorities, _] = reply.counts();
            // NSD adds the name servers to an answer.
            Subject::get().expect(
                (answers > 0, authorities),
                (answers > 0, u16::from(answers == 0)),
                &[(true, 2)],
            );
        }
    }
}

/// The tests of the RFC, each over UDP and TCP.
mod section_8 {
    use crate::rcode::{BADVERS, NOERROR, NOTIMP};
    use conformance::packet::{Packet, query, rtype::DNSKEY, rtype::SOA};
    use conformance::{Reply, Subject};

    const COOKIE: (u16, &[u8]) = (10, &[1, 2, 3, 4, 5, 6, 7, 8]);
    const NSID: (u16, &[u8]) = (3, &[]);
    const EXPIRE: (u16, &[u8]) = (9, &[]);
    const SUBNET: (u16, &[u8]) = (8, &[0, 1, 0, 0]);

    fn soa() -> Packet {
        query("gslb.test", SOA)
    }

    /// Over both: they must not differ.
    #[track_caller]
    fn ask(packet: &Packet) -> Reply {
        let (udp, tcp) = (Subject::get().ask(packet), Subject::get().tcp().ask(packet));
        assert_eq!((udp.flags(), udp.counts()), (tcp.flags(), tcp.counts()));
        udp
    }

    #[track_caller]
    fn assert_soa(reply: &Reply) {
        assert_eq!((reply.rcode(), reply.is_authoritative()), (NOERROR, true));
        assert!(reply.answers()[0].contains(" SOA "), "{:?}", reply.answers());
    }

    /// Sections 8.1.1 to 8.1.3.
    #[test]
    fn plain_queries_with_whatever_flags_get_the_soa() {
        for flags in [0, 0x0400, 0x0200, 0x0100, 0x0080, 0x0040, 0x0020, 0x0010] {
            assert_soa(&ask(&soa().flags(flags)));
        }
    }

    /// Section 8.1.4: a header alone with an unassigned opcode, with and without flags.
    #[test]
    fn an_unknown_opcode_is_not_implemented() {
        for flags in [0, 0x07f0] {
            let packet = Packet::new().flags(flags).opcode(15);
            if Subject::get().is_ours() {
                let reply = ask(&packet);
                assert_eq!((reply.rcode(), reply.flags() & 0x7ff0), (NOTIMP, 15 << 11));
            } else {
                // NSD closes a TCP connection with a header alone; others copy flags.
                let reply = Subject::get().ask(&packet);
                assert_eq!((reply.rcode(), reply.flags() & 0x7800), (NOTIMP, 15 << 11));
            }
        }
    }

    /// Sections 8.2.1 to 8.2.9.
    #[test]
    fn edns_with_whatever_options_and_flags_gets_the_soa_with_opt() {
        for options in
            [vec![], vec![NSID], vec![EXPIRE], vec![COOKIE], vec![SUBNET], vec![NSID, SUBNET, EXPIRE, COOKIE]]
        {
            for flags in [0, 0x8000, 0x0080] {
                let packet = soa().edns(4096).edns_version(0, flags);
                let packet = options.iter().fold(packet, |packet, (code, data)| packet.option(*code, data));
                let reply = ask(&packet);
                assert_soa(&reply);
                assert_eq!(reply.opt().expect("OPT").version, 0);
            }
        }
    }

    /// Sections 8.2.3 and 8.2.5: a version that will come, with options that nobody knows.
    #[test]
    fn edns_of_another_version_is_told_so_whatever_its_options() {
        for (code, data) in [NSID, EXPIRE, COOKIE, SUBNET, (100, &b"x"[..])] {
            let reply = ask(&soa().edns(4096).edns_version(1, 0).option(code, data));
            assert_eq!((reply.rcode(), reply.counts()), (BADVERS, [1, 0, 0, 1]));
        }
    }

    /// Section 8.2.6: a reply that may be truncated carries OPT all the same.
    #[test]
    fn a_small_size_is_kept_and_opt_is_there() {
        let reply = Subject::get().ask(&query("gslb.test", DNSKEY).edns(512).edns_version(0, 0x8000));
        assert!(reply.bytes.len() <= 512 && reply.opt().is_some());
    }
}
