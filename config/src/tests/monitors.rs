//! `[[monitors]]`: every kind, with what it needs and what it may not have.

use super::faults::refused;
use super::{Folder, and, folder, with};
use crate::{Config, Monitor, Watch};
use gslb_types::{Check, HttpCheck, Pattern, Receive, Weight};
use std::time::Duration;

fn text(more: &str) -> String {
    and(&format!("[[monitors]]\nname = \"m\"\n{more}\n"))
}

fn loaded(more: &str) -> Config {
    folder(&text(more)).load(None).unwrap_or_else(|e| panic!("{e}"))
}

fn monitor(more: &str) -> Monitor {
    loaded(more).monitors.remove(0)
}

fn check(more: &str) -> Check {
    (*monitor(more).check).clone()
}

#[test]
fn each_kind_is_read_as_it_is_meant() {
    assert_eq!(check("kind = \"ping\""), Check::Ping);
    assert_eq!(check("kind = \"tcp\""), Check::Tcp);
    let Check::TcpEcv(e) = check("kind = \"tcp-ecv\"\nsend = 'PING\\r\\n\\x00'\nreceive = '+PONG'") else {
        panic!()
    };
    assert_eq!((&e.send[..], &e.receive.pattern), (&b"PING\r\n\0"[..], &Pattern::Bytes(b"+PONG".to_vec())));
    let Check::UdpEcv(e) = check("kind = \"udp-ecv\"\nsend = \"x\"\nreceive_regex = '^a.c$'") else {
        panic!()
    };
    assert_eq!(e.receive, Receive { pattern: Pattern::Regex("^a.c$".to_owned()), reverse: false });
    let plain = HttpCheck::get("/");
    assert_eq!(check("kind = \"http\""), Check::Http(plain.clone()));
    let Check::Http(h) = check(
        "kind = \"https-ecv\"\nmethod = \"POST\"\npath = \"/x\"\nhost = \"www.test:8443\"\nheaders = [\"X-A: b\", \"X-A: c\"]\nbody = 'a\\n'\nexpect = [200]\nreceive = \"ok\"",
    ) else {
        panic!()
    };
    assert_eq!((h.method.as_str(), &h.body[..], &h.expect[..]), ("POST", &b"a\n"[..], &[200][..]));
    assert_eq!(h.headers, [("X-A", "b"), ("X-A", "c")].map(|(n, v)| (n.to_owned(), v.to_owned())));
    let tls = h.tls.unwrap();
    assert_eq!(
        (tls.server_name.as_str(), tls.verify),
        ("www.test", None),
        "the name of the host, without its port"
    );
    let Check::Ssl(tls) = check("kind = \"ssl\"\nserver_name = \"a.test\"\nverify = true\nca = \"ca.crt\"")
    else {
        panic!()
    };
    assert_eq!((tls.server_name.as_str(), tls.verify.unwrap().to_str()), ("a.test", Some("ca.crt")));
    let Check::Dns(d) = check(
        "kind = \"dns\"\nquery = \"WWW.Test\"\nquery_type = \"aaaa\"\nrecurse = true\nrcode = \"NOERROR\"\naddresses = [\"2001:db8::1\"]",
    ) else {
        panic!()
    };
    assert_eq!((d.name.as_str(), d.rtype, d.recurse, d.rcode), ("www.test.", 28, true, 0));
    let Check::Dns(d) =
        check("kind = \"dns\"\nquery = \"x.test\"\nquery_type = \"TYPE65280\"\nrcode = \"NXDOMAIN\"")
    else {
        panic!()
    };
    assert_eq!((d.rtype, d.rcode, d.addresses.len()), (65280, 3, 0));
    let Check::Ftp(f) = check("kind = \"ftp\"") else { panic!() };
    assert_eq!((f.user.as_str(), f.password.reveal()), ("anonymous", "gslb-dns@"));
    let Check::User(u) = check(
        "kind = \"user\"\ncommand = [\"/bin/check\", \"{address}\"]\nperf_label = \"time\"\nload_label = \"load\"",
    ) else {
        panic!()
    };
    assert_eq!((u.command.len(), u.run_as.as_str(), u.perf_label.as_deref()), (2, "nobody", Some("time")));
    assert_eq!(u.load_label.as_deref(), Some("load"));
}

