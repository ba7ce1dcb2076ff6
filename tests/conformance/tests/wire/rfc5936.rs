//! RFC 5936: zone transfer, which nobody gets who is not told to.

/// Who may ask.
mod section_4 {
    use crate::rcode::{FORMERR, NOTAUTH, NOTIMP, REFUSED};
    use conformance::packet::rtype::{AXFR, IXFR, SOA};
    use conformance::packet::wire;
    use conformance::{Reply, Subject, query};

    fn assert_refused(reply: &Reply) {
        Subject::get().expect(reply.rcode(), NOTIMP, &[REFUSED, NOTAUTH, FORMERR]);
        assert_eq!(reply.counts()[1], 0);
    }

    /// Faults I-21: it would show every site's addresses.
    #[test]
    fn a_zone_is_not_handed_out() {
        let soa = [&wire("gslb.test")[..], &[0, 6, 0, 1, 0, 0, 0, 0, 0, 4], &[0; 4]].concat();
        for rtype in [AXFR, IXFR] {
            let packet = query("gslb.test", rtype);
            assert_refused(&Subject::get().tcp().ask(&packet));
            assert_refused(&Subject::get().ask(&packet));
        }
        assert_refused(&Subject::get().tcp().ask(&query("gslb.test", IXFR).lie(2, 1).raw(&soa)));
    }

    #[test]
    fn the_connection_goes_on_after_a_refusal() {
        let mut tcp = Subject::get().tcp();
        assert_refused(&tcp.ask(&query("gslb.test", AXFR)));
        assert_eq!(tcp.ask(&query("gslb.test", SOA)).counts()[1], 1);
    }
}
