//! Part A of the fault catalogue (I-01 to I-30), as far as it can be tested without a socket; what is about GSLB domains
//! (I-08, I-09, I-29, I-30) is in `dns_gslb`. Fixture: `dns_support`.

mod dns_support;

use dns_support::{ANY, NEGATIVE_SOA, Packet, Server, Setup, query, wire};
use gslb_core::dns::Transport;
use std::sync::atomic::Ordering;

/// Silence.
const NO_REPLY: [u8; 0] = [];

const A: u16 = 1;
const NS: u16 = 2;
const SOA: u16 = 6;
const MX: u16 = 15;
const TXT: u16 = 16;
const AAAA: u16 = 28;
const SRV: u16 = 33;
const DS: u16 = 43;
const DNSKEY: u16 = 48;
const HTTPS: u16 = 65;
const IXFR: u16 = 251;
const AXFR: u16 = 252;
const CAA: u16 = 257;

/// OPT of a reply to a query without options: this server's size, version 0, no flag.
const PLAIN_OPT: [u8; 11] = [0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 0];

fn www() -> Packet {
    query("www.gslb.test", A)
}

#[test]
fn i_01_a_query_with_edns_gets_opt_and_one_without_gets_none() {
    let server = Server::new();
    for (packet, header) in [
        (www(), "aa rcode=0 1/1/0/1"),
        (query("nope.gslb.test", A), "aa rcode=3 1/0/1/1"),
        (query("www.gslb.test", TXT), "aa rcode=0 1/0/1/1"),
        (query("www.example.org", A), "rcode=5 1/0/0/1"),
        (query("big.gslb.test", A), "aa tc rcode=0 1/0/0/1"),
        (query("x.y", TXT), "rcode=5 1/0/0/1"),
    ] {
        let with = server.ask(&packet.clone().edns(512));
        assert_eq!(with.header(), header);
        assert_eq!(with.opt(), PLAIN_OPT);
        let without = server.ask(&packet);
        assert!(without.message.edns.is_none());
    }
}

#[test]
fn i_01_the_do_flag_is_copied_and_no_other() {
    let server = Server::new();
    let reply = server.ask(&www().edns(4096).edns_flags(0xffff));
    assert_eq!(reply.opt(), [0, 0, 41, 4, 0xd0, 0, 0, 0x80, 0, 0, 0]);
}

#[test]
fn i_02_an_unknown_edns_version_gets_badvers_with_the_question() {
    let server = Server::new();
    for version in [1, 100, 255] {
        let packet = query("gslb.test", SOA).edns(1232).version(version).option(100, b"");
        let reply = server.ask(&packet);
        assert_eq!(reply.header(), "rcode=0 1/0/0/1");
        assert_eq!(reply.bytes[12..12 + 15], packet.body[..]);
        assert_eq!(
            reply.opt(),
            [0, 0, 41, 4, 0xd0, 1, 0, 0, 0, 0, 0],
            "extended rcode 1, version 0, no option"
        );
    }
    assert_eq!(server.shared.dns.read().badvers, 3);
}

#[test]
fn i_02_options_of_an_unknown_version_are_not_judged() {
    let reply = Server::new().ask(&www().edns(1232).version(1).ecs(3, 99, 0, b"?"));
    assert_eq!(reply.opt()[5], 1, "BADVERS, not FORMERR");
}

#[test]
fn i_03_unknown_options_and_flags_are_ignored_and_not_echoed() {
    let server = Server::new();
    for packet in [
        www().edns(1232).option(65001, b"xyz"),
        www().edns(1232).option(10, &[1; 8]),
        www().edns(1232).option(10, &[1; 8]).option(10, &[2; 8]),
        www().edns(1232).edns_flags(0x0040),
        www().edns(1232).option(3, b""),
    ] {
        let reply = server.ask(&packet);
        assert_eq!(reply.header(), "aa rcode=0 1/1/0/1");
        assert_eq!(reply.opt(), PLAIN_OPT);
    }
}