#[test]
fn what_an_ecv_looks_for_must_be_given() {
    // Behaviour 5: none configured is a configuration error.
    for kind in ["tcp-ecv", "udp-ecv", "http-ecv", "https-ecv"] {
        let send = if kind == "udp-ecv" { "send = \"x\"" } else { "" };
        refused(
            &text(&format!("kind = \"{kind}\"\n{send}")),
            &[&format!(
                "32:1: monitors[0].receive: missing, kind = \"{kind}\" looks for it (or for receive_regex) in the answer"
            )],
        );
        let empty = "35:11: monitors[0].receive: must not be empty: every answer holds nothing";
        refused(&text(&format!("kind = \"{kind}\"\nreceive = \"\"\n{send}")), &[empty]);
    }
    refused(
        &text("kind = \"tcp-ecv\"\nreceive = \"a\"\nreceive_regex = \"b\""),
        &[
            "36:17: monitors[0].receive_regex: receive is given already, and only one of the two can be looked for",
        ],
    );
    refused(
        &text("kind = \"tcp-ecv\"\nreceive_regex = '(a'"),
        &["35:17: monitors[0].receive_regex: is no regular expression: unclosed group"],
    );
    refused(
        &text("kind = \"tcp-ecv\"\nreceive = 'a\\q'"),
        &["35:11: monitors[0].receive: '\\q' means nothing here: \\r, \\n, \\t, \\xNN and \\\\ do"],
    );
    refused(
        &text("kind = \"udp-ecv\"\nreceive = \"a\""),
        &["32:1: monitors[0].send: missing, kind = \"udp-ecv\" has no other way to ask for an answer"],
    );
}

#[test]
fn a_key_of_another_kind_is_refused_with_the_kinds_that_have_it() {
    for (key, value, kinds) in [
        ("send", "\"x\"", "\"tcp-ecv\" or \"udp-ecv\""),
        ("receive", "\"x\"", "\"tcp-ecv\" or \"udp-ecv\" or \"http-ecv\" or \"https-ecv\""),
        ("verify", "false", "\"https\" or \"https-ecv\" or \"ssl\""),
        ("query", "\"x\"", "\"dns\""),
        ("password", "\"x\"", "\"ftp\""),
        ("command", "[]", "\"user\""),
        ("run_as", "\"x\"", "\"user\""),
    ] {
        let column = key.len() + 4;
        refused(
            &text(&format!("kind = \"tcp\"\n{key} = {value}")),
            &[&format!("35:{column}: monitors[0].{key}: only for kind = {kinds}")],
        );
    }
}

#[test]
fn a_verified_certificate_needs_the_cas_and_only_that() {
    refused(
        &text("kind = \"ssl\"\nverify = true"),
        &[
            "32:1: monitors[0].ca: missing, verify = true needs the CA certificates, such as \"/etc/ssl/certs/ca-certificates.crt\"",
        ],
    );
    refused(&text("kind = \"ssl\"\nca = \"x\""), &["35:6: monitors[0].ca: is used only with verify = true"]);
}

#[test]
fn dns_user_and_ftp_say_what_they_lack() {
    refused(
        &text("kind = \"dns\""),
        &["32:1: monitors[0].query: missing, kind = \"dns\" asks for this name"],
    );
    refused(
        &text("kind = \"dns\"\nquery = \"x.test\"\naddresses = [\"192.0.2.1\", \"2001:db8::1\"]"),
        &[
            "36:13: monitors[0].addresses: an answer of this query_type can't hold them: IPv4 is A, IPv6 is AAAA",
        ],
    );
    refused(&text("kind = \"user\""), &["32:1: monitors[0].command: missing, kind = \"user\" runs it"]);
    refused(
        &text("kind = \"user\"\ncommand = [\"check_http\"]"),
        &["35:11: monitors[0].command: 'check_http' must be a whole path: no shell and no PATH looks for it"],
    );
    refused(
        &text("kind = \"user\"\ncommand = [\"/bin/x\", \"{host}\"]"),
        &[
            "35:22: monitors[0].command[1]: '{host}' stands for nothing here: {address} and {port} stand for those of the service",
        ],
    );
    refused(
        &text("kind = \"ftp\"\nuser = \"a\\r\\nDELE x\""),
        &["35:8: monitors[0].user: '\\r' can't stand here"],
    );
}

