//! Foreign load balancers, and what services take from them.

use super::faults::refused;
use super::{SMALL, folder, with};
use crate::{Config, Feed};
use gslb_types::{Quantities, Series, SourceItem, SourceKind, SourcePlace, TimeUnit, Timing};
use std::time::Duration;

/// A service with these keys and a monitor; its source follows at the end.
fn text(service: &str, source: &str) -> String {
    with("port = 80", &format!("port = 80\nsource = \"lb\"\n{service}\nmonitors = [\"m\"]"))
        + &format!("[[sources]]\nname = \"lb\"\n{source}\n{MONITOR}")
}

const MONITOR: &str = "[[monitors]]\nname = \"m\"\nkind = \"tcp\"\n";

fn load(service: &str, source: &str) -> Config {
    folder(&text(service, source)).load(None).unwrap_or_else(|e| panic!("{e}"))
}

fn item(service: &str, kind: &str) -> SourceItem {
    let config = load(service, &format!("kind = \"{kind}\"\nurl = \"http://127.0.0.1:9/\""));
    let Some(Feed { source: 0, item }) = config.services[0].feed.clone() else { panic!() };
    item
}

fn series(text: &str) -> Series {
    Series::new(text).unwrap()
}

#[test]
fn a_source_has_a_place_and_a_pace() {
    let name = "source_name = \"web/s1\"";
    let source = &load(name, "kind = \"haproxy\"\nurl = \"http://127.0.0.1:8404/;csv\"").sources[0];
    assert_eq!((source.name.as_str(), source.kind), ("lb", SourceKind::Haproxy));
    let (address, target) = ("127.0.0.1:8404".parse().unwrap(), "/;csv".to_owned());
    assert_eq!(source.place, SourcePlace::Http { address, target });
    assert_eq!((source.interval, source.timeout), (Duration::from_secs(1), Duration::from_millis(500)));
    assert_eq!(source.misses, 3);
    let config = load(name, "kind = \"haproxy\"\nsocket = \"/run/{site}-{node}.sock\"\nmisses = 1");
    assert_eq!(config.sources[0].place, SourcePlace::Socket("/run/fra-1.sock".into()));
    for (url, shown) in [
        ("http://192.0.2.1", "http://192.0.2.1:80/"),
        ("http://[2001:db8::1]", "http://[2001:db8::1]:80/"),
        ("http://[::1]:81/a?b=c;d", "http://[::1]:81/a?b=c;d"),
    ] {
        let source = &load(name, &format!("kind = \"haproxy\"\nurl = \"{url}\"")).sources[0];
        assert_eq!(source.place.to_string(), shown);
    }
    assert_eq!(folder(SMALL).load(None).unwrap().services[0].feed, None);
}

#[test]
fn a_place_that_can_t_be_looked_at_is_refused() {
    let refuse = |place: &str, why: &str| {
        refused(&text("source_name = \"web/s1\"", &format!("kind = \"haproxy\"\n{place}")), &[why]);
    };
    refuse(
        "url = \"https://127.0.0.1/\"",
        "38:7: sources[0].url: only plain HTTP is spoken here: write a URL that begins with 'http://', on the loopback, say",
    );
    refuse(
        "url = \"127.0.0.1:8404\"",
        "38:7: sources[0].url: '127.0.0.1:8404' is no URL that begins with 'http://'",
    );
    refuse(
        "url = \"http://localhost:8404/\"",
        "38:7: sources[0].url: 'localhost:8404' is no address, write one as in 'http://127.0.0.1:8404/': names are not looked up",
    );
    refuse(
        "url = \"http://a:b@127.0.0.1/\"",
        "38:7: sources[0].url: holds a user's name, and passwords are not sent in the clear",
    );
    refuse("url = \"http://127.0.0.1/a b\"", "38:7: sources[0].url: '/a b' is no path of a URL");
    refuse("", "35:1: sources[0].url: missing, as in \"http://127.0.0.1:8404/;csv\"");
    refuse(
        "url = \"http://127.0.0.1/\"\nsocket = \"/s\"",
        "39:10: sources[0].socket: url is given already, and a page is read at one place",
    );
    refuse(
        "socket = \"/s\"\ninterval = \"400ms\"",
        "39:12: sources[0].interval: timeout (500ms) must be less than interval (400ms)",
    );
    refused(
        &text("", "kind = \"nginx\"\nsocket = \"/s\""),
        &["38:10: sources[0].socket: only for kind = \"haproxy\", which takes commands there: write `url`"],
    );
}