#[test]
fn i_03_two_opt_records_are_a_format_error() {
    let reply = Server::new().ask(&www().additional(1, &PLAIN_OPT).edns(1232));
    assert_eq!(reply.header(), "rcode=1 1/0/0/1");
    assert_eq!(reply.opt(), PLAIN_OPT);
}

#[test]
fn i_04_no_udp_reply_is_longer_than_the_servers_own_limit() {
    let server = Server::new();
    let reply = server.ask(&query("huge.gslb.test", A).edns(65535));
    assert_eq!((reply.header().as_str(), reply.opt()), ("aa tc rcode=0 1/0/0/1", &PLAIN_OPT[..]));
    let tcp = server.ask_tcp(&query("huge.gslb.test", A).edns(65535));
    assert_eq!((tcp.header().as_str(), tcp.bytes.len()), ("aa rcode=0 1/200/0/1", 12 + 20 + 200 * 16 + 11));
}

#[test]
fn i_04_sizes_below_512_count_as_512() {
    let server = Server::new();
    for size in [0, 100, 511, 512] {
        assert_eq!(server.ask(&www().edns(size)).header(), "aa rcode=0 1/1/0/1");
        assert_eq!(server.ask(&query("big.gslb.test", A).edns(size)).header(), "aa tc rcode=0 1/0/0/1");
    }
}

#[test]
fn i_05_a_truncated_reply_has_question_and_opt_and_no_record() {
    let server = Server::new();
    let packet = query("big.gslb.test", A);
    let plain = server.ask(&packet);
    assert_eq!((plain.header().as_str(), plain.bytes.len()), ("aa tc rcode=0 1/0/0/0", 31));
    let edns = server.ask(&packet.clone().edns(512));
    assert_eq!((edns.header().as_str(), edns.bytes.len()), ("aa tc rcode=0 1/0/0/1", 42));
    for whole in [server.ask(&packet.clone().edns(1232)), server.ask_tcp(&packet.edns(512))] {
        assert_eq!((whole.header().as_str(), whole.bytes.len()), ("aa rcode=0 1/60/0/1", 31 + 60 * 16 + 11));
    }
    assert_eq!(server.shared.dns.read().truncated, 2);
}

#[test]
fn i_05_a_reply_of_exactly_the_limit_is_whole() {
    let server = Server::new();
    // 31 + 60 * 16 + 11 = 1002
    assert_eq!(server.ask(&query("big.gslb.test", A).edns(1002)).header(), "aa rcode=0 1/60/0/1");
    assert_eq!(server.ask(&query("big.gslb.test", A).edns(1001)).header(), "aa tc rcode=0 1/0/0/1");
}

#[test]
fn i_06_the_owner_points_to_the_question_whatever_its_case() {
    let server = Server::new();
    for name in ["www.gslb.test", "wWw.GsLb.TeSt"] {
        let reply = server.ask(&query(name, A));
        assert_eq!(reply.bytes.len(), 12 + 19 + 16);
        assert_eq!(reply.bytes[31..41], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5]);
    }
}

#[test]
fn i_06_names_in_rdata_are_compressed_for_mx_and_not_for_srv() {
    let server = Server::new();
    let mx = server.ask(&query("GSLB.test", MX));
    assert!(mx.bytes.windows(7).any(|w| w == b"\x04mail\xc0\x0c"), "the target points to the question");
    let srv = server.ask(&query("_sip._tcp.gslb.test", SRV));
    let target = wire("v4only.gslb.test");
    assert!(srv.bytes.windows(target.len()).any(|w| w == target), "RFC 2782: in full");
}

#[test]
fn i_07_case_changes_no_answer_and_the_question_comes_back_as_it_was() {
    let server = Server::new();
    let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
    for name in ["www.gslb.test", "alias.gslb.test", "x.wild.gslb.test", "nope.gslb.test"] {
        let expected = server.ask(&query(name, AAAA)).records().to_lowercase();
        for _ in 0..50 {
            bits = bits.rotate_left(7).wrapping_mul(0x2545_f491_4f6c_dd1d);
            let mixed: String = name
                .char_indices()
                .map(|(n, c)| if bits >> n & 1 == 1 { c.to_ascii_uppercase() } else { c })
                .collect();
            let packet = query(&mixed, AAAA);
            let reply = server.ask(&packet);
            assert_eq!(reply.records().to_lowercase(), expected);
            assert_eq!(reply.bytes[12..12 + packet.body.len()], packet.body);
        }
    }
}

