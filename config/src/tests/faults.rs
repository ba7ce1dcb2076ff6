//! Each fault a configuration can have, with the exact words it is refused with (faults I-61,
//! I-62, threat T10): its form, and each setting by itself.

use super::{Folder, SMALL, and, folder, with};

#[track_caller]
pub(super) fn refused(text: &str, expected: &[&str]) {
    assert_eq!(folder(text).errors(), expected, "{text}");
}

#[test]
fn the_small_configuration_is_right() {
    refused(SMALL, &[]);
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_known_one() {
    refused(
        &and(
            "[group]\nrtt_tolerence = \"5ms\"\n[dns]\nlistn = []\n[dns.tls]\ncert = 1\ncertificate = \"c\"\nkey = \"k\"\n",
        ),
        &[
            "33:1: group.rtt_tolerence: unknown key, did you mean 'rtt_tolerance'?",
            "35:1: dns.listn: unknown key, did you mean 'listen'?",
            "37:1: dns.tls.cert: unknown key, there are 'listen', 'certificate' and 'key'",
        ],
    );
    refused(
        &and("[probe]\nudp_payload = 1232\n[sevices]\n"),
        &[
            "33:1: probe.udp_payload: unknown key, it belongs to [dns]",
            "34:2: sevices: unknown key, did you mean 'services'?",
        ],
    );
    refused(
        &with("services = [\"web\"]", "services = [{ service = \"web\", wieght = 2 }]"),
        &["27:32: vservers[0].services[0].wieght: unknown key, did you mean 'weight'?"],
    );
}

#[test]
fn values_of_the_wrong_type_are_refused() {
    refused(
        &and(
            "[dns]\nlisten = \"0.0.0.0:53\"\nudp_payload = \"1232\"\nudp_threads = 1.5\n[ldns]\nprivate = \"yes\"\n",
        ),
        &[
            "33:10: dns.listen: expected a list, found a string",
            "34:15: dns.udp_payload: expected a whole number, found a string",
            "35:15: dns.udp_threads: expected a whole number, found a float",
            "37:11: ldns.private: expected true or false, found a string",
        ],
    );
    refused(&and("[[dns]]\n"), &["32:1: dns: expected a table, found an array"]);
    refused(
        &with("[[sites]]", "[sites]"),
        &[
            "4:1: sites: expected a list of tables, write [[sites]]",
            "8:8: nodes[0].name: there is no site 'fra', there are none",
            "21:8: services[0].site: there is no site 'fra', there are none",
        ],
    );
    refused(
        &with("services = [\"web\"]", "services = [3]"),
        &["27:13: vservers[0].services[0]: expected a service's name, or { service = \"NAME\", weight = 1 }"],
    );
}

#[test]
fn durations_need_a_unit_and_stay_in_their_range() {
    refused(
        &and("[group]\nrtt_tolerance = 5\n[probe]\ninterval = \"5 s\"\nretry_order = \"99\"\n"),
        &[
            "33:17: group.rtt_tolerance: needs a unit, write \"5s\" for seconds or \"5ms\" for milliseconds",
            "35:12: probe.interval: '5 s' is no duration, write a whole number and a unit: us, ms, s, m, h or d, as in '5s'",
            "36:15: probe.retry_order: '99' has no unit, write '99s' for seconds or '99ms' for milliseconds",
        ],
    );
    for (given, shown) in [("0ms", "0s"), ("101ms", "101ms"), ("1h", "1h"), ("999us", "999us")] {
        refused(
            &and(&format!("[group]\nrtt_tolerance = \"{given}\"\n")),
            &[&format!("33:17: group.rtt_tolerance: {shown} is out of range, 1ms to 100ms is allowed")],
        );
    }
    for given in ["1ms", "100ms"] {
        refused(&and(&format!("[group]\nrtt_tolerance = \"{given}\"\n")), &[]);
    }
    refused(
        &with("services = [\"web\"]", "services = [\"web\"]\nselection_tolerance = \"101ms\""),
        &["28:23: vservers[0].selection_tolerance: 101ms is out of range, 0s to 100ms is allowed"],
    );
}

#[test]
fn numbers_stay_in_their_range_however_large() {
    for given in ["511", "1401", "-1", "70000", "99999999999999999999999999999999999999999999", "0xffff"] {
        refused(
            &and(&format!("[dns]\nudp_payload = {given}\n")),
            &[&format!("33:15: dns.udp_payload: {given} is out of range, 512 to 1400 is allowed")],
        );
    }
    refused(&and("[dns]\nudp_payload = 0x200\n"), &[]);
    refused(
        &with("services = [\"web\"]", "services = [{ service = \"web\", weight = 101 }]"),
        &["27:41: vservers[0].services[0].weight: 101 is out of range, 1 to 100 is allowed"],
    );
}

#[test]
fn duplicate_keys_are_refused_and_the_rest_is_still_read() {
    refused(
        &and("[probe]\nport = 53\nport = 54\nlimit = 1\n[probe]\n"),
        &[
            "34:1: port: is given twice",
            "35:1: probe.limit: unknown key, there are 'order', 'interval', 'timeout', 'retry_order', 'failed_rounds', \
             'port', 'source_v4', 'source_v6', 'per_second', 'new_per_second' and 'per_prefix'",
            "36:2: probe: is given twice",
        ],
    );
}

#[test]
fn all_syntax_errors_of_a_file_are_reported_and_nothing_else() {
    refused(
        &and("[dns]\nudp_threads = 08\ntcp_idle_timeout = 5s\nfoo\n"),
        &[
            "33:15: unexpected leading zero, expected nothing",
            "34:20: string values must be quoted, expected literal string",
            "35:4: key with no value, expected `=`",
        ],
    );
    refused("version = 1\n[[sites]\n", &["2:9: unclosed array table, expected `]`"]);
}

#[test]
fn an_error_shows_its_line_and_a_caret() {
    let text = with("services = [\"web\"]", "method = \"rrt\"\nservices = [\"web\"]");
    let errors = folder(&text).load(None).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "gslb.toml:27:10: vservers[0].method: 'rrt' is not known here, did you mean 'rtt'?\n  \
           27 | method = \"rrt\"\n     \
              |          ^^^^^"
    );
}