#[test]
fn each_kind_names_what_speaks_of_the_service() {
    let haproxy = |proxy: &str, server: &str| SourceItem::Haproxy {
        proxy: proxy.to_owned(),
        server: server.to_owned(),
    };
    assert_eq!(item("source_name = \"web.1/BACKEND\"", "haproxy"), haproxy("web.1", "BACKEND"));
    let envoy = |cluster: &str, host: Option<&str>| SourceItem::Envoy {
        cluster: cluster.to_owned(),
        host: host.map(str::to_owned),
    };
    for (name, wanted) in [
        ("web", envoy("web", None)),
        ("ns/web", envoy("ns/web", None)),
        ("ns/web/192.0.2.1:80", envoy("ns/web", Some("192.0.2.1:80"))),
        ("web/[2001:db8::1]:80", envoy("web", Some("[2001:db8::1]:80"))),
    ] {
        assert_eq!(item(&format!("source_name = \"{name}\""), "envoy"), wanted);
    }
    assert_eq!(item("", "nginx"), SourceItem::Nginx);
}

#[test]
fn metrics_are_named_by_quantity() {
    let metrics = r#"source_metrics = { up = 'up{job="x"}', active = 'a', connections = 'c', bytes = ['rx', 'tx'], requests = 'r', response_time = 't', response_time_unit = "ms", load = 'l' }"#;
    let quantities = Quantities {
        up: Some(series(r#"up{job="x"}"#)),
        active: Some(series("a")),
        connections: Some(series("c")),
        bytes: vec![series("rx"), series("tx")],
        requests: Some(series("r")),
        response_time: Some(Timing::Gauge { gauge: series("t"), unit: TimeUnit::Millis }),
        load: Some(series("l")),
    };
    assert_eq!(item(metrics, "prometheus"), SourceItem::Prometheus(Box::new(quantities)));
    let sums = "source_metrics = { bytes = 'b', response_time_sum = 's', response_time_count = 'n' }";
    let (sum, count) = (series("s"), series("n"));
    let quantities = Quantities {
        bytes: vec![series("b")],
        response_time: Some(Timing::Sums { sum, count, unit: TimeUnit::Seconds }),
        ..Quantities::default()
    };
    assert_eq!(item(sums, "prometheus"), SourceItem::Prometheus(Box::new(quantities)));
}

#[test]
fn what_does_not_fit_the_kind_is_refused() {
    let refuse = |kind: &str, service: &str, why: &str| {
        refused(&text(service, &format!("kind = \"{kind}\"\nurl = \"http://127.0.0.1:9/\"")), &[why]);
    };
    refuse(
        "haproxy",
        "",
        "19:1: services[0].source_name: missing, write source_name = \"PROXY/SERVER\", or \"PROXY/BACKEND\"",
    );
    refuse(
        "haproxy",
        "source_name = \"web\"",
        "25:15: services[0].source_name: 'web' is not of the form PROXY/SERVER, PROXY/BACKEND or PROXY/FRONTEND",
    );
    refuse(
        "nginx",
        "source_name = \"web\"",
        "25:15: services[0].source_name: source 'lb' is of kind nginx: it speaks of all of nginx, so nothing is to be named",
    );
    refuse(
        "prometheus",
        "source_metrics = { active = 'a{' }",
        "25:29: services[0].source_metrics.active: no label, as in '{label=\"value\"}'",
    );
    refuse(
        "prometheus",
        "source_metrics = {}",
        "25:18: services[0].source_metrics.active: missing, one metric at least must be named",
    );
    refuse(
        "prometheus",
        "source_metrics = { response_time_sum = 's' }",
        "25:18: services[0].source_metrics.response_time_count: missing, a mean is a sum divided by a count",
    );
    refused(
        &with("port = 80", "port = 80\nsource_name = \"web/s1\""),
        &["24:15: services[0].source_name: is of use only with `source`"],
    );
    refused(
        &with("port = 80", "port = 80\nsource = \"lb\""),
        &["24:10: services[0].source: there is no source 'lb', there are none"],
    );
}

/// Without monitors somebody must say whether it is up.
#[test]
fn a_source_that_does_not_say_whether_a_service_is_up_needs_monitors_beside_it() {
    let alone = |service: &str, kind: &str| {
        let text = text(service, &format!("kind = \"{kind}\"\nurl = \"http://127.0.0.1:9/\""));
        folder(&text.replace("monitors = [\"m\"]", "")).load(None).map(drop).map_err(|e| e.to_string())
    };
    let why = "19:1: services[0].monitors: missing, source 'lb' does not say whether the service is up";
    for (service, kind) in [
        ("", "nginx"),
        ("source_name = \"web/FRONTEND\"", "haproxy"),
        ("source_metrics = { active = 'a' }", "prometheus"),
    ] {
        let refused = alone(service, kind).unwrap_err();
        assert!(refused.contains(why), "{kind}: {refused}");
    }
    for (service, kind) in [
        ("source_name = \"web\"", "envoy"),
        ("source_name = \"web/BACKEND\"", "haproxy"),
        ("source_metrics = { up = 'up' }", "prometheus"),
    ] {
        assert_eq!(alone(service, kind), Ok(()), "{kind}");
    }
}

/// The small group with two services more, of which one names a source itself, and a source for the site.
fn of_site(source: &str) -> String {
    let service = |name: &str, port: u16, more: &str| {
        format!(
            "[[services]]\nname = \"{name}\"\nsite = \"fra\"\naddress = \"198.18.1.80\"\nport = {port}\n{more}"
        )
    };
    let place = "kind = \"haproxy\"\nurl = \"http://127.0.0.1:9/\"\n";
    super::and(
        &[
            service("api", 81, ""),
            service("own", 82, "source = \"its\"\nsource_name = \"own/s1\"\n"),
            format!("[[sources]]\nname = \"its\"\n{place}"),
            format!("[[sources]]\nname = \"lb\"\nsite = \"fra\"\n{source}"),
        ]
        .concat(),
    )
}

#[test]
fn a_source_of_a_site_speaks_for_all_its_services_that_name_none() {
    let place = "kind = \"haproxy\"\nurl = \"http://127.0.0.1:9/\"\n";
    let config = folder(&of_site(&format!("{place}source_name = \"all/BACKEND\"\n"))).load(None);
    let config = config.unwrap_or_else(|e| panic!("{e}"));
    let item = |proxy: &str, server: &str| SourceItem::Haproxy {
        proxy: proxy.to_owned(),
        server: server.to_owned(),
    };
    let fed: Vec<_> = config.services.iter().map(|s| s.feed.clone()).collect();
    let of_site = Some(Feed { source: 1, item: item("all", "BACKEND") });
    assert_eq!(fed, [of_site.clone(), of_site, Some(Feed { source: 0, item: item("own", "s1") })]);
    assert_eq!(config.sources[1].of_site.as_ref().unwrap().1, item("all", "BACKEND"));
    assert_eq!(config.sources[0].of_site, None);
}

#[test]
fn what_is_wrong_with_a_source_of_a_site_is_refused() {
    let place = "kind = \"haproxy\"\nurl = \"http://127.0.0.1:9/\"\n";
    let refuse = |source: &str, why: &str| {
        let refused = folder(&of_site(source)).load(None).map(drop).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    };
    refuse(
        place,
        "sources[1].source_name: missing, write source_name = \"PROXY/SERVER\", or \"PROXY/BACKEND\"",
    );
    refuse(
        &format!(
            "{place}source_name = \"all/BACKEND\"\n[[sources]]\nname = \"two\"\nsite = \"fra\"\n{place}source_name = \"x/BACKEND\"\n"
        ),
        "sources[2].site: source 'lb' speaks for that site already",
    );
    let nginx = "kind = \"nginx\"\nurl = \"http://127.0.0.1:9/\"\n";
    refuse(nginx, "services[0].monitors: missing, source 'lb' does not say whether the service is up");
    let nobody = format!("{place}source_name = \"all/BACKEND\"\n")
        .replace("\nurl", "\nsource_metrics = { up = 'a' }\nurl");
    refuse(&nobody, "sources[1].source_metrics: source 'lb' is of kind haproxy");
    let elsewhere = of_site(&format!("{place}source_name = \"a/s\"\n"))
        .replace("site = \"fra\"\nkind", "site = \"ams\"\nkind");
    assert!(
        folder(&elsewhere)
            .load(None)
            .map(drop)
            .unwrap_err()
            .to_string()
            .contains("sources[1].site: there is no site 'ams'")
    );
    let without = of_site(&format!("{place}source_name = \"a/s\"\n"))
        .replace("name = \"lb\"\nsite = \"fra\"\n", "name = \"lb\"\n");
    let why = "sources[1].source_name: is of use only with `site`: else each service says what it takes";
    assert!(folder(&without).load(None).map(drop).unwrap_err().to_string().contains(why));
}

/// Sessions are known of all sources but some of Prometheus, bytes and response times of some.
#[test]
fn a_local_method_needs_a_source_that_tells_its_metric() {
    let vserver = |service: &str, kind: &str, method: &str| {
        let text = text(service, &format!("kind = \"{kind}\"\nurl = \"http://127.0.0.1:9/\""));
        let text = text.replace("name = \"www\"", &format!("name = \"www\"\nlocal_method = \"{method}\""));
        folder(&text).load(None).is_ok()
    };
    let row = |service: &str, kind: &str| {
        ["least_connections", "least_bandwidth", "least_response_time", "least_packets", "custom_load"]
            .map(|method| vserver(service, kind, method))
    };
    assert_eq!(row("source_name = \"web/s1\"", "haproxy"), [true, true, true, false, false]);
    assert_eq!(row("source_name = \"web\"", "envoy"), [true, false, false, false, false]);
    assert_eq!(row("", "nginx"), [true, false, false, false, false]);
    assert_eq!(row("source_metrics = { active = 'a' }", "prometheus"), [true, false, false, false, false]);
    assert_eq!(row("source_metrics = { bytes = 'b' }", "prometheus"), [false, true, false, false, false]);
    let timed = "source_metrics = { active = 'a', response_time = 't' }";
    assert_eq!(row(timed, "prometheus"), [true, false, true, false, false]);
    assert_eq!(row("source_metrics = { load = 'l' }", "prometheus"), [false, false, false, false, true]);
}

#[test]
fn nodes_must_agree_on_who_has_which_source() {
    let hash =
        |config: &Config| config.group.must_match.iter().find(|(name, _)| name == "services").unwrap().1;
    let plain = folder(SMALL).load(None).unwrap();
    let fed = load("source_name = \"web/s1\"", "kind = \"haproxy\"\nsocket = \"/s\"");
    let elsewhere = load("source_name = \"web/s1\"", "kind = \"haproxy\"\nsocket = \"/t\"");
    assert_ne!(hash(&plain), hash(&fed));
    assert_eq!(hash(&fed), hash(&elsewhere), "where a site's nodes look is of no concern to the others");
}
