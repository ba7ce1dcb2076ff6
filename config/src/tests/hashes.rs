//! What must match is the same for the same meaning, however it is written (faults I-50).

use super::{SMALL, and, folder, with};
use std::collections::BTreeSet;

/// The names of the hashes that differ between two texts, and whether the whole does.
fn differing(a: &str, b: &str) -> (Vec<String>, bool) {
    let group = |text: &str| folder(text).load(None).unwrap_or_else(|e| panic!("{e}")).group;
    let (a, b) = (group(a), group(b));
    let names = a.must_match.iter().zip(&b.must_match).filter(|(a, b)| a != b).map(|(a, _)| a.0.clone());
    (names.collect(), a.hash != b.hash)
}

#[track_caller]
fn only(a: &str, b: &str, names: &[&str]) {
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    let differs = !names.is_empty();
    assert_eq!(differing(a, b), (names, differs));
}

#[test]
fn what_is_written_otherwise_but_means_the_same_matches() {
    let defaults = "[group]\nrtt_tolerance = \"5000us\"\n[probe]\ninterval = \"5000ms\"\n[ldns]\nidle_timeout = \"3m\"\n";
    only(SMALL, &and(defaults), &[]);
    only(
        SMALL,
        &with("services = [\"web\"]", "services = [{ weight = 1, service = \"web\" }] # c\nmethod = 'rtt'"),
        &[],
    );
    only(SMALL, &SMALL.replace("www.gslb.test", "WWW.Gslb.Test."), &[]);
    only(SMALL, &with("services = [\"web\"]", "services = [\"web\"]\nlocal_method = \"lrtm\""), &[]);
}

#[test]
fn what_is_a_node_s_own_need_not_match() {
    let own = "[dns]\nlisten = [\"127.0.0.1:5300\"]\n[admin]\nlisten = \"off\"\n[mep]\nlisten = \"127.0.0.1:1\"\nca = \"x\"\n\
               [probe]\nper_second = 7\nsource_v4 = \"192.0.2.1\"\n[ldns]\ncap = 5\n";
    only(SMALL, &and(own), &[]);
    only(SMALL, &with("198.18.1.1:4353", "10.0.0.1:4353"), &[]);
    only(SMALL, &with(":4353\"", ":4353\"\naddresses = [\"198.18.0.0/16\"]"), &[]);
}

#[test]
fn monitors_of_the_own_site_and_of_the_others_are_told_apart() {
    let monitored = |key: &str| {
        with("port = 80", &format!("port = 80\n{key} = [\"m\"]"))
            + "[[monitors]]\nname = \"m\"\nkind = \"tcp\"\n"
    };
    only(&monitored("monitors"), &monitored("remote_monitors"), &["services"]);
}

#[test]
fn each_difference_has_its_name() {
    only(SMALL, &and("[group]\nrtt_tolerance = \"6ms\"\n"), &["rtt_tolerance"]);
    only(SMALL, &and("[[sites]]\nname = \"ams\"\n"), &["sites"]);
    only(
        SMALL,
        &and("[[nodes]]\nname = \"fra/2\"\nmep = \"198.18.1.2:1\"\n").replacen('\n', "node = \"fra/1\"\n", 1),
        &["sites"],
    );
    only(SMALL, &with("name = \"fra\"", "name = \"fra\"\ntrigger_monitor = \"mep_down\""), &["sites"]);
    only(SMALL, &with(":4353\"", ":4353\"\ntransport = \"grpc\""), &["sites"]);
    only(SMALL, &with("port = 80", "port = 81"), &["services"]);
    only(SMALL, &with("port = 80", "port = 80\nenabled = false"), &["services"]);
    only(SMALL, &with("vserver = \"www\"", "vserver = \"www\"\nttl = \"6s\""), &["domains"]);
    only(
        SMALL,
        &with("services = [\"web\"]", "services = [{ service = \"web\", weight = 2 }]"),
        &["vservers"],
    );
    only(
        SMALL,
        &with("services = [\"web\"]", "services = [\"web\"]\nselection_tolerance = \"1ms\""),
        &["vservers"],
    );
    for key in [
        "order_threshold = 2",
        "method = \"least_response_time\"",
        "persistence = \"source_ip\"",
        "failback = \"manual\"",
        "failback_delay = \"1m\"",
        "addresses = 2",
    ] {
        only(SMALL, &with("services = [\"web\"]", &format!("services = [\"web\"]\n{key}")), &["vservers"]);
    }
    only(
        SMALL,
        &with("services = [\"web\"]", "services = [{ service = \"web\", order = 2 }]"),
        &["vservers"],
    );
    only(SMALL, &and("[[monitors]]\nname = \"m\"\nkind = \"tcp\"\n"), &["monitors"]);
    only(SMALL, &and("[mep]\nkeepalive = \"11s\"\n"), &["intervals"]);
    only(SMALL, &and("[ldns]\nmask_v4 = 24\n"), &["ldns"]);
}

#[test]
fn order_counts_where_it_means_something() {
    let other = "[[services]]\nname = \"b\"\nsite = \"fra\"\naddress = \"198.18.1.81\"\nport = 80\n";
    let both = |order: &str| with("services = [\"web\"]", order) + other;
    let first = format!("{other}{}", &SMALL[SMALL.find("[[services]]").unwrap()..]);
    let reordered = SMALL[..SMALL.find("[[services]]").unwrap()].to_owned() + &first;
    only(&(SMALL.to_owned() + other), &reordered, &[]);
    only(&both("services = [\"web\", \"b\"]"), &both("services = [\"b\", \"web\"]"), &["vservers"]);
    let sites = |names: [&str; 2]| and(&names.map(|n| format!("[[sites]]\nname = \"{n}\"\n")).concat());
    only(&sites(["ams", "ber"]), &sites(["ber", "ams"]), &["sites"]);
}

/// The hashes travel between nodes of different versions: these may not change without a new protocol version.
#[test]
fn the_hashes_are_the_same_on_every_version() {
    let group = folder(SMALL).load(None).unwrap().group;
    let shown: Vec<String> =
        group.must_match.iter().map(|(name, hash)| format!("{name} {hash:016x}")).collect();
    let distinct: BTreeSet<u64> = group.must_match.iter().map(|(_, hash)| *hash).collect();
    assert_eq!(distinct.len(), group.must_match.len());
    assert_eq!(
        shown,
        [
            "rtt_tolerance c43328e6eab0d8ab",
            "sites cb434b123a307be6",
            "services 92dc5e5d49d7f2e7",
            "monitors 451ea2c41f2706b5",
            "vservers 900672b2392e6bd3",
            "domains f4cf4cc2a1e31a56",
            "intervals 109dff61f21f07a9",
            "ldns 215285b61d8572ca",
        ]
    );
    assert_eq!(format!("{:016x}", group.hash), "1d3cb7a38e886ea7");
}
