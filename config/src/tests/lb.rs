//! LB virtual servers: what they are read to, and each fault they can have.

use super::faults::refused;
use super::{Folder, folder};
use crate::{LbCertificate, LbForwarded, LbKind, LbMember, LbPersistence, LbTimeouts};
use gslb_types::{LbMethod, Weight};
use std::time::Duration;

/// Two sites, two services in the first, and an LB virtual server before them. The line that `more` begins at is 51.
fn text(vserver: &str, more: &str) -> String {
    format!(
        r#"version = 1
node = "fra/1"
sites = [{{ name = "fra" }}, {{ name = "ams" }}]
nodes = [{{ name = "fra/1", mep = "198.18.1.1:4353" }}, {{ name = "ams/1", mep = "198.18.2.1:4353" }}]

[[lb_vservers]]
name = "front"
site = "fra"
listen = ["198.18.1.100:80"]
services = ["web-1", "web-2"]
{vserver}
[[services]]
name = "web-1"
site = "fra"
address = "198.18.1.81"
port = 80

[[services]]
name = "web-2"
site = "fra"
address = "198.18.1.82"
port = 80

[[services]]
name = "vip"
site = "fra"
address = "198.18.1.100"
port = 80
lb_vserver = "front"

[[services]]
name = "far"
site = "ams"
address = "198.18.2.81"
port = 80

[[vservers]]
name = "www"
services = ["vip"]
{more}
"#
    )
}

fn with(vserver: &str) -> String {
    text(vserver, "")
}

#[test]
fn an_lb_virtual_server_is_what_the_manual_says_where_nothing_is_said() {
    let c = folder(&with("")).load(None).unwrap();
    let lb = &c.lb_vservers[0];
    assert_eq!((lb.name.as_str(), lb.site, &lb.kind), ("front", c.this_site(), &LbKind::Http));
    assert_eq!(lb.listen, ["198.18.1.100:80".parse().unwrap()]);
    assert_eq!((lb.method, lb.startup_rr_factor, lb.slow_start), (LbMethod::default(), 100, Duration::ZERO));
    assert_eq!((&lb.persistence, lb.forwarded), (&LbPersistence::None, LbForwarded::XForwarded));
    let s = Duration::from_secs;
    let timeouts = LbTimeouts { connect: s(5), first_byte: s(50), idle: s(50), request_header: s(10) };
    assert_eq!((lb.timeouts, lb.max_connections, lb.max_idle, lb.retries), (timeouts, 20_000, 256, 3));
    let plain = |service| LbMember { service, weight: Weight::ONE, max_clients: None, max_bandwidth: None };
    assert_eq!((&lb.members[..], lb.source), (&[plain(0), plain(1)][..], None));
    assert_eq!(c.services.iter().map(|s| s.lb_vserver).collect::<Vec<_>>(), [None, None, Some(0), None]);
}

