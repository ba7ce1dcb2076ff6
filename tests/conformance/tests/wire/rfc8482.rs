//! RFC 8482: queries for ANY, which amplify.

/// What they get.
mod section_4 {
    use crate::rcode::NOERROR;
    use conformance::fixture::WWW;
    use conformance::packet::rtype::{A, ANY};
    use conformance::{Subject, ours, query};

    /// Faults I-20: one RRset at most, and not three times as much as was sent.
    #[test]
    fn one_rrset_is_answer_enough() {
        for name in ["gslb.test", "www.gslb.test", "v4only.gslb.test"] {
            let packet = query(name, ANY);
            let reply = Subject::get().ask(&packet);
            assert_eq!(reply.rcode(), NOERROR, "{name}");
            let mut types: Vec<_> = reply.message.answers.iter().map(|record| record.record_type()).collect();
            types.dedup();
            assert_eq!(types.len(), 1, "{name}: {:?}", reply.answers());
            // Knot gives the name servers with their addresses.
            if Subject::get().is_ours() {
                assert!(reply.bytes.len() < 3 * packet.bytes().len(), "{name}: {} octets", reply.bytes.len());
            }
        }
    }

    /// Faults I-20: the decision holds for ANY as well.
    #[test]
    fn of_a_gslb_domain_one_selected_address_is_shown_and_not_all() {
        if !ours() {
            return;
        }
        let address = Subject::get().ask(&query("www.gslb.test", ANY)).data();
        assert!(address.len() == 1 && WWW.contains(&&*address[0]), "{address:?}");
        assert_eq!(Subject::get().ask(&query("www.gslb.test", A)).counts()[1], 1);
    }
}
