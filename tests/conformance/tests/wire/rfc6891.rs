//! RFC 6891: extension mechanisms (EDNS).

/// OPT in the reply.
mod section_6_1_1 {
    use crate::rcode::{BADVERS, FORMERR, NOERROR, NXDOMAIN, REFUSED};
    use conformance::packet::{Packet, opt_record, query, rtype::A, rtype::AAAA};
    use conformance::{Subject, ours};

    /// Faults I-01: without it a resolver takes the server for one that knows no EDNS.
    #[test]
    fn every_reply_to_a_query_with_edns_has_it_and_no_other_has() {
        let cases = [
            (query("v4only.gslb.test", A), NOERROR),
            (query("v4only.gslb.test", AAAA), NOERROR),
            (query("nope.gslb.test", A), NXDOMAIN),
            (query("www.example.org", A), REFUSED),
            (query("huge.gslb.test", A), NOERROR),
        ];
        for (packet, rcode) in cases {
            let plain = Subject::get().ask(&packet);
            assert_eq!((plain.rcode(), plain.opt()), (rcode, None), "{packet:?}");
            let reply = Subject::get().ask(&packet.clone().edns(1024));
            assert_eq!(reply.rcode(), rcode, "{packet:?}");
            let opt = reply.opt().expect("OPT");
            assert_eq!((opt.version, opt.flags), (0, 0), "{packet:?}");
            // Knot and NSD say why they refuse (RFC 8914).
            Subject::get().expect(opt.options, vec![], &[vec![0, 15, 0, 2, 0, 20]]);
            // The server's own size, not the client's.
            Subject::get().expect(opt.size, 1232, &[1024, 4096]);
        }
        let old = Subject::get().ask(&query("v4only.gslb.test", A).edns(1232).edns_version(1, 0));
        assert_eq!((old.rcode(), old.opt().is_some()), (BADVERS, true));
    }

    /// Faults I-03.
    #[test]
    fn two_of_them_are_a_format_error() {
        let opt = opt_record(1232, b"");
        let reply = Subject::get().ask(&query("v4only.gslb.test", A).additional(&opt).additional(&opt));
        assert_eq!((reply.rcode(), reply.counts()[1]), (FORMERR, 0));
    }

    /// Its place is the additional section and its owner the root. Others look less closely.
    #[test]
    fn in_another_section_or_with_a_name_it_is_a_format_error() {
        if !ours() {
            return;
        }
        let opt = opt_record(1232, b"");
        for section in [1, 2] {
            let packet = query("v4only.gslb.test", A).lie(section, 1).raw(&opt);
            assert_eq!(Subject::get().ask(&packet).rcode(), FORMERR, "section {section}");
        }
        let named = [&b"\x01x"[..], &opt].concat();
        assert_eq!(Subject::get().ask(&query("v4only.gslb.test", A).additional(&named)).rcode(), FORMERR);
    }

    /// Records before and after it are no concern of the server's.
    #[test]
    fn other_additional_records_do_no_harm() {
        let record = b"\x01x\0\0\x01\0\x01\0\0\0\0\0\x04\x01\x02\x03\x04";
        let opt = opt_record(1232, b"");
        let orders: [[&[u8]; 2]; 2] = [[&opt, record], [record, &opt]];
        for [first, second] in orders {
            let packet: Packet = query("v4only.gslb.test", A).additional(first).additional(second);
            let reply = Subject::get().ask(&packet);
            // NSD wants OPT last.
            Subject::get().expect(reply.rcode(), NOERROR, &[FORMERR]);
        }
    }
}

/// Options.
mod section_6_1_2 {
    use crate::rcode::{FORMERR, NOERROR};
    use conformance::Subject;
    use conformance::packet::{query, rtype::A};

    const COOKIE: u16 = 10;

    /// Faults I-03.
    #[test]
    fn an_unknown_one_is_passed_over_and_not_echoed() {
        let packet =
            query("v4only.gslb.test", A).option(65_001, b"xyz").option(0, b"").option(100, &[7; 200]);
        let reply = Subject::get().ask(&packet);
        assert_eq!((reply.rcode(), reply.data()), (NOERROR, vec!["192.0.2.4".to_owned()]));
        assert_eq!(reply.opt().expect("OPT").options, [0; 0]);
    }

    #[test]
    fn a_cookie_a_keepalive_and_padding_do_no_harm() {
        let packet =
            query("v4only.gslb.test", A).option(COOKIE, &[1; 8]).option(11, b"").option(12, &[0; 20]);
        assert_eq!(Subject::get().ask(&packet).data(), ["192.0.2.4"]);
    }

