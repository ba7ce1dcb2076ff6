//! RFC 7871: client subnet. Decisions are made by the resolver's address, so the scope is 0. NSD and Knot know nothing of it
//! and leave the option out.

/// What comes back.
mod section_7_2_1 {
    use crate::rcode::NOERROR;
    use conformance::packet::rtype::{A, AAAA};
    use conformance::{Packet, Subject, query};

    const V4_24: &[u8] = &[0, 8, 0, 7, 0, 1, 24, 0, 198, 51, 100];
    const V4_20: &[u8] = &[0, 8, 0, 7, 0, 1, 20, 0, 198, 51, 96];
    const V6_56: &[u8] = &[0, 8, 0, 11, 0, 2, 56, 0, 0x20, 1, 0x0d, 0xb8, 1, 2, 3];

    fn assert_echoed(packet: &Packet, option: &[u8]) {
        let reply = Subject::get().ask(packet);
        assert!(reply.rcode() == NOERROR || reply.counts()[1] == 0);
        let options = reply.opt().expect("OPT").options;
        // gdnsd claims a scope as long as the source for static data.
        let mut gdnsd = option.to_vec();
        gdnsd[7] = option[6];
        Subject::get().expect(options, option.to_vec(), &[vec![], gdnsd]);
    }

    /// Faults I-27.
    #[test]
    fn the_subnet_is_echoed_octet_for_octet_with_scope_0() {
        for (name, rtype) in
            [("www.gslb.test", A), ("v4only.gslb.test", A), ("www.gslb.test", AAAA), ("nope.gslb.test", A)]
        {
            assert_echoed(&query(name, rtype).client_subnet(1, 24, &[198, 51, 100]), V4_24);
            assert_echoed(&query(name, rtype).client_subnet(1, 20, &[198, 51, 96]), V4_20);
            assert_echoed(&query(name, rtype).client_subnet(2, 56, &V6_56[8..]), V6_56);
        }
    }

    /// Faults I-28: those who want privacy send it.
    #[test]
    fn an_empty_prefix_is_no_error() {
        assert_echoed(&query("www.gslb.test", A).client_subnet(1, 0, &[]), &[0, 8, 0, 4, 0, 1, 0, 0]);
        assert_echoed(&query("www.gslb.test", A).client_subnet(2, 0, &[]), &[0, 8, 0, 4, 0, 2, 0, 0]);
    }

    /// Faults I-27: a resolver throws away an answer for a subnet it did not send.
    #[test]
    fn without_it_in_the_query_there_is_none_in_the_reply() {
        assert_eq!(
            Subject::get().ask(&query("www.gslb.test", A).edns(1232)).opt().expect("OPT").options,
            [0; 0]
        );
    }
}

/// What is refused.
mod section_7_1_2 {
    use crate::rcode::{FORMERR, NOERROR};
    use conformance::packet::rtype::A;
    use conformance::{Subject, query};

    /// Faults I-28, threat T5: with OPT, and the option not echoed.
    #[test]
    fn a_subnet_that_can_be_none_is_a_format_error() {
        let subnets: [(u16, u8, &[u8]); 7] = [
            (3, 24, &[1, 2, 3]),
            (1, 33, &[1, 2, 3, 4, 5]),
            (1, 24, &[1, 2]),
            (1, 24, &[1, 2, 3, 4]),
            (1, 20, &[198, 51, 111]),
            (2, 129, &[0; 17]),
            (65_535, 0, &[]),
        ];
        for (family, source, address) in subnets {
            let reply = Subject::get().ask(&query("www.gslb.test", A).client_subnet(family, source, address));
            // Those who don't know the option pass over it.
            Subject::get().expect(reply.rcode(), FORMERR, &[NOERROR]);
            let options = reply.opt().map(|opt| opt.options);
            if Subject::get().node().is_some() {
                assert_eq!((reply.counts()[1], options), (0, Some(vec![])), "{family}/{source}");
            }
        }
    }

    #[test]
    fn an_option_too_short_for_its_fields_is_one_too() {
        for data in [&[][..], &[0], &[0, 1, 24]] {
            let reply = Subject::get().ask(&query("www.gslb.test", A).option(8, data));
            Subject::get().expect(reply.rcode(), FORMERR, &[NOERROR]);
        }
    }
}