#[test]
fn a_password_comes_from_the_text_or_from_a_file_and_is_never_shown() {
    let with_file = |content: &str| {
        folder(&text("kind = \"ftp\"\nuser = \"probe\"\npassword_file = \"secret\"")).with("secret", content)
    };
    let config = with_file("hush hush\nmore\n").load(None).unwrap_or_else(|e| panic!("{e}"));
    let Check::Ftp(ftp) = &*config.monitors[0].check else { panic!() };
    assert_eq!(ftp.password.reveal(), "hush hush");
    assert!(!format!("{config:?}").contains("hush"));
    let errors = |folder: Folder| folder.errors();
    assert_eq!(
        errors(with_file("\n")),
        ["36:17: monitors[0].password_file: secret: must be one line of text that is not empty"]
    );
    assert_eq!(
        errors(folder(&text("kind = \"ftp\"\npassword = \"hu\\u0007sh\""))),
        ["35:12: monitors[0].password: must be one line of text that is not empty"]
    );
    assert_eq!(
        errors(folder(&text("kind = \"ftp\"\npassword = \"x\"\npassword_file = \"secret\""))),
        ["36:17: monitors[0].password_file: password is given already"]
    );
    let missing = errors(folder(&text("kind = \"ftp\"\npassword_file = \"none\"")));
    assert!(missing[0].starts_with("35:17: monitors[0].password_file: none cannot be read"), "{missing:?}");
}

#[test]
fn the_rest_of_a_monitor_is_read_for_every_kind() {
    let m = monitor("kind = \"tcp\"");
    assert_eq!((m.port, m.source, m.down_time, m.reverse, m.measures), (None, None, None, false, true));
    let m = monitor(
        "kind = \"tcp\"\nport = 8080\nsource = \"2001:db8::1\"\ndown_time = \"30s\"\nreverse = true\nresponse_time = false",
    );
    assert_eq!((m.port, m.source), (Some(8080), "2001:db8::1".parse().ok()));
    assert_eq!((m.down_time, m.reverse, m.measures), (Some(Duration::from_secs(30)), true, false));
    refused(
        &text("kind = \"tcp\"\ndown_time = \"1s\""),
        &["35:13: monitors[0].down_time: timeout (2s) must be less than down_time (1s)"],
    );
    let bound = with("port = 80", "port = 80\nmonitors = [\"m\"]")
        + "[[monitors]]\nname = \"m\"\nkind = \"tcp\"\nsource = \"2001:db8::1\"\n";
    refused(
        &bound,
        &["24:12: services[0].monitors: monitor 'm' checks from 2001:db8::1, which can't reach 198.18.1.80"],
    );
    refused(
        &text("kind = \"tcp\"\nsource = \"0.0.0.0\""),
        &["35:10: monitors[0].source: probes can't come from 0.0.0.0"],
    );
}

#[test]
fn only_a_pattern_is_turned_round_where_there_is_one() {
    let m = monitor("kind = \"http-ecv\"\nreceive = \"down\"\nreverse = true");
    let Check::Http(HttpCheck { receive: Some(receive), .. }) = &*m.check else { panic!() };
    assert_eq!((receive.reverse, m.reverse), (true, false));
    assert!(monitor("kind = \"ssl\"\nreverse = true").reverse);
}

