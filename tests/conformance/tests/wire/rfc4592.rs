//! RFC 4592: wildcards, and names that exist because something exists below them.

/// Empty non-terminals.
mod section_2_2_2 {
    use crate::rcode::NOERROR;
    use conformance::packet::rtype::{A, NS, TXT};
    use conformance::{Subject, query};

    /// Faults I-11: a resolver that minimises names asks for these first, and gives up on NXDOMAIN (RFC 8020).
    #[test]
    fn a_name_above_another_one_exists_and_has_no_data() {
        for name in ["b.ent.gslb.test", "ent.gslb.test", "wild.gslb.test", "_tcp.gslb.test"] {
            for rtype in [A, NS, TXT] {
                let reply = Subject::get().ask(&query(name, rtype));
                assert_eq!((reply.rcode(), reply.counts()), (NOERROR, [1, 0, 1, 0]), "{name}");
                assert!(reply.authorities()[0].starts_with("gslb.test. 5 SOA "), "{name}");
            }
        }
        assert_eq!(Subject::get().ask(&query("a.b.ent.gslb.test", A)).data(), ["192.0.2.5"]);
    }
}

/// What a wildcard stands for.
mod section_3_3_1 {
    use crate::rcode::{NOERROR, NXDOMAIN};
    use conformance::packet::rtype::{A, TXT};
    use conformance::{Subject, query};

    /// Faults I-12.
    #[test]
    fn it_stands_for_every_name_below_of_one_label_or_several() {
        for name in ["x.wild.gslb.test.", "a.b.wild.gslb.test.", "*.wild.gslb.test."] {
            let reply = Subject::get().ask(&query(name, A));
            assert_eq!(reply.answers(), [format!("{name} 60 A 192.0.2.6")]);
        }
    }

    /// Faults I-12: a minimising resolver asks for A first, and NXDOMAIN would hide the other types.
    #[test]
    fn of_other_types_there_is_no_data() {
        let reply = Subject::get().ask(&query("x.wild.gslb.test", TXT));
        assert_eq!((reply.rcode(), reply.counts()), (NOERROR, [1, 0, 1, 0]));
    }

    #[test]
    fn it_does_not_stand_for_names_below_an_existing_one() {
        for name in ["x.www.gslb.test", "x.v4only.gslb.test", "x.ent.gslb.test"] {
            let reply = Subject::get().ask(&query(name, A));
            assert_eq!((reply.rcode(), reply.counts()), (NXDOMAIN, [1, 0, 1, 0]), "{name}");
        }
    }
}
