//! Zone data: what is read, what is refused, and that whatever is read can be decoded by others.

use super::{Folder, SMALL, folder};
use crate::{Zone, ZoneRecord};
use hickory_proto::rr::{Record, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinEncodable, BinEncoder};

const APEX: &str = "@ SOA ns.example.org. h.example.org. 1 2 3 4 5\n@ NS ns.example.org.\n";

/// The setting of the small configuration that holds its zone's records.
fn inline() -> &'static str {
    let (start, end) = (SMALL.find("records = '''").unwrap(), SMALL.find("'''\n\n").unwrap() + 4);
    &SMALL[start..end]
}

/// A configuration whose zone `gslb.test` is in a file, with apex and these lines, which begin at line 3.
pub(super) fn zone_file(lines: &str) -> Folder {
    folder(&SMALL.replace(inline(), "file = \"z/gslb\"\n")).with("z/gslb", format!("{APEX}{lines}"))
}

fn load(lines: &str) -> Zone {
    zone_file(lines).load(None).unwrap_or_else(|e| panic!("{e}")).zones.remove(0)
}

/// The records beside SOA and NS of the apex, as hickory-proto prints what it decodes of them.
fn shown(lines: &str) -> Vec<String> {
    let more = |r: &&ZoneRecord| !(r.owner.num_labels() == 2 && matches!(r.rtype, 2 | 6));
    load(lines).records.iter().filter(more).map(|r| decoded(r).to_string()).collect()
}

/// The record through the eyes of hickory-proto.
pub(super) fn decoded(r: &ZoneRecord) -> Record {
    let mut wire = Vec::new();
    let mut encoder = BinEncoder::new(&mut wire);
    r.owner.emit(&mut encoder).unwrap();
    let length = u16::try_from(r.rdata.len()).unwrap();
    wire.extend([r.rtype.to_be_bytes(), 1u16.to_be_bytes()].concat());
    wire.extend(r.ttl.to_be_bytes());
    wire.extend(length.to_be_bytes());
    wire.extend(&r.rdata);
    Record::from_bytes(&wire).unwrap_or_else(|e| panic!("{r:?}: {e}"))
}

#[track_caller]
pub(super) fn refused(lines: &str, expected: &[&str]) {
    let prefixed: Vec<String> = zone_file(lines).errors();
    let errors: Vec<&str> = prefixed.iter().map(|e| e.strip_prefix("z/gslb:").unwrap_or(e)).collect();
    let errors: Vec<String> = errors.iter().map(|e| e.replacen("zones[0].file: ", "", 1)).collect();
    assert_eq!(errors, expected, "{lines}");
}

