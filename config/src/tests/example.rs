//! gslb.example.toml is the manual: it can't rot.

use super::folder;
use crate::schema::{ALL, Presence, Schema};
use toml::de::{DeTable, DeValue};

const EXAMPLE: &str = include_str!("../../../gslb.example.toml");

/// The example with every "#key = value" and "#[table]" switched on.
fn uncommented() -> String {
    let setting = |line: &str| {
        let rest = line.strip_prefix('#')?;
        let named = rest
            .split_once(" = ")
            .is_some_and(|(key, _)| key.chars().all(|c| c.is_alphanumeric() || c == '_'));
        if named || rest.starts_with('[') { Some(rest.to_owned()) } else { None }
    };
    EXAMPLE.lines().map(|line| setting(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

/// The table of a schema; of a list its first entry.
fn table<'a>(root: &'a DeTable<'a>, schema: &Schema) -> &'a DeTable<'a> {
    let step = |table: &'a DeTable<'a>, name: &str| match table.get(name).map(|v| v.get_ref()) {
        Some(DeValue::Table(t)) => t,
        Some(DeValue::Array(a)) => a.iter().find_map(|v| v.get_ref().as_table()).unwrap(),
        other => panic!("{name}: {other:?}"),
    };
    schema.name.split('.').filter(|n| !n.is_empty()).fold(root, step)
}

#[test]
fn the_example_is_a_configuration() {
    let config = folder(EXAMPLE).load(None).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(config.this_node().id.to_string(), "fra/1");
    assert_eq!((config.sites.len(), config.services.len(), config.domains.len()), (2, 2, 1));
}

#[test]
fn the_example_shows_every_key() {
    let text = uncommented();
    let root = DeTable::parse(&text).unwrap_or_else(|e| panic!("{e}")).into_inner();
    for schema in ALL {
        let table = table(&root, schema);
        for key in schema.keys {
            assert!(table.contains_key(key.name), "[{}] lacks {}", schema.name, key.name);
        }
        for key in table.keys() {
            assert!(schema.key(key.get_ref()).is_some(), "[{}] has {key:?}", schema.name);
        }
    }
}

#[test]
fn the_example_shows_every_default() {
    let text = uncommented();
    let root = DeTable::parse(&text).unwrap().into_inner();
    for schema in ALL {
        let table = table(&root, schema);
        for key in schema.keys {
            if let Presence::Default(value) = key.presence {
                let shown = format!("{:?}", plain(table.get(key.name).unwrap().get_ref()));
                let default = format!("{:?}", plain(&DeValue::parse(value).unwrap().into_inner()));
                assert_eq!(shown, default, "[{}] {}", schema.name, key.name);
            }
        }
    }
}

/// The value without its places.
fn plain(value: &DeValue<'_>) -> Vec<String> {
    match value {
        DeValue::String(s) => vec![format!("{s:?}")],
        DeValue::Integer(i) => vec![i.to_string()],
        DeValue::Boolean(b) => vec![b.to_string()],
        DeValue::Array(a) => {
            ["[".to_owned()].into_iter().chain(a.iter().flat_map(|v| plain(v.get_ref()))).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_switched_off_setting_is_at_its_default_only_if_it_has_none() {
    // Commented settings are those without default: a commented default would hide that it is one.
    let root = DeTable::parse(EXAMPLE).unwrap().into_inner();
    let as_a_whole = ["dns.tls", "lb_vservers.certificates", "services.source_metrics"];
    for schema in ALL.into_iter().filter(|s| !as_a_whole.contains(&s.name)) {
        let table = table(&root, schema);
        for key in schema.keys {
            if let Presence::Default(_) = key.presence {
                assert!(table.contains_key(key.name), "[{}] {} is commented", schema.name, key.name);
            }
        }
    }
}

/// The same values, from the specification (behaviour 3, 4 and 6).
#[test]
fn the_defaults_are_those_of_the_specification() {
    let c = folder(super::SMALL).load(None).unwrap();
    let s = std::time::Duration::from_secs;
    let p = &c.probe;
    assert_eq!((p.interval, p.timeout, p.retry_order, p.failed_rounds, p.port), (s(5), s(2), s(60), 3, 53));
    assert_eq!(p.order, gslb_types::ProbeKind::DEFAULT_ORDER);
    assert_eq!((p.per_second, p.per_prefix, p.source_v4, p.source_v6), (500, 2, None, None));
    assert_eq!((c.ldns.masks, c.ldns.idle_timeout, c.ldns.private), (Default::default(), s(180), true));
    assert_eq!(c.ldns.cap, 1_000_000);
    assert_eq!(c.group.rtt_tolerance, s(5) / 1000);
    let m = &c.mep;
    assert_eq!(
        (m.keepalive, m.metrics_interval, m.rtt_interval, m.down_delay, m.max_age),
        (s(10), s(1), s(5), s(15), s(60))
    );
    assert_eq!((m.ca.to_str(), m.key.to_str()), (Some("pki/ca.crt"), Some("pki/fra-1.key")));
    assert_eq!((c.dns.udp_payload, c.dns.tcp_idle_timeout), (1232, s(10)));
    assert_eq!(c.admin.listen, Some("127.0.0.1:8053".parse().unwrap()));
    let v = &c.vservers[0];
    assert_eq!((v.method, v.local_method, v.all_down), Default::default());
    assert_eq!((v.backup_method, v.selection_tolerance), (gslb_types::GslbMethod::RoundRobin, s(0)));
    assert_eq!(c.domains[0].ttl, 5);
}
