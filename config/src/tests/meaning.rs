//! What settings must be to each other (faults I-14, I-30, I-63, threat T9).

use super::faults::{SECOND_NODE, refused};
use super::{Folder, SMALL, and, folder, with};
use std::path::Path;

#[test]
fn a_name_is_given_once() {
    refused(
        &and(
            "[[sites]]\nname = \"fra\"\n[[services]]\nname = \"web\"\nsite = \"fra\"\naddress = \"::1\"\nport = 80\n\
             [[vservers]]\nname = \"www\"\nservices = [\"web\"]\n[[nodes]]\nname = \"fra/1\"\nmep = \"198.18.1.9:4353\"\n",
        ),
        &[
            "33:8: sites[1].name: there is a site 'fra' already, at gslb.toml:4",
            "35:8: services[1].name: there is a service 'web' already, at gslb.toml:19",
            "40:8: vservers[1].name: there is a virtual server 'www' already, at gslb.toml:25",
            "43:8: nodes[1].name: there is a node 'fra/1' already, at gslb.toml:7",
        ],
    );
}

#[test]
fn zones_and_domains_are_the_same_in_any_case_and_with_or_without_a_dot() {
    refused(
        &and("[[zones]]\nname = \"Gslb.TEST.\"\nrecords = '''\n@ SOA a. b. 1 1 1 1 1\n@ NS a.\n'''\n"),
        &["33:8: zones[1].name: there is a zone 'gslb.test.' already, at gslb.toml:11"],
    );
    refused(
        &and("[[domains]]\nname = \"WWW.gslb.test.\"\nvserver = \"www\"\n"),
        &["33:8: domains[1].name: there is a domain 'www.gslb.test.' already, at gslb.toml:29"],
    );
}

#[test]
fn names_are_well_formed() {
    refused(
        &with("name = \"web\"", "name = \"Web\""),
        &[
            "20:8: services[0].name: 'Web' may hold only a-z, 0-9, '-' and '_', and must start and end with a letter or digit",
            "27:13: vservers[0].services[0]: there is no service 'web', there are none",
        ],
    );
    refused(
        &with("name = \"fra/1\"", "name = \"fra-1\""),
        &["8:8: nodes[0].name: 'fra-1' is not of the form SITE/NODE"],
    );
    refused(
        &with("www.gslb.test", "www..gslb.test"),
        &["30:8: domains[0].name: 'www..gslb.test' is no domain name: empty label"],
    );
    refused(
        &with("www.gslb.test", "bücher.gslb.test"),
        &["30:8: domains[0].name: 'bücher.gslb.test' holds 'ü', write it in its xn-- form"],
    );
}

/// What `check` calls fine, `run` takes: the group's name stands in certificates.
#[test]
fn the_name_of_a_group_is_one_that_certificates_can_hold() {
    let expected =
        "'My Group' may hold only a-z, 0-9, '-' and '_', and must start and end with a letter or digit";
    refused(&and("[group]\nname = \"My Group\"\n"), &[&format!("33:8: group.name: {expected}")]);
    refused(&and("[group]\nname = \"\"\n"), &["33:8: group.name: a name must not be empty"]);
    refused(&and("[group]\nname = \"prod-1\"\n"), &[]);
}

#[test]
fn references_name_something() {
    refused(
        &with("site = \"fra\"", "site = \"fre\"\nmonitors = [\"web\"]"),
        &[
            "21:8: services[0].site: there is no site 'fre', did you mean 'fra'?",
            "22:13: services[0].monitors[0]: there is no monitor 'web', there are none",
        ],
    );
    refused(
        &with("services = [\"web\"]", "services = [\"wbe\", { service = \"other\" }]"),
        &[
            "27:13: vservers[0].services[0]: there is no service 'wbe', did you mean 'web'?",
            "27:32: vservers[0].services[1].service: there is no service 'other', there is 'web'",
        ],
    );
    refused(
        &with("vserver = \"www\"", "vserver = \"ww\""),
        &["31:11: domains[0].vserver: there is no virtual server 'ww', did you mean 'www'?"],
    );
}

