//! RFC 1035: domain names, implementation: messages, names, and what is no message.

/// Upper and lower case.
mod section_2_3_3 {
    use crate::rcode::{NOERROR, NXDOMAIN};
    use conformance::mutate::Mutator;
    use conformance::packet::{rtype::A, wire};
    use conformance::{Packet, Reply, Subject, query};

    fn ask(name: &[u8]) -> Reply {
        Subject::get().ask(&Packet::new().question(name, A, 1))
    }

    /// Faults I-07: resolvers mix the case at random and want to see it again.
    #[test]
    fn whatever_the_case_the_answer_is_the_same_and_the_question_comes_back_as_it_was() {
        let mut mutator = Mutator::new(20);
        for name in
            ["v4only.gslb.test", "alias.gslb.test", "x.wild.gslb.test", "nope.gslb.test", "a.b.ent.gslb.test"]
        {
            let straight = ask(&wire(name));
            for _ in 0..40 {
                let mixed: String = name
                    .chars()
                    .map(|c| if mutator.below(2) == 0 { c.to_ascii_uppercase() } else { c })
                    .collect();
                let reply = ask(&wire(&mixed));
                assert_eq!(reply.rcode(), straight.rcode(), "{mixed}");
                assert_eq!(reply.counts(), straight.counts(), "{mixed}");
                assert_eq!(reply.question(), [&wire(&mixed)[..], &[0, 1, 0, 1]].concat());
                // Which of the addresses of www comes at the end of the alias is a matter of turns.
                if name != "alias.gslb.test" {
                    assert_eq!(reply.data(), straight.data(), "{mixed}");
                }
            }
        }
    }

    /// Only ASCII letters have a case (RFC 4343 section 3.1).
    #[test]
    fn octets_beyond_ascii_are_not_folded() {
        let exact = ask(&[&[1, 0xe1][..], &wire("gslb.test")].concat());
        assert_eq!((exact.rcode(), exact.data()), (NOERROR, vec!["192.0.2.7".to_owned()]));
        let other = ask(&[&[1, 0xc1][..], &wire("gslb.test")].concat());
        assert_eq!((other.rcode(), other.counts()[1]), (NXDOMAIN, 0));
    }

    /// Faults I-06: a name in another case is compressed as well.
    #[test]
    fn a_reply_is_as_small_in_mixed_case_as_in_lower_case() {
        for name in ["www.gslb.test", "wWw.GsLb.TeSt"] {
            let reply = Subject::get().ask(&query(name, A));
            // NSD adds the name servers.
            Subject::get().expect(reply.bytes.len(), 12 + 15 + 4 + 16, &[12 + 15 + 4 + 16 + 68]);
            assert_eq!(reply.bytes[31..33], [0xc0, 12], "{name}");
        }
    }
}

/// Classes.
mod section_3_2_4 {
    use crate::rcode::{NOERROR, REFUSED};
    use conformance::packet::{rtype::A, rtype::TXT, wire};
    use conformance::{Packet, Subject, ours};

    const CH: u16 = 3;
    const HS: u16 = 4;
    const ANY: u16 = 255;

    /// Faults I-19.
    #[test]
    fn no_internet_data_appears_under_another_class() {
        for class in [CH, HS, 2, 99] {
            let reply = Subject::get().ask(&Packet::new().question(&wire("www.gslb.test"), A, class));
            // gdnsd answers every question of class CH with its name.
            let others: &[_] = if class == CH { &[(NOERROR, 1)] } else { &[] };
            Subject::get().expect((reply.rcode(), reply.counts()[1]), (REFUSED, 0), others);
        }
    }

    #[test]
    fn class_any_means_the_one_class_there_is() {
        let reply = Subject::get().ask(&Packet::new().question(&wire("v4only.gslb.test"), A, ANY));
        // BIND refuses.
        Subject::get().expect((reply.rcode(), reply.counts()[1]), (NOERROR, 1), &[(REFUSED, 0)]);
    }

    /// Faults I-19: others disclose theirs unless told otherwise.
    #[test]
    fn nobody_learns_what_runs_here_unless_it_is_configured() {
        if !ours() {
            return;
        }
        for name in ["version.bind", "version.server", "hostname.bind", "id.server"] {
            let reply = Subject::get().ask(&Packet::new().question(&wire(name), TXT, CH));
            assert_eq!((reply.rcode(), reply.counts()), (REFUSED, [1, 0, 0, 0]), "{name}");
        }
    }
}

/// The header.
mod section_4_1_1 {
    use crate::rcode::{FORMERR, NOTAUTH, NOTIMP, REFUSED};
    use conformance::packet::{Packet, query, rtype::A, rtype::SOA};
    use conformance::{Subject, Udp};

    const RD: u16 = 0x0100;

    #[test]
    fn the_id_comes_back_and_qr_is_set() {
        for id in [0, 1, 0x8000, 0xffff] {
            let reply = Subject::get().ask(&query("v4only.gslb.test", A).id(id));
            assert_eq!((reply.id(), reply.flags() >> 15), (id, 1));
        }
    }