#[test]
fn everything_that_can_be_said_is_read() {
    let said = r#"kind = "ssl"
certificates = [{ certificate = "{site}.crt", key = "a.key" }, { certificate = "/b.crt", key = "/b.key" }]
method = "lrt"
startup_rr_factor = 0
slow_start = "90s"
persistence = "cookie"
cookie = "where"
forwarded = "rfc7239"
source = "198.18.1.9"
connect_timeout = "1s"
first_byte_timeout = "2s"
idle_timeout = "3s"
request_header_timeout = "4s"
max_connections = 5
max_idle = 6
retries = 0
"#;
    let members = r#"services = ["web-2", { service = "web-1", weight = 7, max_clients = 8, max_bandwidth = "9kbps" }]"#;
    let text = with(said).replace(r#"services = ["web-1", "web-2"]"#, members);
    let c = folder(&text).load(None).unwrap_or_else(|e| panic!("{e}"));
    let lb = &c.lb_vservers[0];
    let pair =
        |certificate: &str, key: &str| LbCertificate { certificate: certificate.into(), key: key.into() };
    assert_eq!(
        lb.kind,
        LbKind::Ssl { certificates: vec![pair("fra.crt", "a.key"), pair("/b.crt", "/b.key")] }
    );
    assert_eq!((lb.method, lb.slow_start), (LbMethod::LeastResponseTime, Duration::from_secs(90)));
    assert_eq!(lb.persistence, LbPersistence::Cookie { name: "where".into() });
    assert_eq!((lb.forwarded, lb.source), (LbForwarded::Rfc7239, Some("198.18.1.9".parse().unwrap())));
    assert_eq!((lb.startup_rr_factor, lb.max_connections, lb.max_idle, lb.retries), (0, 5, 6, 0));
    let (weight, one) = (Weight::new(7).unwrap(), Weight::ONE);
    assert_eq!(
        lb.members,
        [
            LbMember { service: 1, weight: one, max_clients: None, max_bandwidth: None },
            LbMember { service: 0, weight, max_clients: Some(8), max_bandwidth: Some(9_000) },
        ]
    );
}

#[test]
fn clients_are_kept_by_address_within_masks() {
    let said = "persistence = \"source_ip\"\npersistence_timeout = \"1m\"\npersistence_mask_v4 = 24\npersistence_cap = 9\n";
    let c = folder(&with(said)).load(None).unwrap();
    let timeout = Duration::from_secs(60);
    assert_eq!(
        c.lb_vservers[0].persistence,
        LbPersistence::SourceIp { mask_v4: 24, mask_v6: 128, timeout, cap: 9 }
    );
}

#[test]
fn a_setting_stands_only_where_it_is_of_use() {
    refused(
        &with("kind = \"tcp\"\nmethod = \"lrt\"\npersistence = \"cookie\"\nforwarded = \"none\"\n"),
        &[
            "12:10: lb_vservers[0].method: 'least_response_time' needs responses of HTTP, so kind = \"http\" or \"ssl\": with \"tcp\" use 'lrtm'",
            "13:15: lb_vservers[0].persistence: there are no cookies with kind = \"tcp\": write \"source_ip\"",
            "14:13: lb_vservers[0].forwarded: is of use only with kind = \"http\" or \"ssl\"",
        ],
    );
    refused(
        &with("proxy_protocol = true\ncookie = \"c\"\npersistence_cap = 1\ncertificates = []\n"),
        &[
            "11:18: lb_vservers[0].proxy_protocol: is of use only with kind = \"tcp\": services learn by `forwarded`",
            "12:10: lb_vservers[0].cookie: is of use only with persistence = \"cookie\"",
            "13:19: lb_vservers[0].persistence_cap: is of use only with persistence = \"source_ip\"",
            "14:16: lb_vservers[0].certificates: is of use only with kind = \"ssl\"",
        ],
    );
    refused(
        &with("kind = \"ssl\"\n"),
        &[
            "6:1: lb_vservers[0].certificates: missing, write { certificate = \"FILE\", key = \"FILE\" } for each",
        ],
    );
    refused(
        &with("persistence = \"cookie\"\ncookie = \"a b\"\n"),
        &[
            "12:10: lb_vservers[0].cookie: 'a b' is no name of a cookie: 1 to 64 letters, digits, '-', '_' or '.'",
        ],
    );
}

#[test]
fn it_proxies_to_services_of_its_own_site_each_once() {
    let to = |services: &str| {
        with("").replace(r#"services = ["web-1", "web-2"]"#, &format!("services = {services}"))
    };
    refused(
        &to(r#"["web-1", "web-1", "far", "vip", "web-3"]"#),
        &[
            "10:22: lb_vservers[0].services[1]: is bound twice; raise its weight instead",
            "10:31: lb_vservers[0].services[2]: stands in another site: an LB virtual server proxies within its own",
            "10:38: lb_vservers[0].services[3]: stands for an LB virtual server itself: name what is behind that one",
            "10:45: lb_vservers[0].services[4]: there is no service 'web-3', did you mean 'web-1'?",
        ],
    );
    refused(&to("[]"), &["10:12: lb_vservers[0].services: must name one service at least"]);
    refused(
        &to(r#"[{ service = "web-1", max_bandwidth = 5, max_clients = 0 }]"#),
        &[
            "10:50: lb_vservers[0].services[0].max_bandwidth: expected a rate, as in \"100Mbps\"",
            "10:67: lb_vservers[0].services[0].max_clients: 0 is out of range, 1 to 4294967295 is allowed",
        ],
    );
}

#[test]
fn a_service_stands_for_an_lb_virtual_server_of_its_site_and_is_not_checked_beside_it() {
    let other = |from: &str, to: &str| with("").replacen(from, to, 1);
    refused(
        &other("lb_vserver = \"front\"", "lb_vserver = \"frint\""),
        &["29:14: services[2].lb_vserver: there is no LB virtual server 'frint', did you mean 'front'?"],
    );
    refused(
        &other("port = 80\nlb_vserver", "port = 80\nmonitors = [\"m\"]\nlb_vserver")
            .replace("[[vservers]]", "[[monitors]]\nname = \"m\"\nkind = \"tcp\"\n[[vservers]]"),
        &[
            "29:12: services[2].monitors: its state is that of `lb_vserver`: monitors belong to the services behind that",
        ],
    );
    refused(
        &other(
            "address = \"198.18.2.81\"\nport = 80",
            "address = \"198.18.2.81\"\nport = 80\nlb_vserver = \"front\"",
        ),
        &["36:14: services[3].lb_vserver: 'front' stands in another site"],
    );
    refused(
        &text(
            "",
            "[[lb_vservers]]\nname = \"front\"\nsite = \"ams\"\nlisten = [\"198.18.2.9:80\"]\nservices = [\"far\"]\n",
        ),
        &["41:8: lb_vservers[1].name: there is a LB virtual server 'front' already, at gslb.toml:6"],
    );
}

#[test]
fn nothing_else_listens_at_its_addresses() {
    let second =
        "[[lb_vservers]]\nname = \"b\"\nsite = \"fra\"\nlisten = [\"0.0.0.0:80\"]\nservices = [\"web-1\"]\n";
    refused(
        &text("", second),
        &[
            "43:10: lb_vservers[1].listen: 0.0.0.0:80 is taken: LB virtual server 'front' listens at 198.18.1.100:80",
        ],
    );
    let far = second.replace("fra", "ams").replace("web-1", "far");
    refused(&text("", &far), &[]);
    let at = |address: &str| with("").replace("198.18.1.100:80\"]", &format!("{address}\"]"));
    refused(
        &at("198.18.1.100:53"),
        &["9:10: lb_vservers[0].listen: 198.18.1.100:53 is taken: DNS listens at 0.0.0.0:53 (dns.listen)"],
    );
    refused(
        &at("198.18.1.1:4353"),
        &[
            "9:10: lb_vservers[0].listen: 198.18.1.1:4353 is taken: peers are heard at 0.0.0.0:4353 (mep.listen)",
        ],
    );
    // Another site's addresses are not this node's.
    refused(&at("198.18.1.100:53").replace("node = \"fra/1\"", "node = \"ams/1\""), &[]);
}

#[test]
fn methods_that_count_traffic_may_choose_among_what_stands_for_lb_virtual_servers() {
    let local = |method: &str, services: &str| {
        with("")
            .replace("services = [\"vip\"]", &format!("services = {services}\nlocal_method = \"{method}\""))
    };
    for method in ["lrt", "least_bandwidth", "least_packets", "least_connections", "lrtm", "round_robin"] {
        refused(&local(method, "[\"vip\"]"), &[]);
    }
    refused(
        &local("least_bandwidth", "[\"vip\", \"web-1\"]"),
        &[concat!(
            "40:16: vservers[0].local_method: 'least_bandwidth' needs traffic that passes through the nodes: of services that ",
            "stand for an `lb_vserver`, or have a `source` that tells it; 'lrtm', 'round_robin' and 'source_ip_hash' need none"
        )],
    );
    let tcp =
        local("lrt", "[\"vip\"]").replace("site = \"fra\"\nlisten", "site = \"fra\"\nkind = \"tcp\"\nlisten");
    refused(
        &tcp,
        &[concat!(
            "41:16: vservers[0].local_method: 'least_response_time' needs responses that pass through the nodes: of services ",
            "that stand for an `lb_vserver` of kind http or ssl, or have a `source` that tells it; 'lrtm', 'round_robin' and 'source_ip_hash' need none"
        )],
    );
}

#[test]
fn what_is_wrong_with_one_entry_is_said_once() {
    refused(
        &with("").replacen("port = 80", "port = 0", 1),
        &["16:8: services[0].port: 0 is out of range, 1 to 65535 is allowed"],
    );
    refused(
        &with("").replacen("site = \"fra\"", "site = \"frx\"", 1),
        &["8:8: lb_vservers[0].site: there is no site 'frx', did you mean 'fra'?"],
    );
    refused(
        &with("").replacen("name = \"front\"", "name = \"Front\"", 1),
        &[
            "7:8: lb_vservers[0].name: 'Front' may hold only a-z, 0-9, '-' and '_', and must start and end with a letter or digit",
            "29:14: services[2].lb_vserver: there is no LB virtual server 'front', there are none",
        ],
    );
}

/// What other sites must know of it is that it stands for a service; how it serves is its own site's business.
#[test]
fn only_what_stands_for_it_must_match() {
    let hashes = |text: &str| folder(text).load(None).unwrap().group.must_match;
    assert_eq!(hashes(&with("")), hashes(&with("method = \"round_robin\"\nslow_start = \"5s\"\n")));
    let other = Folder::default().with("gslb.toml", with("").replace("lb_vserver = \"front\"", ""));
    let without = other.load(None).unwrap().group.must_match;
    let differing: Vec<_> =
        hashes(&with("")).into_iter().zip(without).filter(|(a, b)| a != b).map(|(a, _)| a.0).collect();
    assert_eq!(differing, ["services"]);
}

const NEEDS_LOAD: &str = "'custom_load' needs a service whose load is told: by a monitor of kind \"user\" with `load_label`, or by a source with `load` in `source_metrics`";

#[test]
fn a_method_by_load_needs_something_that_tells_one() {
    let lb = with("method = \"custom_load\"\n");
    let place = lb.lines().position(|line| line.starts_with("method = ")).unwrap() + 1;
    refused(&lb, &[&format!("{place}:10: lb_vservers[0].method: {NEEDS_LOAD}")]);
    let site = with("").replace("services = [\"vip\"]", "services = [\"vip\"]\nmethod = \"custom_load\"");
    let place = site.lines().position(|line| line.starts_with("method = ")).unwrap() + 1;
    refused(&site, &[&format!("{place}:10: vservers[0].method: {NEEDS_LOAD}")]);
    for text in [lb, site] {
        let monitor = "[[monitors]]\nname = \"loaded\"\nkind = \"user\"\ncommand = [\"/bin/load\"]\n";
        let bound = text.replacen("port = 80\n", "port = 80\nmonitors = [\"loaded\"]\n", 1) + monitor;
        assert!(folder(&bound).load(None).is_err(), "no label");
        refused(&(bound.clone() + "load_label = \"load\"\n"), &[]);
        assert!(folder(&(bound + "load_label = \"load\"\nreverse = true\n")).load(None).is_err());
    }
}