#[test]
fn a_virtual_server_has_services_each_once() {
    refused(
        &with("services = [\"web\"]", "services = []"),
        &["27:12: vservers[0].services: must name one service at least"],
    );
    refused(&with("services = [\"web\"]", ""), &["25:1: vservers[0].services: missing"]);
    refused(
        &with("services = [\"web\"]", "services = [\"web\", { service = \"web\", weight = 2 }]"),
        &["27:20: vservers[0].services[1]: is bound twice; raise its weight instead"],
    );
}

/// One mistake, one message: a service that is left out for its own error is not taken for another one.
#[test]
fn a_service_that_is_wrong_is_not_taken_for_the_next_one() {
    let two =
        with("services = [\"web\"]", "services = [\"web\", \"web2\"]").replace("198.18.1.80", "web.test");
    refused(
        &format!(
            "{two}[[services]]\nname = \"web2\"\nsite = \"fra\"\naddress = \"198.18.1.81\"\nport = 80\n"
        ),
        &["22:11: services[0].address: 'web.test' is no IPv4 or IPv6 address"],
    );
}

#[test]
fn two_services_do_not_share_an_address_and_port() {
    let other = |port| {
        and(&format!(
            "[[services]]\nname = \"b\"\nsite = \"fra\"\naddress = \"::ffff:198.18.1.80\"\nport = {port}\n"
        ))
    };
    refused(
        &other(80),
        &["35:11: services[1].address: 198.18.1.80:80 is the address of service 'web' already"],
    );
    refused(&other(81), &[]);
}

#[test]
fn addresses_are_those_of_hosts() {
    refused(
        &with("address = \"198.18.1.80\"", "address = \"198.18.1\""),
        &["22:11: services[0].address: '198.18.1' is no IPv4 or IPv6 address"],
    );
    refused(
        &with("address = \"198.18.1.80\"", "address = \"224.0.0.1\""),
        &["22:11: services[0].address: 224.0.0.1 is not the address of a host"],
    );
    refused(
        &with("mep = \"198.18.1.1:4353\"", "mep = \"0.0.0.0:4353\""),
        &["9:7: nodes[0].mep: peers can't dial 0.0.0.0:4353"],
    );
    refused(
        &and("[dns]\nlisten = [\"0.0.0.0\", \"::1\", \"localhost:53\", \"[::1]:53\", \"[::1]:53\"]\n"),
        &[
            "33:11: dns.listen[0]: '0.0.0.0' has no port, write '0.0.0.0:PORT'",
            "33:22: dns.listen[1]: '::1' has no port, write '[::1]:PORT'",
            "33:29: dns.listen[2]: 'localhost:53' is no address with port, as in '192.0.2.1:53' or '[2001:db8::1]:53'",
            "33:57: dns.listen[4]: is given twice",
        ],
    );
    refused(
        &and("[ldns]\nexclude = [\"10.0.0.0/33\", \"10.1.2.3/8\", \"10.0.0.0/8\", \"192.0.2.1\"]\n"),
        &[
            "33:12: ldns.exclude[0]: '10.0.0.0/33' is no prefix, as in '192.0.2.0/24' or '2001:db8::/32'",
            "33:27: ldns.exclude[1]: '10.1.2.3/8' has bits beyond its length, write '10.0.0.0/8'",
        ],
    );
    refused(
        &and("[probe]\nsource_v4 = \"::1\"\nsource_v6 = \"ff02::1\"\n"),
        &[
            "33:13: probe.source_v4: '::1' is no IPv4 address",
            "34:13: probe.source_v6: probes can't come from ff02::1",
        ],
    );
}