    #[test]
    fn of_the_flags_rd_is_copied_and_recursion_is_never_offered() {
        for flag in 0..11 {
            let asked = 1_u16 << flag;
            let reply = Subject::get().ask(&query("v4only.gslb.test", A).flags(asked));
            // BIND copies CD as well, NSD wants no rcode in a query.
            let others = [0x8400 | asked & (RD | 0x10), 0x8001];
            Subject::get().expect(reply.flags(), 0x8400 | asked & RD, &others);
            assert!(reply.data() == ["192.0.2.4"] || reply.rcode() != 0, "flag {asked:04x}");
        }
    }

    /// Faults I-16.
    #[test]
    fn other_operations_are_not_implemented_and_show_no_records() {
        for opcode in [1, 2, 3, 4, 5, 6, 7, 15] {
            let whole = query("gslb.test", SOA);
            for packet in [whole.clone(), Packet::new(), whole.flags(0x07f0)] {
                let reply = Subject::get().ask(&packet.opcode(opcode));
                // Knot and NSD know NOTIFY and UPDATE well enough to refuse them, and tell an empty one from a whole one.
                let others = [REFUSED, NOTAUTH, FORMERR];
                Subject::get().expect(
                    reply.rcode(),
                    NOTIMP,
                    if [4, 5].contains(&opcode) { &others } else { &others[2..] },
                );
                // Others copy all flags or some.
                let looked_at = if Subject::get().is_ours() { 0xfff0 } else { 0xf800 };
                assert_eq!(reply.flags() & looked_at, 0x8000 | opcode << 11, "opcode {opcode}");
                assert_eq!(reply.counts()[1..], [0; 3], "opcode {opcode}");
            }
        }
    }

    /// Faults I-70: two servers that answer each other's replies never end.
    #[test]
    fn a_reply_is_not_replied_to() {
        let udp = Subject::get().udp();
        for opcode in 0..16 {
            udp.expect_silence(&query("www.gslb.test", A).flags(0x8000 | opcode << 11).bytes());
        }
        udp.expect_silence(&Packet::new().flags(0x8000).bytes());
    }

    #[test]
    fn what_is_shorter_than_a_header_is_not_replied_to() {
        let udp = Subject::get().udp();
        let whole = query("www.gslb.test", A).bytes();
        for length in [0, 1, 2, 11] {
            udp.expect_silence(&whole[..length]);
        }
    }

    /// Faults I-17 (RFC 9619 section 4). Others keep silent.
    #[test]
    fn a_query_has_one_question() {
        let two = query("www.gslb.test", A).question(b"\0", A, 1);
        for packet in [Packet::new(), two, Packet::new().lie(0, u16::MAX)] {
            formerr_or_silence(&Subject::get().udp(), &packet.bytes());
        }
    }

    /// FORMERR without records; other servers may keep silent.
    pub(super) fn formerr_or_silence(udp: &Udp, packet: &[u8]) {
        udp.send(packet);
        if Subject::get().node().is_none() {
            // Whatever comes first: FORMERR, or the reply to this one.
            udp.send(&query("gslb.test", SOA).id(1).bytes());
        }
        let reply = udp.receive();
        if Subject::get().node().is_none() && reply.id() == 1 {
            return;
        }
        assert_eq!((reply.rcode(), &reply.counts()[1..3]), (FORMERR, &[0, 0][..]), "{packet:02x?}");
        assert_eq!(reply.id(), u16::from_be_bytes([packet[0], packet[1]]));
    }
}

/// Questions and records that are no such.
mod section_4_1_2 {
    use super::section_4_1_1::formerr_or_silence;
    use conformance::packet::{Packet, query, rtype::A};
    use conformance::{Subject, ours};

    /// Faults I-18.
    #[test]
    fn a_name_that_can_be_none_is_a_format_error() {
        let names: [&[u8]; 8] = [
            b"\xc0\x0c",
            b"\xc0\x0e\xc0\x0c",
            b"\xff\xff",
            b"\x01a\xc0\x0c",
            b"\x40aaaa\0",
            b"\x80aaaa\0",
            &[b"\x3f".as_slice(), &[b'a'; 63]].concat().repeat(4),
            &b"\x01a".repeat(128),
        ];
        for name in names {
            let packet = Packet::new().question(name, A, 1).raw(b"\0\0\x01\0\x01");
            formerr_or_silence(&Subject::get().udp(), &packet.bytes());
        }
    }

    /// Faults I-18: counts that promise what is not there.
    #[test]
    fn a_packet_that_ends_too_early_is_a_format_error() {
        let whole = query("www.gslb.test", A).bytes();
        for length in 12..whole.len() {
            formerr_or_silence(&Subject::get().udp(), &whole[..length]);
        }
        for section in 1..4 {
            let packet = query("www.gslb.test", A).lie(section, 1);
            formerr_or_silence(&Subject::get().udp(), &packet.bytes());
        }
    }

    /// Faults I-18. NSD, BIND and gdnsd let it pass, Knot does not.
    #[test]
    fn nothing_may_follow_the_last_record() {
        if ours() {
            formerr_or_silence(&Subject::get().udp(), &query("www.gslb.test", A).raw(b"garbage").bytes());
        }
    }
}

/// UDP.
mod section_4_2_1 {
    use conformance::packet::rtype::A;
    use conformance::{Subject, query};

    /// Without EDNS 512 octets are all that may be sent (faults I-04).
    #[test]
    fn a_reply_of_more_than_512_octets_is_truncated() {
        let reply = Subject::get().ask(&query("big.gslb.test", A));
        assert!(reply.is_truncated());
        assert!(reply.bytes.len() <= 512);
    }
}