#[test]
fn monitors_are_bound_with_weights_and_a_threshold_that_can_be_reached() {
    let service = |more: &str| {
        let monitors =
            "[[monitors]]\nname = \"a\"\nkind = \"tcp\"\n[[monitors]]\nname = \"b\"\nkind = \"ping\"\n";
        with("port = 80", &format!("port = 80\n{more}")) + monitors
    };
    let both = "monitors = [\"a\", { monitor = \"b\", weight = 3 }]";
    let config = folder(&service(&format!("{both}\nmonitor_threshold = 4"))).load(None).unwrap();
    let watch = |monitor, weight| Watch { monitor, weight: Weight::new(weight).unwrap() };
    assert_eq!(config.services[0].monitors, [watch(0, 1), watch(1, 3)]);
    assert_eq!((config.services[0].threshold, config.services[0].remote_threshold), (Some(4), None));
    refused(
        &service(&format!("{both}\nmonitor_threshold = 5")),
        &["25:21: services[0].monitor_threshold: can't be reached: the weights of the monitors make 4"],
    );
    refused(
        &service("remote_monitor_threshold = 1"),
        &[
            "24:28: services[0].remote_monitor_threshold: can't be reached: the weights of the monitors make 0",
        ],
    );
    refused(
        &service("monitors = [\"a\", { monitor = \"a\", weight = 3 }]"),
        &["24:18: services[0].monitors[1]: is given twice"],
    );
    refused(
        &service("monitors = [{ monitor = \"a\", weight = 0 }]"),
        &["24:39: services[0].monitors[0].weight: 0 is out of range, 1 to 100 is allowed"],
    );
}

#[test]
fn what_nodes_must_agree_on_tells_monitors_apart_by_what_they_mean() {
    let hash = |more: &str| {
        let config = loaded(more);
        config.group.must_match.iter().find(|(name, _)| name == "monitors").unwrap().1
    };
    let tcp = hash("kind = \"tcp\"");
    let others = [
        "kind = \"tcp\"\nport = 81",
        "kind = \"tcp\"\ndown_time = \"9s\"",
        "kind = \"tcp\"\nreverse = true",
        "kind = \"tcp\"\nresponse_time = false",
        "kind = \"tcp-ecv\"\nreceive = \"a\"",
        "kind = \"tcp-ecv\"\nreceive_regex = \"a\"",
        "kind = \"tcp-ecv\"\nreceive = \"a\"\nreverse = true",
        "kind = \"udp-ecv\"\nreceive = \"a\"\nsend = \"b\"",
        "kind = \"http\"",
        "kind = \"https\"",
        "kind = \"https\"\nverify = true\nca = \"x\"",
        "kind = \"http\"\nmethod = \"HEAD\"",
        "kind = \"http\"\nheaders = [\"A: b\"]",
        "kind = \"http\"\nbody = \"x\"",
        "kind = \"ssl\"",
        "kind = \"dns\"\nquery = \"x.test\"",
        "kind = \"dns\"\nquery = \"x.test\"\nrcode = \"REFUSED\"",
        "kind = \"ftp\"",
        "kind = \"ftp\"\nuser = \"x\"",
        "kind = \"user\"\ncommand = [\"/bin/x\"]",
    ];
    let mut all: Vec<u64> = others.iter().map(|more| hash(more)).chain([tcp]).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), others.len() + 1);
    // A node's own: where it checks from, the file of the CAs, and who knows the password.
    assert_eq!(hash("kind = \"tcp\"\nsource = \"192.0.2.1\""), tcp);
    assert_eq!(hash("kind = \"ftp\"\npassword = \"x\""), hash("kind = \"ftp\""));
    let verified = |ca: &str| hash(&format!("kind = \"ssl\"\nverify = true\nca = \"{ca}\""));
    assert_eq!(verified("a"), verified("b"));
}

/// The hashes travel between nodes of different versions.
#[test]
fn monitors_of_the_first_kinds_have_the_hashes_they_always_had() {
    let all = "kind = \"http\"\nexpect = [204, 200]\n[[monitors]]\nname = \"p\"\nkind = \"ping\"\n[[monitors]]\nname = \"t\"\nkind = \"tcp\"\nfall = 2";
    let shown: Vec<String> =
        loaded(all).group.must_match.iter().map(|(n, h)| format!("{n} {h:016x}")).collect();
    assert_eq!(shown[3], "monitors 7592f43f33df134f");
}