#[test]
fn the_admin_api_listens_on_loopback_or_not_at_all() {
    for bad in ["0.0.0.0:8053", "192.0.2.1:8053", "[::]:8053", "[::ffff:192.0.2.1]:8053"] {
        refused(
            &and(&format!("[admin]\nlisten = \"{bad}\"\n")),
            &[&format!(
                "33:10: admin.listen: {bad} is no loopback address; the API asks for no password, so write 127.0.0.1:8053 \
                 or [::1]:8053"
            )],
        );
    }
    let listen = |text: &str| {
        folder(&and(&format!("[admin]\nlisten = \"{text}\"\n"))).load(None).unwrap().admin.listen
    };
    assert_eq!(listen("off"), None);
    assert_eq!(listen("[::1]:9").map(|a| a.port()), Some(9));
    assert_eq!(listen("127.9.9.9:0").map(|a| a.port()), Some(0));
    // A node's own setting is checked as well, also of nodes other than this.
    refused(
        &format!("node = \"fra/1\"{}admin_listen = \"198.18.1.2:1\"\n", and(SECOND_NODE)),
        &[
            "35:16: nodes[1].admin_listen: 198.18.1.2:1 is no loopback address; the API asks for no password, so write \
           127.0.0.1:1 or [::1]:1",
        ],
    );
}

#[test]
fn a_timeout_is_less_than_its_interval() {
    refused(
        &and("[probe]\ninterval = \"2s\"\n"),
        &["33:12: probe.interval: timeout (2s) must be less than interval (2s)"],
    );
    refused(
        &and("[probe]\ntimeout = \"6s\"\n"),
        &["33:11: probe.timeout: timeout (6s) must be less than interval (5s)"],
    );
    refused(&and("[probe]\ninterval = \"2001ms\"\n"), &[]);
    refused(
        &and("[[monitors]]\nname = \"m\"\nkind = \"tcp\"\ntimeout = \"5s\"\n"),
        &["35:11: monitors[0].timeout: timeout (5s) must be less than interval (5s)"],
    );
}

#[test]
fn rtts_outlive_a_lost_round() {
    let why = "must be less than half of max_age of [mep]";
    let end = "else RTTs are forgotten between two rounds";
    refused(
        &and("[probe]\ninterval = \"30s\"\n"),
        &[&format!("33:12: probe.interval: interval of [probe] (30s) {why} (1m): {end}")],
    );
    refused(
        &and("[mep]\nmax_age = \"10s\"\n"),
        &[&format!("33:11: mep.max_age: interval of [probe] (5s) {why} (10s): {end}")],
    );
    refused(&and("[probe]\ninterval = \"29s\"\n"), &[]);
    refused(&and("[mep]\nmax_age = \"11s\"\n"), &[]);
}

#[test]
fn the_listeners_of_a_node_do_not_take_each_others_addresses() {
    let dns = |listen: &str, more: &str| and(&format!("[dns]\nlisten = [{listen}]\n{more}"));
    refused(
        &dns("\"0.0.0.0:53\", \"127.0.0.1:53\"", ""),
        &["33:10: dns.listen: 127.0.0.1:53 and 0.0.0.0:53 can't be listened at both: one holds the other"],
    );
    refused(
        &dns("\"[::ffff:192.0.2.1]:53\"", ""),
        &["33:11: dns.listen[0]: [::ffff:192.0.2.1]:53 is an IPv4 address, write '192.0.2.1:53'"],
    );
    refused(
        &dns(
            "\"127.0.0.1:8053\"",
            "[dns.tls]\nlisten = [\"0.0.0.0:8053\"]\ncertificate = \"c\"\nkey = \"k\"\n",
        ),
        &[
            "1:1: admin.listen: 127.0.0.1:8053 is taken: DNS listens at 127.0.0.1:8053 (dns.listen)",
            "34:1: dns.tls: 0.0.0.0:8053 is taken: DNS listens at 127.0.0.1:8053 (dns.listen)",
        ],
    );
    refused(
        &dns("\"192.0.2.1:4353\"", "[mep]\nlisten = \"0.0.0.0:4353\"\n"),
        &["35:10: mep.listen: 0.0.0.0:4353 is taken: DNS listens at 192.0.2.1:4353 (dns.listen)"],
    );
    let apart = "\"0.0.0.0:53\", \"[::]:53\", \"127.0.0.1:54\", \"127.0.0.1:0\", \"0.0.0.0:0\"";
    refused(&dns(apart, "[admin]\nlisten = \"[::1]:54\"\n"), &[]);
}

