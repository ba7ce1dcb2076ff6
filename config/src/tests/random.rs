//! Nothing that stands in a file makes `load` panic, and a file is taken whole or not at all (threat T10).

use super::{SMALL, folder};
use crate::Config;
use proptest::prelude::*;

const EXAMPLE: &str = include_str!("../../../gslb.example.toml");

/// A file with all there is to break.
fn rich() -> String {
    let records = "d DNAME x\nt TXT \"a;b\" c\n$TTL 1h\ns SRV 1 2 3 @\nl LOC 1 2 3.4 N 5 E 1m ( 2m )\nh HTTPS 1 . alpn=\"h2\"\n\
                   u TYPE65280 \\# 2 ( 00\n 11 )\ni URI 1 2 \"x\"\ne EUI48 00-00-5e-00-53-2a\n";
    EXAMPLE.replace("ns2   A     198.18.2.1\n", &format!("ns2   A     198.18.2.1\n{records}"))
}

/// What holds for every configuration that is given out: its indices lead somewhere, its ranges are kept.
fn assert_whole(c: &Config) {
    assert!(c.me < c.nodes.len() && c.nodes.iter().all(|n| n.site.get() < c.sites.len()));
    assert!(!c.sites.is_empty() && c.sites.len() <= 32);
    assert!(c.services.iter().all(|s| s.site.get() < c.sites.len()));
    let watching = |s: &crate::Service| [s.monitors.clone(), s.remote_monitors.clone()].concat();
    assert!(c.services.iter().flat_map(watching).all(|w| w.monitor < c.monitors.len()));
    for lb in &c.lb_vservers {
        assert!(!lb.listen.is_empty() && !lb.members.is_empty());
        assert!(lb.members.iter().all(|m| c.services[m.service].site == lb.site));
        assert!(lb.members.iter().all(|m| c.services[m.service].lb_vserver.is_none()));
    }
    let standing = |s: &crate::Service| {
        s.lb_vserver.is_none_or(|at| c.lb_vservers[at].site == s.site && s.monitors.is_empty())
    };
    assert!(c.services.iter().all(standing));
    assert!(c.vservers.iter().all(|v| !v.bindings.is_empty()));
    assert!(c.vservers.iter().flat_map(|v| &v.bindings).all(|b| b.service < c.services.len()));
    assert!(c.domains.iter().all(|d| d.vserver < c.vservers.len() && d.zone < c.zones.len()));
    assert!(c.domains.iter().all(|d| c.zones[d.zone].origin.zone_of(&d.name)));
    assert!(c.probe.timeout < c.probe.interval && !c.probe.order.is_empty());
    assert!(c.admin.listen.is_none_or(|a| a.ip().to_canonical().is_loopback()));
    for zone in &c.zones {
        assert_eq!(zone.records.iter().filter(|r| r.rtype == 6).count(), 1);
        assert!(zone.records.iter().all(|r| zone.origin.zone_of(&r.owner) && r.ttl < 1 << 31));
        // hickory-proto is stricter about NAPTR than those who serve it: see `the_flags_of_naptr_may_be_any_text`.
        zone.records.iter().filter(|r| r.rtype != 35).for_each(|r| drop(super::zones::decoded(r)));
    }
    assert!(!c.group.must_match.is_empty() && c.group.hash != 0);
}

/// Loads bytes as a main file; says whether they were taken.
fn taken(bytes: &[u8]) -> bool {
    match super::Folder::default().with("gslb.toml", bytes).load(None) {
        Ok(config) => {
            assert_whole(&config);
            true
        }
        Err(errors) => {
            assert!(errors.len() > 0);
            assert!(!errors.to_string().is_empty());
            false
        }
    }
}

/// One change to a text at a random place.
#[derive(Clone, Debug)]
enum Change {
    Cut,
    Put(u8),
    Drop(usize),
    Copy(usize),
    SwapLines(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        1 => Just(Change::Cut),
        6 => prop_oneof![any::<u8>(), prop::sample::select(b"\"'[]{}()=.,;#\\\n@-0 9a$".to_vec())].prop_map(Change::Put),
        3 => (1usize..40).prop_map(Change::Drop),
        3 => (1usize..40).prop_map(Change::Copy),
        2 => any::<usize>().prop_map(Change::SwapLines),
    ]
}

