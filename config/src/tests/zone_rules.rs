//! What the records of a zone must be to each other (faults I-14, I-30).

use super::zones::{refused, zone_file};
use super::{SMALL, folder};

#[test]
fn the_mailbox_of_a_zone_is_no_mail_address() {
    let soa = |mailbox: &str| super::with("SOA ns1 hostmaster", &format!("SOA ns1 {mailbox}"));
    let at = |mailbox| folder(&soa(mailbox)).errors();
    let first = "14:13: zones[0].records: ";
    assert_eq!(
        at("john.doe@gslb.test"),
        [format!("{first}'john.doe@gslb.test' is a mail address, write 'john\\.doe.gslb.test.'")]
    );
    for right in ["@", "john\\.doe.gslb.test.", "a\\@b", "\"a@b\""] {
        assert_eq!(at(right), [] as [String; 0], "{right}");
    }
}

#[test]
fn a_zone_begins_with_one_soa_and_has_name_servers() {
    assert_eq!(
        zone_file("").with("z/gslb", "a A 192.0.2.1\n").errors(),
        [
            "z/gslb:1:1: zones[0].file: the zone 'gslb.test.' has no SOA record",
            "z/gslb:1:1: zones[0].file: the zone 'gslb.test.' has no NS record at its apex",
        ]
    );
    refused(
        "@ SOA ns.example.org. h.example.org. 2 2 3 4 5\na SOA ns.example.org. h.example.org. 2 2 3 4 5\n",
        &[
            "3:1: 'gslb.test.' has one SOA already, at z/gslb:1",
            "4:1: SOA at 'a.gslb.test.': it belongs at the apex, 'gslb.test.'",
        ],
    );
}

#[test]
fn name_servers_in_the_zone_have_addresses() {
    refused("@ NS ns1\n", &["3:1: name server 'ns1.gslb.test.' has no A or AAAA record in this zone"]);
    refused("@ NS ns1\nns1 CNAME a\n", &["3:1: name server 'ns1.gslb.test.' is an alias, at z/gslb:4"]);
    refused("@ NS ns1\nns1 AAAA ::1\n", &[]);
    refused("@ NS ns1\n* A 192.0.2.1\n", &[]);
    refused("@ NS ns1.sub\nsub NS ns.example.org.\n", &[]);
}

#[test]
fn a_cname_stands_alone_and_never_at_the_apex() {
    refused("@ CNAME a\n", &["3:1: CNAME at the apex 'gslb.test.', beside its SOA and NS"]);
    refused(
        "c CNAME a\nC A 192.0.2.1\nc TXT x\nd CNAME a\nd CNAME b\n",
        &[
            "3:1: CNAME at 'c.gslb.test.' beside A, at z/gslb:4: a CNAME stands alone",
            "3:1: CNAME at 'c.gslb.test.' beside TXT, at z/gslb:5: a CNAME stands alone",
            "7:1: 'd.gslb.test.' has one CNAME already, at z/gslb:6",
        ],
    );
    refused("c CNAME a\nc NSEC d CNAME NSEC\n", &[]);
}

#[test]
fn nothing_lies_below_a_dname() {
    refused(
        "d DNAME a\nx.d A 192.0.2.1\ny.x.D TXT y\nda A 192.0.2.1\ne DNAME a\ne DNAME b\nf DNAME a\nf NS ns.example.org.\n",
        &[
            "4:1: 'x.d.gslb.test.' lies below the DNAME of 'd.gslb.test.', at z/gslb:3",
            "5:1: 'y.x.d.gslb.test.' lies below the DNAME of 'd.gslb.test.', at z/gslb:3",
            "8:1: 'e.gslb.test.' has one DNAME already, at z/gslb:7",
            "9:1: DNAME at 'f.gslb.test.' beside NS, at z/gslb:10",
        ],
    );
    refused("d DNAME a\nd A 192.0.2.1\nd TXT x\n", &[]);
}

#[test]
fn owners_lie_in_the_zone() {
    refused(
        "www.example.org. A 192.0.2.1\nxgslb.test. A 192.0.2.1\n",
        &[
            "3:1: 'www.example.org.' lies outside the zone 'gslb.test.'",
            "4:1: 'xgslb.test.' lies outside the zone 'gslb.test.'",
        ],
    );
}

#[test]
fn the_root_is_a_zone_like_any_other() {
    let main = SMALL.replace("name = \"gslb.test\"", "name = \".\"").replace("ns1 hostmaster", "ns1 .");
    let config = folder(&main).load(None).unwrap_or_else(|e| panic!("{e}"));
    assert!(config.zones[0].origin.is_root());
    let owners: Vec<String> = config.zones[0].records.iter().map(|r| r.owner.to_string()).collect();
    assert_eq!((owners.join(" "), config.domains[0].zone), (". . ns1.".to_owned(), 0));
}

/// An RRset is answered whole: one that no message holds could never be.
#[test]
fn a_set_that_no_message_can_hold_is_refused() {
    let addresses = |count: u32| -> String {
        (0..count).map(|n| format!("big A {}\n", std::net::Ipv4Addr::from_bits(0x0a00_0000 + n))).collect()
    };
    // 65,535 bytes: 12 of header, 19 of question, 16 for each record.
    assert_eq!(zone_file("").with("z/gslb", apex() + &addresses(4094)).errors(), [] as [String; 0]);
    assert_eq!(
        zone_file("").with("z/gslb", apex() + &addresses(4095)).errors(),
        [
            "z/gslb:3:1: zones[0].file: 'big.gslb.test.' has 4095 A records: an answer of 65551 bytes, and a DNS message holds 65535"
        ]
    );
    // Names are compressed, so more of them fit than their bytes say.
    let pointers = |count: u32| -> String {
        (0..count).map(|n| format!("p PTR h{n}.a.long.name.example.org.\n")).collect()
    };
    assert_eq!(zone_file("").with("z/gslb", apex() + &pointers(3300)).errors(), [] as [String; 0]);
    assert_eq!(zone_file("").with("z/gslb", apex() + &pointers(3400)).errors().len(), 1);
}

/// Each record is looked up among those of its set, not compared with all of them.
#[test]
fn zones_of_tens_of_thousands_of_records_are_read() {
    let many: String = (0..20_000).map(|n| format!("n{n} A 192.0.2.1\nbig TXT \"{n}\"\n")).collect();
    let errors = zone_file("").with("z/gslb", apex() + &many).errors();
    assert!(
        matches!(errors.as_slice(), [one] if one.contains("'big.gslb.test.' has 20000 TXT records")),
        "{errors:?}"
    );
}

#[test]
fn a_repeated_record_counts_once_with_the_lowest_ttl() {
    let config =
        zone_file("a 60 NS ns.example.org.\na 9 NS NS.example.org.\na 30 NS ns2.example.org.\n").load(None);
    let zone = config.unwrap_or_else(|e| panic!("{e}")).zones.remove(0);
    let shown: Vec<(u32, usize)> =
        zone.records.iter().filter(|r| r.owner.num_labels() == 3).map(|r| (r.ttl, r.rdata.len())).collect();
    assert_eq!(shown, [(9, 16), (9, 17)]);
}

fn apex() -> String {
    "@ SOA ns.example.org. h.example.org. 1 2 3 4 5\n@ NS ns.example.org.\n".to_owned()
}