    /// Faults I-18: an option that runs over the end of the record.
    #[test]
    fn one_that_is_longer_than_the_record_is_a_format_error() {
        let opt = conformance::packet::opt_record(1232, b"\0\x0a\0\x08\x01");
        let reply = Subject::get().ask(&query("v4only.gslb.test", A).additional(&opt));
        // Knot and NSD pass over what they cannot read.
        Subject::get().expect(reply.rcode(), FORMERR, &[NOERROR]);
    }
}

/// Versions.
mod section_6_1_3 {
    use crate::rcode::BADVERS;
    use conformance::Subject;
    use conformance::packet::{query, rtype::A, rtype::SOA};

    /// Faults I-02.
    #[test]
    fn an_unknown_one_is_told_with_the_question_and_the_version_that_is_known() {
        for version in [1, 2, 100, 255] {
            let packet = query("gslb.test", SOA).edns(1232).edns_version(version, 0).option(100, b"");
            let reply = Subject::get().ask(&packet);
            assert_eq!(reply.rcode(), BADVERS, "version {version}");
            assert_eq!((reply.flags() & 15, reply.counts()), (0, [1, 0, 0, 1]), "version {version}");
            let opt = reply.opt().expect("OPT");
            assert_eq!((opt.version, &opt.options[..]), (0, &[][..]), "version {version}");
        }
    }

    #[test]
    fn it_is_told_over_tcp_as_well() {
        let reply = Subject::get().tcp().ask(&query("v4only.gslb.test", A).edns(512).edns_version(1, 0x8000));
        assert_eq!((reply.rcode(), reply.counts()[1]), (BADVERS, 0));
    }
}

/// Flags.
mod section_6_1_4 {
    use conformance::Subject;
    use conformance::packet::{query, rtype::A};

    const DO: u16 = 0x8000;

    /// Faults I-03. DO is copied (RFC 3225 section 3).
    #[test]
    fn do_comes_back_and_unknown_ones_do_not() {
        for asked in [0, DO, 0x0040, 0x7fff, 0xffff] {
            let reply = Subject::get().ask(&query("v4only.gslb.test", A).edns(1232).edns_version(0, asked));
            assert_eq!(reply.data(), ["192.0.2.4"], "{asked:04x}");
            // gdnsd knows nothing of DO.
            Subject::get().expect(reply.opt().expect("OPT").flags, asked & DO, &[0]);
        }
    }
}

/// Sizes.
mod section_6_2_3 {
    use conformance::packet::{query, rtype::A};
    use conformance::{Subject, ours};

    /// Faults I-04.
    #[test]
    fn below_512_counts_as_512() {
        for size in [0, 1, 100, 511] {
            let fits = Subject::get().ask(&query("v4only.gslb.test", A).edns(size));
            if fits.counts()[1] == 0 && !Subject::get().is_ours() {
                // Knot takes small sizes at their word, but for 0.
                continue;
            }
            assert_eq!(fits.data(), ["192.0.2.4"], "{size}");
            let reply = Subject::get().ask(&query("big.gslb.test", A).edns(size));
            assert!(reply.is_truncated() && reply.bytes.len() <= 512, "{size}");
        }
    }

    /// Faults I-04: larger packets come in fragments, and those get lost.
    #[test]
    fn no_reply_is_larger_than_the_servers_own_size_whatever_is_asked() {
        for size in [1232, 4096, 65_535] {
            let reply = Subject::get().ask(&query("huge.gslb.test", A).edns(size));
            if ours() {
                assert!(reply.is_truncated() && reply.bytes.len() <= 1232, "{size}");
            }
            assert!(reply.bytes.len() <= usize::from(size));
        }
    }

    /// 60 records of 16 octets, question and OPT: 1002.
    #[test]
    fn a_reply_that_just_fits_is_not_truncated_and_one_octet_less_makes_it_so() {
        let whole = Subject::get().ask(&query("big.gslb.test", A).edns(1232)).bytes.len() as u16;
        let ask = |size| Subject::get().ask(&query("big.gslb.test", A).edns(size)).is_truncated();
        // NSD drops the address of the name server first.
        let least = 12 + 19 + 60 * 16 + 11;
        assert!(whole >= least);
        assert_eq!((ask(whole), ask(least - 1)), (false, true));
    }
}