#[test]
fn a_prefix_has_probes_enough_for_one_ldns() {
    refused(
        &and("[probe]\ninterval = \"1s\"\ntimeout = \"500ms\"\n"),
        &["32:1: probe.per_prefix: one LDNS alone needs 3: 3 kinds in each interval of 1s"],
    );
    refused(&and("[probe]\ninterval = \"1s\"\ntimeout = \"500ms\"\nper_prefix = 3\n"), &[]);
}

#[test]
fn probe_kinds_are_known_and_given_once() {
    refused(
        &and("[probe]\norder = [\"ping\", \"dns\", \"ping\"]\n"),
        &[
            "33:18: probe.order[1]: 'dns' is not known here, there are 'ping', 'dns-udp' and 'dns-tcp'",
            "33:25: probe.order[2]: is given twice",
        ],
    );
    refused(
        &and("[probe]\norder = []\n"),
        &["33:9: probe.order: must hold one kind at least: 'ping', 'dns-udp' or 'dns-tcp'"],
    );
}

#[test]
fn backup_addresses_stand_where_they_are_used_and_only_there() {
    let vserver = |more: &str| with("services = [\"web\"]", &format!("{more}\nservices = [\"web\"]"));
    refused(
        &vserver("all_down = \"backup_ip\""),
        &["25:1: vservers[0].backup_ip: missing, all_down = \"backup_ip\" answers with it"],
    );
    refused(
        &vserver("backup_ip = [\"192.0.2.9\"]"),
        &["27:13: vservers[0].backup_ip: is used only with all_down = \"backup_ip\""],
    );
    refused(
        &vserver("all_down = \"backup_ip\"\nbackup_ip = []"),
        &["28:13: vservers[0].backup_ip: must hold one address at least"],
    );
    refused(&vserver("all_down = \"backup_ip\"\nbackup_ip = [\"192.0.2.9\"]"), &[]);
}

#[test]
fn the_backup_method_knows_what_to_do_without_rtts() {
    refused(
        &with("services = [\"web\"]", "backup_method = \"rtt\"\nservices = [\"web\"]"),
        &["27:17: vservers[0].backup_method: can't be 'rtt': it answers while nothing is measured"],
    );
}

const HTTP_ONLY: &str = "only for kind = \"http\" or \"https\" or \"http-ecv\" or \"https-ecv\"";

#[test]
fn http_settings_are_for_http_and_can_not_smuggle_lines() {
    let monitor = |more: &str| and(&format!("[[monitors]]\nname = \"m\"\n{more}\n"));
    refused(
        &monitor("kind = \"tcp\"\npath = \"/\"\nexpect = [200]"),
        &[
            &format!("35:8: monitors[0].path: {HTTP_ONLY}"),
            &format!("36:10: monitors[0].expect: {HTTP_ONLY}"),
        ],
    );
    refused(
        &monitor("kind = \"htttp\"\npath = \"/\""),
        &["34:8: monitors[0].kind: 'htttp' is not known here, did you mean 'http'?"],
    );
    refused(
        &monitor("kind = \"http\"\npath = \"/a\\r\\nX: y\"\nhost = \"a\\nb\"\nexpect = [200, 700]"),
        &[
            "35:8: monitors[0].path: '\\r' can't stand in a path, write it in %-notation",
            "36:8: monitors[0].host: 'a\\nb' is no host name",
            "37:16: monitors[0].expect[1]: 700 is out of range, 100 to 599 is allowed",
        ],
    );
    refused(
        &monitor("kind = \"http\"\npath = \"/ok?a=%20b\"\nhost = \"www.gslb.test:80\"\nexpect = [200]"),
        &[],
    );
}