#[test]
fn i_07_octets_beyond_ascii_are_not_folded() {
    let server = Server::new();
    let under = |octet: u8| [&[1, octet], &wire("gslb.test")[..]].concat();
    for octet in [0xc1, 0xe1] {
        let packet = Packet::new().question(&under(octet), A, 1);
        let reply = server.ask(&packet);
        assert_eq!(reply.bytes[2..4], [0x84, 3]);
        assert_eq!(reply.bytes[12..12 + packet.body.len()], packet.body);
    }
}

#[test]
fn i_07_a_zone_configured_in_mixed_case_is_found_in_any() {
    let server = Server::with_zones(&[(
        "GSLB.Test.",
        "@ 60 SOA ns.GSLB.Test. h.GSLB.Test. 1 2 3 4 5\nWwW 60 A 192.0.2.9",
    )]);
    assert_eq!(server.ask(&query("www.gslb.test", A)).addresses(), ["192.0.2.9"]);
    assert_eq!(server.ask(&query("WWW.gslb.TEST", A)).addresses(), ["192.0.2.9"]);
}

#[test]
fn i_10_the_negative_ttl_is_the_lower_of_soa_ttl_and_minimum() {
    let server = Server::new();
    assert_eq!(server.ask(&query("nope.gslb.test", A)).message.authorities[0].ttl, 5);
    assert_eq!(server.ask(&query("www.gslb.test", AAAA)).message.authorities[0].ttl, 5);
    assert_eq!(server.ask(&query("gslb.test", SOA)).message.answers[0].ttl, 3600);
    let low = Server::with_zones(&[("low.test.", "@ 7 SOA ns.low.test. h.low.test. 1 2 3 4 3600")]);
    assert_eq!(low.ask(&query("low.test", A)).message.authorities[0].ttl, 7, "RFC 2308 section 5");
}

#[test]
fn i_11_every_ancestor_of_a_name_exists() {
    let server = Server::new();
    for name in ["b.ent.gslb.test", "ent.gslb.test", "wild.gslb.test", "_tcp.gslb.test"] {
        assert_eq!(server.ask(&query(name, A)).header(), "aa rcode=0 1/0/1/0", "{name}");
    }
    assert_eq!(server.ask(&query("a.b.ent.gslb.test", A)).addresses(), ["192.0.2.5"]);
    assert_eq!(server.ask(&query("x.ent.gslb.test", A)).header(), "aa rcode=3 1/0/1/0");
}

#[test]
fn i_12_a_wildcard_answers_for_its_types_and_is_nodata_for_others() {
    let server = Server::new();
    assert_eq!(server.ask(&query("x.wild.gslb.test", TXT)).header(), "aa rcode=0 1/0/1/0");
    assert_eq!(server.ask(&query("*.wild.gslb.test", A)).records(), "*.wild.gslb.test. 60 A 192.0.2.6");
    assert_eq!(server.ask(&query("a.b.wild.gslb.test", A)).records(), "a.b.wild.gslb.test. 60 A 192.0.2.6");
    assert_eq!(server.ask(&query("x.www.gslb.test", A)).header(), "aa rcode=3 1/0/1/0");
}

#[test]
fn i_13_the_apex_has_its_ns_with_addresses_and_its_soa() {
    let server = Server::new();
    let ns = server.ask(&query("gslb.test", NS));
    assert_eq!(ns.header(), "aa rcode=0 1/2/0/2");
    assert_eq!(
        ns.records(),
        "gslb.test. 3600 NS ns1.gslb.test., gslb.test. 3600 NS ns2.gslb.test. |  | \
         ns1.gslb.test. 3600 A 192.0.2.1, ns2.gslb.test. 3600 A 192.0.2.2"
    );
    assert_eq!(server.ask(&query("gslb.test", SOA)).header(), "aa rcode=0 1/1/0/0");
    assert_eq!(server.ask(&query("gslb.test", DNSKEY)).header(), "aa rcode=0 1/0/1/0");
    assert_eq!(server.ask(&query("ns1.gslb.test", A)).records(), "ns1.gslb.test. 3600 A 192.0.2.1");
}

