//! RFC 1034: domain names, concepts: zones, delegations, aliases, and what lies outside.

/// How a server finds the answer.
mod section_4_3_2 {
    use crate::rcode::{NOERROR, REFUSED};
    use conformance::packet::rtype::{A, AAAA, CNAME, DS, MX, NS, SOA};
    use conformance::{Subject, query};

    /// Faults I-13.
    #[test]
    fn the_apex_has_its_name_servers_and_their_addresses() {
        let reply = Subject::get().ask(&query("gslb.test", NS));
        assert_eq!((reply.rcode(), reply.is_authoritative()), (NOERROR, true));
        let ns = ["gslb.test. 3600 NS ns1.gslb.test.", "gslb.test. 3600 NS ns2.gslb.test."];
        assert_eq!(reply.sorted_answers(), ns);
        let glue = ["ns1.gslb.test. 3600 A 192.0.2.1", "ns2.gslb.test. 3600 A 192.0.2.2"].map(str::to_owned);
        let mut additionals = reply.additionals();
        additionals.sort();
        // gdnsd leaves them out.
        Subject::get().expect(additionals, glue.to_vec(), &[vec![]]);
    }

    /// Faults I-13.
    #[test]
    fn the_apex_has_its_soa_and_other_records_and_name_servers_their_addresses() {
        let subject = Subject::get();
        let answers = |name: &str, rtype| {
            let reply = subject.ask(&query(name, rtype));
            assert_eq!((reply.rcode(), reply.is_authoritative()), (NOERROR, true));
            reply.answers()
        };
        let soa = "gslb.test. 3600 SOA ns1.gslb.test. hostmaster.gslb.test. 1 7200 1800 259200 5";
        // gdnsd lowers its TTL to the negative one.
        subject.expect(
            answers("gslb.test", SOA),
            vec![soa.to_owned()],
            &[vec![soa.replace("3600 SOA", "5 SOA")]],
        );
        assert_eq!(answers("gslb.test", MX), ["gslb.test. 3600 MX 10 mail.gslb.test."]);
        assert_eq!(answers("ns1.gslb.test", A), ["ns1.gslb.test. 3600 A 192.0.2.1"]);
    }

    #[test]
    fn an_alias_is_followed_within_the_zone_and_its_chain_shown() {
        let reply = Subject::get().ask(&query("chain.gslb.test", A));
        assert_eq!((reply.rcode(), reply.is_authoritative()), (NOERROR, true));
        let answers = reply.answers();
        assert_eq!(answers[0], "chain.gslb.test. 60 CNAME alias.gslb.test.");
        if answers.len() == 1 && !Subject::get().is_ours() {
            // gdnsd leaves the rest to the resolver.
            return;
        }
        let [_, second, address] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(second, "alias.gslb.test. 60 CNAME www.gslb.test.");
        let www = conformance::fixture::WWW.map(|www| format!("www.gslb.test. 5 A {www}"));
        assert!(www.contains(address), "{address}");
    }

    #[test]
    fn an_alias_itself_can_be_asked_for_and_one_that_leaves_the_zone_ends_there() {
        let subject = Subject::get();
        let own = subject.ask(&query("alias.gslb.test", CNAME));
        assert_eq!(own.answers(), ["alias.gslb.test. 60 CNAME www.gslb.test."]);
        let out = subject.ask(&query("out.gslb.test", A));
        assert_eq!((out.rcode(), out.is_authoritative()), (NOERROR, true));
        assert_eq!(out.answers(), ["out.gslb.test. 60 CNAME www.example.org."]);
        assert_eq!(out.authorities(), [""; 0]);
    }

    #[test]
    fn below_a_delegation_there_is_a_referral_with_glue() {
        for name in ["sub.gslb.test", "x.y.sub.gslb.test", "ns.sub.gslb.test"] {
            let reply = Subject::get().ask(&query(name, AAAA));
            assert_eq!((reply.rcode(), reply.is_authoritative()), (NOERROR, false), "{name}");
            assert_eq!(reply.answers(), [""; 0], "{name}");
            assert_eq!(reply.authorities(), ["sub.gslb.test. 60 NS ns.sub.gslb.test."], "{name}");
            assert_eq!(reply.additionals(), ["ns.sub.gslb.test. 60 A 192.0.2.8"], "{name}");
        }
    }

    /// RFC 4035 section 3.1.4.1: the parent has the word about DS.
    #[test]
    fn ds_at_a_delegation_is_answered_by_the_parent() {
        let reply = Subject::get().ask(&query("sub.gslb.test", DS));
        assert_eq!((reply.rcode(), reply.counts()[1], reply.authorities().len()), (NOERROR, 0, 1));
        // gdnsd knows nothing of DNSSEC and gives a referral.
        let seen = (reply.is_authoritative(), reply.authorities()[0].starts_with("gslb.test. 5 SOA"));
        Subject::get().expect(seen, (true, true), &[(false, false)]);
    }

    /// Faults I-22.
    #[test]
    fn what_is_not_served_here_is_refused_with_nothing_in_it() {
        for (name, rtype) in
            [("www.example.org", A), ("", NS), ("test", SOA), ("ns.test", A), ("xgslb.test", A)]
        {
            for flags in [0, 0x0100] {
                let reply = Subject::get().ask(&query(name, rtype).flags(flags));
                assert_eq!(reply.rcode(), REFUSED, "{name}");
                assert_eq!(reply.flags() & 0x07f0, flags, "{name}: neither AA nor RA");
                assert_eq!(reply.counts(), [1, 0, 0, 0], "{name}");
            }
        }
    }
}