#[test]
fn a_domain_lies_in_a_zone_and_is_answered_by_nothing_else() {
    refused(
        &with("www.gslb.test", "www.example.org"),
        &["30:8: domains[0].name: 'www.example.org.' lies in no zone, there is 'gslb.test.'"],
    );
    let zone = |record: &str| with("ns1 A   198.18.1.1", &format!("ns1 A   198.18.1.1\n{record}"));
    for (record, rtype) in [("www A 192.0.2.1", "A"), ("WWW AAAA ::1", "AAAA"), ("www CNAME ns1", "CNAME")] {
        refused(
            &zone(record),
            &[&format!(
                "31:8: domains[0].name: 'www.gslb.test.' has a static {rtype} record, at gslb.toml:17"
            )],
        );
    }
    refused(
        &zone("www NS ns.example.org.").replace("name = \"www.", "name = \"a.www."),
        &[
            "31:8: domains[0].name: 'a.www.gslb.test.' is not ours to answer: 'www.gslb.test.' is delegated away, at gslb.toml:17",
        ],
    );
    refused(
        &zone("www DNAME example.org.").replace("name = \"www.", "name = \"a.www."),
        &["31:8: domains[0].name: 'a.www.gslb.test.' lies below the DNAME at gslb.toml:17"],
    );
    // Other types beside a GSLB domain are what zones are for.
    refused(&zone("www TXT \"x\"\nwww MX 10 mail.example.org."), &[]);
}

#[test]
fn a_domain_belongs_to_the_deepest_of_nested_zones() {
    let nested = and(
        "[[zones]]\nname = \"www.gslb.test\"\nrecords = '''\n@ SOA ns.example.org. h.example.org. 1 1 1 1 1\n@ NS ns.example.org.\n'''\n\
         [[zones]]\nname = \"test.\"\nrecords = '''\n@ SOA ns.example.org. h.example.org. 1 1 1 1 1\n@ NS ns.example.org.\n'''\n",
    );
    let config = folder(&nested).load(None).unwrap();
    let zone = &config.zones[config.domains[0].zone];
    assert_eq!(zone.origin.to_string(), "www.gslb.test.");
}

#[test]
fn a_domain_has_a_ttl_that_dns_knows() {
    let ttl = |text: &str| with("vserver = \"www\"\n", &format!("vserver = \"www\"\nttl = {text}\n"));
    refused(
        &ttl("30"),
        &["32:7: domains[0].ttl: needs a unit, write \"30s\" for seconds or \"30ms\" for milliseconds"],
    );
    refused(&ttl("\"500ms\""), &["32:7: domains[0].ttl: '500ms' is no TTL: those are whole seconds"]);
    refused(
        &ttl("\"2147483648s\""),
        &[
            "32:7: domains[0].ttl: '2147483648s' is longer than a TTL can be, 2147483647s (RFC 2181 section 8)",
        ],
    );
    refused(&ttl("\"2147483647s\""), &[]);
    refused(&ttl("\"0s\""), &[]);
}

