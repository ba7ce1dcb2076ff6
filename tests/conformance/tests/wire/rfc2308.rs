//! RFC 2308: negative caching: how long a resolver may remember that there is nothing.

const SOA_LINE: &str = "gslb.test. 5 SOA ns1.gslb.test. hostmaster.gslb.test. 1 7200 1800 259200 5";

/// No such name.
mod section_2_1 {
    use super::SOA_LINE;
    use crate::rcode::NXDOMAIN;
    use conformance::packet::rtype::{A, TXT};
    use conformance::{Subject, query};

    /// Faults I-10: the TTL is the lower of the SOA's own and its MINIMUM.
    #[test]
    fn it_is_said_with_the_soa_and_its_negative_ttl() {
        for (name, rtype) in [("nope.gslb.test", A), ("x.y.nope.gslb.test", TXT), ("x.www.gslb.test", A)] {
            let reply = Subject::get().ask(&query(name, rtype));
            assert_eq!((reply.rcode(), reply.is_authoritative()), (NXDOMAIN, true), "{name}");
            assert_eq!(
                (reply.counts(), reply.authorities()),
                ([1, 0, 1, 0], vec![SOA_LINE.to_owned()]),
                "{name}"
            );
        }
    }
}

/// No data of the type.
mod section_2_2 {
    use super::SOA_LINE;
    use crate::rcode::NOERROR;
    use conformance::packet::rtype::{A, AAAA, CAA, DNSKEY, DS, MX, TXT};
    use conformance::{Reply, Subject, query};

    fn assert_no_data(name: &str, reply: &Reply) {
        assert_eq!((reply.rcode(), reply.is_authoritative()), (NOERROR, true), "{name}");
        assert_eq!(
            (reply.counts(), reply.authorities()),
            ([1, 0, 1, 0], vec![SOA_LINE.to_owned()]),
            "{name}"
        );
    }

    /// Faults I-08: the commonest fault of new DNS load balancers.
    #[test]
    fn a_name_with_ipv4_addresses_alone_has_no_ipv6_address_and_exists() {
        for name in ["www.gslb.test", "v4only.gslb.test", "x.wild.gslb.test"] {
            assert_no_data(name, &Subject::get().ask(&query(name, AAAA)));
        }
    }

    /// Faults I-15: certificates are not issued if CAA fails, browsers wait for HTTPS.
    #[test]
    fn a_type_that_is_not_there_or_not_known_is_no_error() {
        let types = [MX, TXT, 64, 65, CAA, DS, DNSKEY, 52, 99, 65_399, 65_280];
        for name in ["www.gslb.test", "v4only.gslb.test", "x.wild.gslb.test"] {
            for rtype in types {
                assert_no_data(&format!("{name} TYPE{rtype}"), &Subject::get().ask(&query(name, rtype)));
            }
        }
        for rtype in [A, AAAA, DNSKEY, DS, 65] {
            let reply = Subject::get().ask(&query("gslb.test", rtype));
            // Of DS at the apex the parent should be asked; gdnsd refuses the question.
            if rtype != DS || Subject::get().node().is_some() {
                assert_no_data(&format!("gslb.test TYPE{rtype}"), &reply);
            }
        }
        assert_eq!(Subject::get().ask(&query("gslb.test", CAA)).data(), ["0 issue \"ca.test\""]);
    }

    /// An alias to a name without data: the alias, and the SOA.
    #[test]
    fn an_alias_to_no_data_keeps_the_alias() {
        let reply = Subject::get().ask(&query("alias.gslb.test", AAAA));
        assert_eq!(
            (reply.rcode(), reply.answers()),
            (NOERROR, vec!["alias.gslb.test. 60 CNAME www.gslb.test.".to_owned()])
        );
        // gdnsd leaves the rest to the resolver.
        Subject::get().expect(reply.authorities(), vec![SOA_LINE.to_owned()], &[vec![]]);
    }
}

/// Where the TTL comes from.
mod section_3 {
    use conformance::fixture::Setup;
    use conformance::packet::rtype::SOA;
    use conformance::packet::rtype::{A, AAAA};
    use conformance::{Subject, Udp, ours, query};

    /// Faults I-10.
    #[test]
    fn the_soa_itself_keeps_its_ttl() {
        let reply = Subject::get().ask(&query("gslb.test", SOA));
        let ttl = reply.message.answers[0].ttl;
        // gdnsd lowers it to the negative one.
        Subject::get().expect(ttl, 3600, &[5]);
    }

    /// Faults I-09: with all services down and `all_down = "empty"` the name is still there.
    #[test]
    fn a_gslb_domain_without_a_service_has_no_data_and_exists() {
        if !ours() {
            return;
        }
        let dead = "[[monitors]]\nname = \"dead\"\nkind = \"tcp\"\ninterval = \"200ms\"\ntimeout = \"100ms\"\nfall = 1";
        let text = Setup::default().table(dead).vserver("all_down = \"empty\"").text();
        // Nothing listens on port 9 of this address; sites without a node that runs are down at once.
        let text = text.replace("192.0.2.10\"\nport = 80", "127.0.0.1\"\nport = 9\nmonitors = [\"dead\"]");
        let text = text.replace("down_delay = \"1h\"", "down_delay = \"0s\"\nkeepalive = \"2s\"");
        let node = conformance::Node::start(&text);
        let udp = Udp::to(node.address());
        conformance::eventually("no address", conformance::PATIENCE, || {
            (udp.ask(&query("www.gslb.test", A)).counts()[1] == 0).then_some(())
        });
        for (name, aliases) in [("www.gslb.test", 0), ("alias.gslb.test", 1)] {
            for rtype in [A, AAAA] {
                let reply = udp.ask(&query(name, rtype));
                assert_eq!((reply.rcode(), reply.counts()), (0, [1, aliases, 1, 0]), "{name}");
                assert_eq!(reply.authorities(), [super::SOA_LINE]);
            }
        }
    }
}