#[test]
fn the_types_of_everyday_are_read() {
    let lines = r#"
a       A       192.0.2.1
a       AAAA    2001:db8::1
c       CNAME   a
m       MX      10 mail.example.org.
t       TXT     "v=spf1 -all" plain "semi;colon" "q\"uote" "\195\132"
s       SRV     1 2 443 a
p       PTR     a.example.org.
@       CAA     0 issue "letsencrypt.org"
d       DNAME   example.org.
_443._tcp.a TLSA 3 1 1 ( 0123456789abcdef0123456789abcdef
                         0123456789abcdef0123456789abcdef )
f       SSHFP   4 2 123456789abcdef67890123456789abcdef67890123456789abcdef123456789
n       NAPTR   100 50 "s" "SIP+D2U" "" _sip._udp.example.org.
h       HTTPS   1 . alpn="h2,h3" ipv4hint=192.0.2.1 port=8443
v       SVCB    0 svc.example.org.
del     NS      ns.del
ns.del  A       192.0.2.53
del     DS      60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118
u       TYPE65226 \# 3 414243
u       TYPE65227 \# 0
"#;
    assert_eq!(
        shown(lines),
        [
            "gslb.test. 3600 IN CAA 0 issue \"letsencrypt.org\"",
            "a.gslb.test. 3600 IN A 192.0.2.1",
            "a.gslb.test. 3600 IN AAAA 2001:db8::1",
            "_443._tcp.a.gslb.test. 3600 IN TLSA 3 1 1 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "c.gslb.test. 3600 IN CNAME a.gslb.test.",
            "d.gslb.test. 3600 IN DNAME B2V4YW1wbGUDb3JnAA==",
            "del.gslb.test. 3600 IN NS ns.del.gslb.test.",
            "del.gslb.test. 3600 IN DS 7EUFASuxg69fIliBeaU7CphjH60aKSEY",
            "ns.del.gslb.test. 3600 IN A 192.0.2.53",
            "f.gslb.test. 3600 IN SSHFP 4 2 123456789abcdef67890123456789abcdef67890123456789abcdef123456789",
            "h.gslb.test. 3600 IN HTTPS 1 . alpn=h2,h3, port=8443 ipv4hint=192.0.2.1,",
            "m.gslb.test. 3600 IN MX 10 mail.example.org.",
            "n.gslb.test. 3600 IN NAPTR 100 50 \"s\" \"SIP+D2U\" \"\" _sip._udp.example.org.",
            "p.gslb.test. 3600 IN PTR a.example.org.",
            "s.gslb.test. 3600 IN SRV 1 2 443 a.gslb.test.",
            "t.gslb.test. 3600 IN TXT v=spf1 -allplainsemi;colonq\"uoteÄ",
            "u.gslb.test. 3600 IN Unknown QUJD",
            "u.gslb.test. 3600 IN Unknown UPDATE",
            "v.gslb.test. 3600 IN SVCB 0 svc.example.org.",
        ]
    );
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Type and data of the record of a line at "x".
fn wire(line: &str) -> (u16, String) {
    let zone = load(&format!("x {line}\n"));
    let record = zone.records.iter().find(|r| r.owner.num_labels() == 3).unwrap();
    let seen = decoded(record);
    assert_eq!((seen.record_type(), seen.ttl), (RecordType::from(record.rtype), record.ttl));
    (record.rtype, hex(&record.rdata))
}

#[test]
fn the_rarer_types_are_read() {
    assert_eq!(
        wire("LOC 42 21 54 N 71 06 18 W -24m 30m").1,
        "0033161389 172dd0 70be15f0 00988d20".replace(' ', "")
    );
    assert_eq!(wire("LOC 0 N 0 E 0 1m 10000m 10m").1, "00121613800000008000000000989680");
    assert_eq!(
        wire("LOC 52 22 23.000 N 4 53 32 E -2.00m 0.00m 10000 10m").1,
        "000016138b3cf018 810cbce0 009895b8".replace(' ', "")
    );
    assert_eq!(wire("URI 10 1 \"ftp://a/\""), (256, "000a00016674703a2f2f612f".to_owned()));
    assert_eq!(wire("EUI48 00-00-5e-00-53-2a"), (108, "00005e00532a".to_owned()));
    assert_eq!(wire("EUI64 00-00-5e-ef-10-00-00-2a"), (109, "00005eef1000002a".to_owned()));
    assert_eq!(wire("SPF \"a\""), (99, "0161".to_owned()));
    assert_eq!(wire("AFSDB 1 @"), (18, "000104 67736c62 04 74657374 00".replace(' ', "")));
    assert_eq!(wire("RP . ."), (17, "0000".to_owned()));
    assert_eq!(wire("HINFO \"a\" b"), (13, "01610162".to_owned()));
    assert_eq!(wire("SMIMEA 3 1 1 00ff"), (53, "03010100ff".to_owned()));
    for line in [
        "NSEC b A MX RRSIG NSEC TYPE1234",
        "DNSKEY 256 3 8 AwEAAaetidLzsKWUt4swWR8yu0wPHPiUi8LU",
        "RRSIG A 5 3 86400 20300322173103 20300220173103 2642 example.com. oJB1W6WNGv+ldvQ3WDG0MQkg5IEhjRip8WTr",
        "NSEC3PARAM 1 0 12 aabbccdd",
        "CDS 0 0 0 00",
        "OPENPGPKEY AwEAAaetidLzsKWUt4swWR8yu0wPHPiUi8LU",
        "KEY 256 3 8 AwEAAaetidLzsKWUt4swWR8yu0wPHPiUi8LU",
    ] {
        wire(line);
    }
}

#[test]
fn the_notation_of_unknown_types_stands_for_known_ones_as_well() {
    assert_eq!(wire(r"TYPE1 \# 4 C0000201"), (1, "c0000201".to_owned()));
    assert_eq!(wire(r"MX \# 5 000A 016100"), (15, "000a016100".to_owned()));
    refused(
        "a A \\# 3 C00002\nb MX \\# 4 000A C002\nc CERT 1 2 3 AA==\n",
        &[
            "3:5: no data of A: unexpected end of input",
            "4:6: no data of MX: too many compression pointers",
            "5:8: CERT is read only in the notation for unknown types, \\# LENGTH HEX (RFC 3597)",
        ],
    );
}

#[test]
fn an_at_sign_is_the_origin_where_a_name_stands() {
    let origin = hex(b"\x04gslb\x04test\x00");
    assert_eq!(wire("CNAME @").1, origin);
    assert_eq!(wire("MX 10 @").1, format!("000a{origin}"));
    assert_eq!(wire("SRV 0 0 0 @").1, format!("000000000000{origin}"));
    assert_eq!(wire("RP @ @").1, format!("{origin}{origin}"));
    assert_eq!(wire("NAPTR 1 2 \"\" \"\" \"@\" @").1, format!("0001000200000140{origin}"));
    assert_eq!(wire("TXT @").1, "0140");
    assert_eq!(wire("HINFO @ @").1, "01400140");
    assert_eq!(wire("CNAME \\@").1, format!("0140{origin}"));
}

/// As NSD, Knot, PowerDNS and gdnsd do: what flags mean is between the zone and those who use it.
#[test]
fn the_flags_of_naptr_may_be_any_text() {
    let zone = load("a NAPTR 1 2 \"***\" \"s\" \"r\" .\n");
    let record = zone.records.iter().find(|r| r.rtype == 35).unwrap();
    assert_eq!(record.rdata, b"\0\x01\0\x02\x03***\x01s\x01r\0");
    refused("a NAPTR \\# 6 000100020331\n", &["3:9: no data of NAPTR: unexpected end of input"]);
}

#[test]
fn a_name_keeps_the_case_it_was_written_in() {
    let zone = load("wWx CNAME FoO\n");
    let record = zone.records.iter().find(|r| r.rtype == 5).unwrap();
    assert_eq!(record.owner.to_string(), "wWx.gslb.test.");
    assert_eq!(record.rdata, b"\x03FoO\x04gslb\x04test\x00");
}

#[test]
fn bytes_beyond_ascii_are_fine_in_comments_and_quotes() {
    let text = [b"a TXT \"\xc3\x84\" ; \xff\n".as_slice(), APEX.as_bytes()].concat();
    let zone = zone_file("").with("z/gslb", text).load(None).unwrap().zones.remove(0);
    let record = zone.records.iter().find(|r| r.rtype == 16).unwrap();
    assert_eq!(record.rdata, b"\x02\xc3\x84");
    refused("ä A 192.0.2.1\n", &["3:1: 'ä' holds 'ä', write it in its xn-- form"]);
}

fn ttls(lines: &str) -> Vec<(String, u32)> {
    let zone = load(lines);
    let a = zone.records.iter().filter(|r| r.rtype == 1);
    a.map(|r| (r.owner.to_string().replace(".gslb.test.", ""), r.ttl)).collect()
}

#[test]
fn a_ttl_is_stated_or_taken_over() {
    let named = |all: &[(&str, u32)]| all.iter().map(|(n, t)| ((*n).to_owned(), *t)).collect::<Vec<_>>();
    // The zone's default, then the last stated one (RFC 1035 section 5.1), then $TTL (RFC 2308 section 4).
    let lines = "a A 192.0.2.1\nb 1h30m IN A 192.0.2.1\nc A 192.0.2.1\n$TTL 1d\nd A 192.0.2.1\ne IN 7 A 192.0.2.1\nf A 192.0.2.1\n";
    assert_eq!(
        ttls(lines),
        named(&[("a", 3600), ("b", 5400), ("c", 5400), ("d", 86400), ("e", 7), ("f", 86400)])
    );
    // One TTL in an RRset, the lowest (RFC 2181 section 5.2), and each record once (section 5).
    let lines = "a 300 A 192.0.2.1\na 30 A 192.0.2.2\nA 20 A 192.0.2.1\n";
    assert_eq!(ttls(lines), named(&[("a", 20), ("a", 20)]));
    refused(
        "a 2147483648 A 192.0.2.1\n$TTL 99999999999999\nb 5x A 192.0.2.1\n",
        &[
            "3:3: TTL 2147483648 is more than 2147483647 (RFC 2181 section 8)",
            "4:6: TTL 99999999999999 is more than 2147483647 (RFC 2181 section 8)",
            "5:3: '5x' is no TTL, as in '300' or '1h30m'",
        ],
    );
}

#[test]
fn records_that_differ_in_case_only_are_one() {
    let zone = load("a CNAME b\nA CNAME B\n");
    assert_eq!(zone.records.iter().filter(|r| r.rtype == 5).count(), 1);
}

#[test]
fn origins_change_and_files_are_included() {
    let files =
        zone_file("$ORIGIN sub\na A 192.0.2.1\n$INCLUDE more/x y.gslb.test.\n  A 192.0.2.2\nb A 192.0.2.4\n")
            .with("z/more/x", "@ A 192.0.2.3\n$ORIGIN z\nc A 192.0.2.5\n$TTL 1\n");
    let zone = files.load(None).unwrap_or_else(|e| panic!("{e}")).zones.remove(0);
    let a = zone.records.iter().filter(|r| r.rtype == 1);
    let owners: Vec<String> = a.map(|r| format!("{} {} {}", r.owner, r.rdata[3], r.ttl)).collect();
    assert_eq!(
        owners,
        [
            "a.sub.gslb.test. 1 3600",
            "a.sub.gslb.test. 2 3600",
            "b.sub.gslb.test. 4 3600",
            "y.gslb.test. 3 3600",
            "c.z.y.gslb.test. 5 3600"
        ]
    );
}

#[test]
fn includes_end_somewhere_and_stay_below_the_folder() {
    refused("$INCLUDE ../gslb.toml\n", &["3:10: '../gslb.toml' does not lie below the folder of this file"]);
    refused("$INCLUDE x\n", &["3:10: z/x cannot be read: entity not found"]);
    let looping = zone_file("$INCLUDE loop\n").with("z/loop", "$INCLUDE loop\n$INCLUDE loop\n");
    let errors = looping.load(None).unwrap_err();
    assert!(
        errors.to_string().contains("files include each other 8 deep and 256 in all at most"),
        "{errors}"
    );
    assert!(errors.len() < 300, "{}", errors.len());
}

#[test]
fn every_entry_that_can_not_be_read_is_named() {
    refused(
        "a A 192.0.2\nb AA 192.0.2.1\nc MX ten mail\nd CH A 192.0.2.1\ne A 192.0.2.1 192.0.2.2\nf\ng IN\nh MX 10\n\
         i TXT \"open\nj SRV 1 2 3 a..b\n$TTTL 5\n$GENERATE 1-2 a A 1\n$TTL\nk AXFR x\nl SOA a b 1 1x 2 3 4\nm AAAA ::g\n\
         n A ( 192.0.2.1\n",
        &[
            "3:5: '192.0.2' is no IPv4 address",
            "4:3: 'AA' is no record type, did you mean 'A'?",
            "5:6: 'ten' does not fit MX: expected decimal number",
            "6:3: class CH is not served, only IN is",
            "7:15: '192.0.2.2' is too much here",
            "8:1: the type is missing",
            "9:3: the type is missing",
            "10:6: MX needs more data than this",
            "11:7: the closing quote is missing",
            "12:13: 'a..b' has an empty label",
            "13:1: unknown directive '$TTTL', did you mean '$TTL'?",
            "14:1: $GENERATE is not read here, write its records out",
            "15:1: $TTL needs a value",
            "16:3: AXFR is no type that a zone can hold",
            "17:13: '1x' is no time, as in '300' or '1h30m'",
            "18:8: '::g' is no IPv6 address",
            "19:5: the parenthesis is never closed",
        ],
    );
    let first = zone_file("").with("z/gslb", format!("  A 192.0.2.1\n{APEX}"));
    assert_eq!(
        first.errors(),
        [
            "z/gslb:1:3: zones[0].file: begins with white space, so it has the owner of the record before, but there is none"
        ]
    );
}

#[test]
fn an_error_in_inline_records_stands_at_its_line_of_the_toml_file() {
    let last = "ns1 A   198.18.1.1\n";
    let errors = |quotes: &str, line: &str| {
        folder(&SMALL.replace("'''", quotes).replace(last, &format!("{last}{line}\n"))).errors()
    };
    let expected = ["17:3: zones[0].records: 'AA' is no record type, did you mean 'A'?"];
    assert_eq!(errors("'''", "b AA 192.0.2.1"), expected);
    assert_eq!(errors("\"\"\"", "b AA 192.0.2.1"), expected);
    // An escape: lines still agree.
    assert_eq!(errors("\"\"\"", "b AA 192.0.2.1 ; \\t"), expected);
    // A line end that is an escape: the place is that of the whole.
    assert_eq!(
        errors("\"\"\"", "b AA 192.0.2.1\\n"),
        ["13:11: zones[0].records: 'AA' is no record type, did you mean 'A'?"]
    );
}

#[test]
fn a_zone_has_a_file_or_records() {
    let both = SMALL.replace("records = ", "file = \"x\"\nrecords = ");
    assert_eq!(folder(&both).errors()[0], "14:11: zones[0].records: a zone has a file or records, not both");
    let neither = SMALL.replace(inline(), "");
    assert_eq!(
        folder(&neither).errors()[0],
        "11:1: zones[0].file: missing, name the file of the zone's records, or write them as 'records'"
    );
}