#[test]
fn one_text_serves_all_nodes() {
    let text = and(
        "[mep]\nca = \"/etc/ca.pem\"\ncertificate = \"c/{site}/{node}.pem\"\n[dns.tls]\ncertificate = \"{site}.pem\"\nkey = \"k\"\n\
         [probe]\nsource_v4 = \"192.0.2.1\"\n\
         [[nodes]]\nname = \"fra/2\"\nmep = \"198.18.1.2:4353\"\ndns_listen = [\"198.18.1.2:53\"]\nmep_listen = \"198.18.1.2:4353\"\n\
         admin_listen = \"off\"\nprobe_source_v4 = \"198.18.1.2\"\nprobe_source_v6 = \"2001:db8::2\"\nkey = \"own.key\"\n\
         dns_tls_listen = [\"198.18.1.2:853\"]\n",
    );
    let of = |node| folder(&text).load(Some(node)).unwrap();
    let (one, two) = (of("fra/1"), of("fra/2"));
    assert_eq!(one.mep.certificate, Path::new("c/fra/1.pem"));
    assert_eq!(
        (two.mep.certificate.as_path(), two.mep.key.as_path()),
        (Path::new("c/fra/2.pem"), Path::new("own.key"))
    );
    assert_eq!(
        (one.mep.ca.as_path(), one.mep.key.as_path()),
        (Path::new("/etc/ca.pem"), Path::new("pki/fra-1.key"))
    );
    assert_eq!(one.dns.tls.as_ref().unwrap().certificate, Path::new("fra.pem"));
    let text_of = |a: &[std::net::SocketAddr]| a.iter().map(|a| a.to_string()).collect::<Vec<_>>().join(" ");
    assert_eq!(text_of(&one.dns.listen), "0.0.0.0:53 [::]:53");
    assert_eq!(text_of(&two.dns.listen), "198.18.1.2:53");
    assert_eq!(text_of(&two.dns.tls.as_ref().unwrap().listen), "198.18.1.2:853");
    assert_eq!(
        (one.mep.listen.to_string(), two.mep.listen.to_string()),
        ("0.0.0.0:4353".into(), "198.18.1.2:4353".into())
    );
    assert_eq!((one.admin.listen.is_some(), two.admin.listen), (true, None));
    assert_eq!(
        (one.probe.source_v4, two.probe.source_v4),
        ("192.0.2.1".parse().ok(), "198.18.1.2".parse().ok())
    );
    assert_eq!((one.probe.source_v6, two.probe.source_v6), (None, "2001:db8::2".parse().ok()));
    assert_eq!(one.group, two.group);
}

#[test]
fn paths_are_relative_to_the_file_that_names_them() {
    let files = Folder::default()
        .with("etc/gslb/gslb.toml", SMALL)
        .with("etc/gslb/group/group.toml", "[mep]\nca = \"ca.pem\"\n");
    let load = |text: &str| {
        let files = Folder(files.0.clone()).with("etc/gslb/gslb.toml", text);
        let mut read =
            |p: &Path| files.0.get(p).cloned().ok_or(std::io::Error::from(std::io::ErrorKind::NotFound));
        crate::load(Path::new("etc/gslb/gslb.toml"), &mut read, None).unwrap()
    };
    assert_eq!(load(SMALL).mep.ca, Path::new("etc/gslb/pki/ca.crt"));
    let included = load(&format!("include = \"group/group.toml\"\n{SMALL}"));
    assert_eq!(included.mep.ca, Path::new("etc/gslb/group/ca.pem"));
    refused(
        &and("[mep]\nca = \"{group}.pem\"\nkey = \"\"\n"),
        &[
            "33:6: mep.ca: '{group}.pem' has a placeholder other than {site} and {node}",
            "34:7: mep.key: must not be empty",
        ],
    );
}

#[test]
fn one_socket_reaches_all_peers() {
    let six = with("198.18.1.1:4353", "[2001:db8::1]:4353");
    refused(
        &six,
        &["1:1: mep.listen: 0.0.0.0:4353 is IPv4, node 'fra/1' is at [2001:db8::1]:4353: write '[::]:4353'"],
    );
    refused(&format!("{six}[mep]\nlisten = \"[::]:4353\"\n"), &[]);
}

#[test]
fn a_method_that_nothing_feeds_is_refused_rather_than_silently_going_round() {
    let local = |word: &str| {
        with("services = [\"web\"]", &format!("services = [\"web\"]\nlocal_method = \"{word}\""))
    };
    refused(&local("lrtm"), &[]);
    refused(
        &local("lrt"),
        &[concat!(
            "28:16: vservers[0].local_method: 'least_response_time' needs responses that pass through the nodes: of services ",
            "that stand for an `lb_vserver` of kind http or ssl, or have a `source` that tells it; 'lrtm', 'round_robin' and 'source_ip_hash' need none"
        )],
    );
}
