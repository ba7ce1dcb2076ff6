//! RFC 3597: records of types that the server does not know.

/// They are handed out as they are.
mod section_3 {
    use conformance::{Subject, query};

    #[test]
    fn a_record_of_an_unknown_type_is_served() {
        let reply = Subject::get().ask(&query("odd.gslb.test", 65_399));
        assert_eq!(reply.counts()[1], 1);
        assert!(reply.bytes.windows(5).any(|octets| octets == b"\0\x03ABC"), "{:02x?}", reply.bytes);
    }
}

/// Names in data of types beyond RFC 1035 are not compressed.
mod section_4 {
    use conformance::packet::wire;
    use conformance::{Subject, query};

    /// Faults I-06.
    #[test]
    fn the_target_of_srv_is_written_in_full() {
        let reply = Subject::get().ask(&query("_sip._tcp.gslb.test", 33));
        let target = wire("v4only.gslb.test");
        let written = [&[0, 7 - 1 + target.len() as u8, 0, 1, 0, 2, 0x13, 0xc4][..], &target].concat();
        assert!(reply.bytes.windows(written.len()).any(|octets| octets == written), "{:02x?}", reply.bytes);
    }
}