#[test]
fn i_15_types_nobody_configured_are_nodata_everywhere() {
    let server = Server::new();
    for qtype in [64, HTTPS, CAA, DS, 52, 65399, 41, 0, 46, 47, 128, 249, 253, 254, 65535] {
        for name in ["www.gslb.test", "v4only.gslb.test", "x.wild.gslb.test", "ent.gslb.test"] {
            let reply = server.ask(&query(name, qtype));
            assert_eq!(reply.header(), "aa rcode=0 1/0/1/0", "{name} {qtype}");
            assert_eq!(reply.records(), format!(" | {NEGATIVE_SOA}"));
        }
    }
    assert_eq!(server.ask(&query("gslb.test", CAA)).records(), "gslb.test. 3600 CAA 0 issue \"ca.test\"");
    assert_eq!(server.ask(&query("gslb.test", DS)).header(), "aa rcode=0 1/0/1/0");
}

#[test]
fn i_15_a_type_without_a_name_is_served_as_configured() {
    let reply = Server::new().ask(&query("odd.gslb.test", 65399));
    assert!(reply.bytes.ends_with(b"\0\x03ABC"));
}

#[test]
fn i_16_other_opcodes_get_notimp_with_the_opcode_and_no_flag() {
    let server = Server::new();
    for opcode in (1..16).filter(|o| *o != 3) {
        for packet in [query("gslb.test", SOA), Packet::new()] {
            let bytes = packet.flags(0x07f0).opcode(opcode).bytes();
            let reply = server.send(&bytes, Transport::Udp);
            let [high, low] = (0x8004 | opcode << 11).to_be_bytes();
            assert_eq!(reply, [0x12, 0x34, high, low, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
    }
}

#[test]
fn i_17_only_one_question_has_an_answer() {
    let server = Server::new();
    let twice = www().question(&wire("www.gslb.test"), A, 1);
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut no_body = Packet::new();
        no_body.counts[0] = 65535;
        for packet in [Packet::new(), twice.clone(), no_body] {
            let reply = server.send(&packet.bytes(), transport);
            assert_eq!(reply, [0x12, 0x34, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
        assert_eq!(server.send(&www().bytes(), transport)[3], 0, "the next query is answered");
    }
    assert_eq!(server.ask(&Packet::new().edns(1232)).header(), "rcode=1 0/0/0/1");
}

#[test]
fn i_18_malformed_packets_get_formerr_or_silence() {
    let server = Server::new();
    let header = |counts: [u16; 4]| Packet { counts, ..Packet::new() }.bytes();
    let www_bytes = www().bytes();
    let bare = |bytes: &[u8]| {
        let reply = server.send(bytes, Transport::Udp);
        assert_eq!(reply, [0x12, 0x34, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0], "{bytes:x?}");
    };
    bare(&[&header([1, 0, 0, 0])[..], b"\xc0\x0c\0\x01\0\x01"].concat());
    bare(&[&header([1, 0, 0, 0])[..], &[64], &[b'a'; 64], b"\0\0\x01\0\x01"].concat());
    bare(
        &[&header([1, 0, 0, 0])[..], &[&[63][..], &[b'a'; 63]].concat().repeat(4), b"\0\0\x01\0\x01"]
            .concat(),
    );
    bare(&header([1, 0, 0, 0]));
    for cut in 12..www_bytes.len() {
        bare(&www_bytes[..cut]);
    }
    for cut in 0..12 {
        assert_eq!(
            server.send(&www_bytes[..cut], Transport::Udp),
            NO_REPLY,
            "shorter than a header: silence"
        );
    }
    let echoed = |packet: &Packet| {
        let reply = server.ask(packet);
        assert_eq!(reply.message.metadata.response_code.low(), 1, "{:x?}", packet.bytes());
        assert_eq!(reply.message.queries.len(), 1);
        assert!(reply.message.answers.is_empty() && reply.message.authorities.is_empty());
    };
    echoed(&www().additional(0, b"garbage"));
    echoed(&www().additional(1, b""));
    echoed(&www().additional(1, b"\0\0\x29\x04\xd0\0\0\0\0\xff\xff"));
    echoed(&www().additional(1, b"\0\0\x29\x04\xd0\0\0\0\0\0\x01\0"));
    echoed(&www().additional(1, b"\x01x\0\0\x29\x04\xd0\0\0\0\0\0\0"));
    echoed(&www().additional(1, b"\xc0\xff\0\x01\0\x01\0\0\0\0\0\0"));
    let mut answer_cut = www();
    answer_cut.counts[1] = 1;
    echoed(&answer_cut);
}

#[test]
fn i_18_whole_records_in_other_sections_are_ignored() {
    let server = Server::new();
    let mut packet = www();
    packet.counts = [1, 1, 1, 1];
    packet.body.extend_from_slice(&b"\0\0\x01\0\x01\0\0\0\0\0\x04\xc0\0\x02\x01".repeat(3));
    assert_eq!(server.ask(&packet).header(), "aa rcode=0 1/1/0/0");
    assert_eq!(server.ask(&packet.edns(1232)).header(), "aa rcode=0 1/1/0/1");
}

#[test]
fn t_02_replies_are_never_replied_to() {
    let server = Server::new();
    for opcode in 0..16 {
        assert_eq!(server.send(&www().flags(0x8000).opcode(opcode).bytes(), Transport::Udp), NO_REPLY);
    }
    let counts = server.shared.dns.read();
    assert_eq!((counts.dropped, counts.udp_requests), (16, 16));
}

#[test]
fn i_19_class_ch_tells_only_what_is_configured() {
    let ask = |server: &Server, name: &str| server.ask(&Packet::new().question(&wire(name), TXT, 3));
    let shy = Server::new();
    let open = Setup { version: Some("gslb 1"), identity: Some("fra-1"), ..Setup::default() }.build();
    for (name, text) in [
        ("version.bind", "gslb 1"),
        ("VERSION.server", "gslb 1"),
        ("id.server", "fra-1"),
        ("hostname.bind", "fra-1"),
    ] {
        assert_eq!(ask(&shy, name).header(), "rcode=5 1/0/0/0");
        let reply = ask(&open, name);
        assert_eq!(reply.header(), "rcode=0 1/1/0/0");
        let end = [&[0, 3, 0, 0, 0, 0, 0, text.len() as u8 + 1, text.len() as u8], text.as_bytes()].concat();
        assert!(reply.bytes.ends_with(&end), "class CH, TTL 0, one string");
    }
    for (name, qtype, class) in
        [("www.gslb.test", A, 3), ("www.gslb.test", A, 4), ("id.server", A, 3), ("www.gslb.test", A, 254)]
    {
        let reply = open.ask(&Packet::new().question(&wire(name), qtype, class));
        assert_eq!(reply.header(), "rcode=5 1/0/0/0", "{name} class {class}");
    }
}

#[test]
fn i_19_class_any_is_answered_as_class_in() {
    let reply = Server::new().ask(&Packet::new().question(&wire("www.gslb.test"), A, 255));
    assert_eq!(reply.header(), "aa rcode=0 1/1/0/0");
    assert_eq!(reply.bytes[31..37], [0xc0, 12, 0, 1, 0, 1]);
}

#[test]
fn nsid_is_told_to_who_asks_if_configured() {
    let server = Setup { identity: Some("fra-1"), ..Setup::default() }.build();
    let asked = server.ask(&www().edns(1232).option(3, b""));
    assert_eq!(asked.opt()[11..], *b"\0\x03\0\x05fra-1");
    assert_eq!(server.ask(&www().edns(1232)).opt(), PLAIN_OPT);
}

#[test]
fn an_identity_too_long_for_the_reply_is_left_out() {
    let identity = Box::leak("x".repeat(450).into_boxed_str());
    let server = Setup { identity: Some(identity), ..Setup::default() }.build();
    let long = format!("{}.www.gslb.test", "a".repeat(60));
    let reply = server.ask(&query(&long, A).edns(512).option(3, b""));
    assert_eq!(reply.header(), "aa rcode=3 1/0/1/1");
    assert_eq!(reply.opt(), PLAIN_OPT);
    assert_eq!(server.ask(&query(&long, A).edns(1232).option(3, b"")).opt().len(), 11 + 4 + 450);
}

#[test]
fn i_20_any_gets_one_rrset_and_amplifies_little() {
    let server = Server::new();
    for name in ["gslb.test", "www.gslb.test", "v4only.gslb.test", "alias.gslb.test", "x.wild.gslb.test"] {
        let packet = query(name, ANY);
        let reply = server.ask(&packet);
        let types: Vec<_> = reply.message.answers.iter().map(|r| r.record_type()).collect();
        assert!(!types.is_empty() && types.iter().all(|t| *t == types[0]), "{name}: {types:?}");
        assert!(reply.bytes.len() < 3 * packet.bytes().len(), "{name}: {} bytes", reply.bytes.len());
    }
    assert_eq!(
        server.ask(&query("www.gslb.test", ANY)).addresses().len(),
        1,
        "one selected address, not all"
    );
    assert_eq!(server.ask(&query("ent.gslb.test", ANY)).header(), "aa rcode=0 1/0/1/0");
    assert_eq!(server.ask(&query("nope.gslb.test", ANY)).header(), "aa rcode=3 1/0/1/0");
}

#[test]
fn i_21_zones_are_not_handed_out() {
    let server = Server::new();
    for qtype in [AXFR, IXFR] {
        for name in ["gslb.test", "www.gslb.test", "example.org"] {
            assert_eq!(server.ask(&query(name, qtype)).header(), "rcode=4 1/0/0/0");
            assert_eq!(server.ask_tcp(&query(name, qtype)).header(), "rcode=4 1/0/0/0");
        }
    }
}

#[test]
fn i_22_names_outside_the_zones_are_refused() {
    let server = Server::new();
    for (name, qtype) in
        [("www.example.org", A), ("", NS), ("test", SOA), ("xgslb.test", A), ("gslb.test.org", DS)]
    {
        let reply = server.ask(&query(name, qtype).flags(0x0100));
        assert_eq!(reply.header(), "rd rcode=5 1/0/0/0", "{name}");
    }
}

#[test]
fn i_22_of_the_request_flags_only_rd_comes_back() {
    let reply = Server::new().ask(&www().flags(0x07f0));
    assert_eq!(reply.header(), "aa rd rcode=0 1/1/0/0");
}

#[test]
fn i_27_a_client_subnet_comes_back_with_scope_0() {
    let server = Server::new();
    for (family, source, address) in [
        (1, 24, &[198, 51, 100][..]),
        (1, 20, &[198, 51, 0x60]),
        (1, 32, &[198, 51, 100, 7]),
        (2, 56, &[0x20, 1, 0xd, 0xb8, 0, 1, 2]),
        (2, 128, &[0x20; 16]),
        // I-28: no subnet given away.
        (1, 0, &[]),
        (2, 0, &[]),
    ] {
        for packet in [www(), query("nope.gslb.test", A), query("www.gslb.test", AAAA), query("a.test", A)] {
            let reply = server.ask(&packet.edns(1232).ecs(family, source, 0, address));
            let data = [&family.to_be_bytes()[..], &[source, 0], address].concat();
            let length = [0, 4 + address.len() as u8];
            assert_eq!(reply.opt()[11..], [&[0, 8][..], &length, &data].concat());
        }
    }
    assert_eq!(server.shared.dns.read().ecs, 28);
}

#[test]
fn i_27_of_two_client_subnets_the_first_counts() {
    let packet = www().edns(1232).ecs(1, 8, 0, &[10]).ecs(1, 16, 0, &[10, 1]);
    assert_eq!(Server::new().ask(&packet).opt()[11..], [0, 8, 0, 5, 0, 1, 8, 0, 10]);
}

#[test]
fn i_28_a_client_subnet_without_a_family_is_no_error_and_does_not_come_back() {
    let reply = Server::new().ask(&www().edns(1232).ecs(0, 0, 0, &[]));
    assert_eq!((reply.header(), reply.opt().len()), ("aa rcode=0 1/1/0/1".to_owned(), 11));
}

#[test]
fn i_28_a_broken_client_subnet_is_a_format_error_with_opt() {
    let server = Server::new();
    for packet in [
        www().edns(1232).ecs(3, 24, 0, &[1, 2, 3]),
        www().edns(1232).ecs(1, 33, 0, &[1, 2, 3, 4, 5]),
        www().edns(1232).ecs(1, 24, 0, &[1, 2]),
        www().edns(1232).ecs(1, 24, 0, &[1, 2, 3, 4]),
        www().edns(1232).ecs(1, 20, 0, &[1, 2, 0x31]),
        www().edns(1232).ecs(1, 24, 24, &[1, 2, 3]),
        www().edns(1232).ecs(2, 129, 0, &[0; 17]),
        www().edns(1232).option(8, &[0, 1, 24]),
    ] {
        let reply = server.ask(&packet);
        assert_eq!(reply.header(), "rcode=1 1/0/0/1");
        assert_eq!(reply.opt(), PLAIN_OPT);
    }
}

#[test]
fn a_signed_query_gets_badkey_and_no_answer() {
    let server = Server::new();
    let head = [&wire("hmac-sha256")[..], &[0, 0, 0x6b, 0x0d, 0x0c, 0xcc, 1, 0x2c]].concat();
    let rdata = [&head[..], &[0, 32], &[7; 32], &[0x12, 0x34, 0, 0, 0, 0]].concat();
    let tsig = [&b"\x02kk\0\0\xfa\0\xff\0\0\0\0"[..], &[0, rdata.len() as u8], &rdata].concat();
    let reply = server.ask(&www().additional(1, &tsig));
    assert_eq!(reply.header(), "rcode=9 1/0/0/1");
    assert!(reply.bytes.ends_with(&[&head[..], &[0, 0, 0x12, 0x34, 0, 17, 0, 0]].concat()), "BADKEY, no MAC");
    let last = www().additional(1, &tsig).additional(1, b"\0\0\x01\0\x01\0\0\0\0\0\0");
    assert_eq!(server.ask(&last).header(), "rcode=1 1/0/0/0", "a signature comes last");
    assert_eq!(server.shared.dns.notauth.load(Ordering::Relaxed), 1);
}

#[test]
fn a_signature_too_long_to_repeat_is_left_out() {
    let label = [&[63][..], &[b'k'; 63]].concat();
    let long = [&label.repeat(3)[..], &[0]].concat();
    let rdata = [&long[..], &[0; 8], &[0, 0], &[0x12, 0x34, 0, 0, 0, 0]].concat();
    let tsig = [&long[..], b"\0\xfa\0\xff\0\0\0\0", &[0, rdata.len() as u8], &rdata].concat();
    let packet = Packet::new().question(&long, A, 1).additional(1, &tsig);
    let reply = Server::new().ask(&packet);
    assert_eq!((reply.header().as_str(), reply.bytes.len()), ("rcode=9 1/0/0/0", 12 + 193 + 4));
    assert_eq!(Server::new().ask_tcp(&packet).header(), "rcode=9 1/0/0/1");
}

#[test]
fn every_request_and_every_reply_is_counted_once() {
    let server = Server::new();
    server.ask(&www());
    server.ask_tcp(&www().edns(1232).ecs(1, 0, 0, &[]));
    server.ask(&query("nope.gslb.test", A));
    server.ask(&query("example.org", A));
    server.send(&query("gslb.test", SOA).opcode(5).bytes(), Transport::Tls);
    server.send(&Packet::new().bytes(), Transport::Udp);
    server.send(b"", Transport::Udp);
    let c = server.shared.dns.read();
    assert_eq!((c.udp_requests, c.tcp_requests, c.tls_requests), (5, 1, 1));
    assert_eq!((c.noerror, c.nxdomain, c.refused, c.notimp, c.formerr, c.dropped), (2, 1, 1, 1, 1, 1));
    assert_eq!((c.edns, c.ecs), (1, 1));
}