#[test]
fn bytes_that_are_no_text_are_refused_at_their_place() {
    let files = Folder::default().with("gslb.toml", b"version = 1\n# \xff\n");
    assert_eq!(files.errors(), ["2:3: this is no UTF-8 text"]);
}

#[test]
fn a_file_that_can_not_be_read_is_named() {
    assert_eq!(Folder::default().errors(), ["gslb.toml: cannot be read: entity not found"]);
    refused(
        &format!("include = \"group.toml\"\n{SMALL}"),
        &["1:11: include: group.toml cannot be read: entity not found"],
    );
    refused(
        &with(
            "records = '''\n@   SOA ns1 hostmaster 1 1h 15m 1w 5s\n    NS  ns1\nns1 A   198.18.1.1\n'''",
            "file = \"z\"",
        ),
        &[
            "13:8: zones[0].file: z cannot be read: entity not found",
            "26:8: domains[0].name: 'www.gslb.test.' lies in no zone, there are none",
        ],
    );
}

#[test]
fn the_format_has_a_version() {
    refused(&with("version = 1\n", "\n"), &["1:1: version: missing"]);
    refused(&with("version = 1", "version = 2"), &["2:11: version: 2 is out of range, 1 to 1 is allowed"]);
}

#[test]
fn included_files_lie_below_the_folder_and_include_no_other() {
    for bad in ["/etc/passwd", "../group.toml", "a/../../group.toml"] {
        refused(
            &format!("include = [\"{bad}\"]\n{SMALL}"),
            &[&format!("1:12: include[0]: '{bad}' does not lie below the folder of this file")],
        );
    }
    let files = folder(&format!("include = [\"a.toml\", \"./a.toml\", \"gslb.toml\"]\n{SMALL}"))
        .with("a.toml", "version = 1\ninclude = \"b.toml\"\nnode = \"fra/1\"\n");
    assert_eq!(
        files.errors(),
        [
            "1:22: include[1]: './a.toml' is read already",
            "1:34: include[2]: 'gslb.toml' is read already",
            "a.toml:2:11: include: an included file includes no other",
            "a.toml:3:8: node: belongs into the main file: an included one is the same on every node",
        ]
    );
}

#[test]
fn a_table_given_in_two_files_is_refused_with_both() {
    let files =
        folder(&format!("include = [\"a.toml\"]\n{SMALL}[probe]\nport = 53\n")).with("a.toml", "\n[probe]\n");
    assert_eq!(
        files.errors(),
        ["a.toml:2:1: probe: [probe] stands in gslb.toml:33 already; a table belongs into one file"]
    );
}

#[test]
fn lists_go_on_from_file_to_file() {
    let more = "[[sites]]\nname = \"ams\"\n[[services]]\nname = \"web-ams\"\nsite = \"ams\"\naddress = \"198.18.2.80\"\nport = 80\n";
    let files = folder(&format!("include = \"d/a.toml\"\n{SMALL}")).with("d/a.toml", more);
    let config = files.load(None).unwrap();
    let names: Vec<&str> = config.services.iter().map(|s| s.name.as_str()).collect();
    assert_eq!((names, config.sites.len()), (vec!["web", "web-ams"], 2));
    let files =
        folder(&format!("include = \"a.toml\"\n{SMALL}")).with("a.toml", "[[sites]]\nname = \"fra\"\n");
    assert_eq!(files.errors(), ["a.toml:2:8: sites[1].name: there is a site 'fra' already, at gslb.toml:5"]);
}

pub(super) const SECOND_NODE: &str = "[[nodes]]\nname = \"fra/2\"\nmep = \"198.18.1.2:4353\"\n";

#[test]
fn the_selector_names_a_node() {
    let two = and(SECOND_NODE);
    refused(&two, &["1:1: node: missing, say which node this is (or use --node): one of 'fra/1', 'fra/2'"]);
    refused(
        &format!("node = \"fra/3\"{two}"),
        &["1:8: node: there is no node 'fra/3', did you mean 'fra/1'?"],
    );
    let chosen =
        |node| folder(&format!("node = \"fra/2\"{two}")).load(node).map(|c| c.this_node().id.to_string());
    assert_eq!(chosen(None), Ok("fra/2".to_owned()));
    assert_eq!(chosen(Some("fra/1")), Ok("fra/1".to_owned()));
    let wrong = chosen(Some("ber/1")).unwrap_err().iter().next().map(|e| e.headline());
    assert_eq!(
        wrong.as_deref(),
        Some("gslb.toml:1:8: node: --node: there is no node 'ber/1', there are 'fra/1' and 'fra/2'")
    );
}

#[test]
fn there_are_sites_and_nodes() {
    refused(
        "version = 1\n",
        &[
            "1:1: sites: missing, write a [[sites]] for each data centre",
            "1:1: nodes: missing, write a [[nodes]] for each node of the group",
        ],
    );
    let sites = |n| (1..n).map(|i| format!("[[sites]]\nname = \"s{i}\"\n")).collect::<String>();
    refused(&and(&sites(32)), &[]);
    refused(&and(&sites(33)), &["95:8: sites[32].name: a group has 32 sites at most"]);
}