fn apply(text: &mut Vec<u8>, at: usize, change: &Change) {
    let at = at % (text.len() + 1);
    match change {
        Change::Cut => text.truncate(at),
        Change::Put(byte) => text.insert(at, *byte),
        Change::Drop(n) => drop(text.drain(at..(at + n).min(text.len()))),
        Change::Copy(n) => {
            let piece = text[at..(at + n).min(text.len())].to_vec();
            text.splice(at..at, piece);
        }
        Change::SwapLines(other) => {
            let mut lines: Vec<&[u8]> = text.split(|b| *b == b'\n').collect();
            let count = lines.len();
            lines.swap(at % count, other % count);
            *text = lines.join(&b'\n');
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_no_configuration(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(!taken(&bytes));
    }

    #[test]
    fn a_changed_configuration_is_taken_whole_or_refused(
        changes in prop::collection::vec((any::<usize>(), change()), 1..5),
    ) {
        let mut text = rich().into_bytes();
        changes.iter().for_each(|(at, change)| apply(&mut text, *at, change));
        taken(&text);
    }

    #[test]
    fn zone_data_of_any_shape_is_read_or_refused(
        lines in prop::collection::vec(line(), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut text = lines.join("\n");
        if let Some((at, _)) = text.char_indices().nth(cut.index(text.chars().count() * 2 + 1)) {
            text.truncate(at);
        }
        let _ = super::zones::zone_file(&format!("{text}\n")).load(None).map(|c| assert_whole(&c));
    }
}

/// Something like a line of a master file.
fn line() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        8 => prop::sample::select(vec![
            "@", "a", "A", "AAAA", "MX", "TXT", "SOA", "SVCB", "HTTPS", "NAPTR", "LOC", "NSEC", "NSEC3", "RRSIG", "DNSKEY",
            "CAA", "TLSA", "DS", "IPSECKEY", "URI", "EUI64", "RP", "ZONEMD", "CDS", "TYPE1", "TYPE64", "\\#", "IN", "1h", "0",
            "1", "65536", "4294967296", "192.0.2.1", "::1", "a.b.", "..", ".", "\\", "\\255", "\\256", "(", ")", "\"x y\"",
            "alpn=", "alpn=h2", "key65535=", "mandatory=alpn", "ipv4hint=1.2.3.4,", "port=x", "ech=AA==", "N", "S", "E", "00",
            "0G", "AA==", "A===", "$TTL", "$ORIGIN", "$INCLUDE", "z/gslb", ";", "20200101000000", "-", "\u{e4}",
        ]).prop_map(str::to_owned),
        1 => "[ -~]{0,12}",
        1 => "[a-z.\\\\\"0-9]{0,80}",
    ];
    prop::collection::vec((word, prop::sample::select(vec![" ", "", "\t", "\r"])), 0..9)
        .prop_map(|words| words.into_iter().map(|(word, space)| word + space).collect())
}

#[test]
fn a_file_cut_anywhere_is_taken_whole_or_refused() {
    let text = rich();
    folder(&text).load(None).unwrap_or_else(|e| panic!("{e}"));
    for at in (0..text.len()).step_by(97) {
        taken(&text.as_bytes()[..at]);
    }
}

/// The two hundred of threat T10: every line of the small configuration broken in many ways.
#[test]
fn two_hundred_broken_configurations_are_refused_with_a_place() {
    let lines: Vec<&str> = SMALL.lines().collect();
    let breaks: [fn(&str) -> String; 15] = [
        |l| l.replace('=', ""),
        |l| format!("x{l}"),
        |l| format!("{l} {l}"),
        |l| l.replace('"', ""),
        |l| l.replacen('[', "", 1),
        |l| l.replace("fra", "FRA").replace("web", "w b"),
        |l| l.replace('1', "-1").replace("80", "99999999999"),
        |l| l.replace("198.", "999.").replace("ns1", "ns1..x"),
        |l| l.replace("gslb", "\u{7}"),
        |l| format!("{l}]"),
        |l| l.split_at(l.len() / 2).0.to_owned(),
        |l| format!("{l} = {l}"),
        |l| l.replace("www", "w.w"),
        |l| format!("{l}\n{l}"),
        |l| l.replace("name", "nmae").replace("port", "prot"),
    ];
    let mut broken = 0;
    for (i, line) in lines.iter().enumerate() {
        for change in breaks.iter().map(|b| b(line)).filter(|changed| changed != line && !line.is_empty()) {
            let mut text = lines.clone();
            text[i] = &change;
            if let Err(errors) = folder(&text.join("\n")).load(None) {
                broken += 1;
                assert!(errors.iter().all(|e| e.line().is_some() && e.column().is_some()), "{errors}");
            }
        }
    }
    // Some changes mean nothing: a name given otherwise throughout, a number that may be anything.
    assert!(broken >= 200, "{broken}");
}
