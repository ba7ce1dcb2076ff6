//! GSLB virtual servers: what they may be told, and what is refused (behaviour 6).

use super::{and, folder, with};
use gslb_types::{GslbMethod, LbMethod};

/// The small configuration with more keys in its virtual server.
fn vserver(keys: &str) -> String {
    with("services = [\"web\"]", &format!("services = [\"web\"]\n{keys}"))
}

#[track_caller]
fn refused(text: &str, errors: &[&str]) {
    assert_eq!(folder(text).errors(), errors);
}

#[test]
fn sites_can_be_compared_by_what_monitors_measure_without_any_traffic() {
    let config = folder(&vserver("method = \"least_response_time\"")).load(None).unwrap();
    let www = &config.vservers[0];
    assert_eq!(
        (www.method, www.metric),
        (GslbMethod::LeastResponseTime, Some(LbMethod::LeastResponseTimeMonitors))
    );
}

#[test]
fn a_source_that_tells_response_times_of_all_services_outranks_their_monitors() {
    let fed = with("port = 80", "port = 80\nsource = \"h\"\nsource_name = \"web/web-1\"");
    let fed = fed.replace("services = [\"web\"]", "services = [\"web\"]\nmethod = \"least_response_time\"")
        + "[[sources]]\nname = \"h\"\nkind = \"haproxy\"\nurl = \"http://127.0.0.1:8404/;csv\"\n";
    let metric = |text: &str| folder(text).load(None).unwrap_or_else(|e| panic!("{e}")).vservers[0].metric;
    assert_eq!(metric(&fed), Some(LbMethod::LeastResponseTime));
    let other = "[[services]]\nname = \"b\"\nsite = \"fra\"\naddress = \"198.18.1.81\"\nport = 80\n";
    let both = fed.replace("services = [\"web\"]", "services = [\"web\", \"b\"]") + other;
    assert_eq!(metric(&both), Some(LbMethod::LeastResponseTimeMonitors), "one of them has no source");
}

#[test]
fn a_site_method_that_nothing_feeds_is_refused() {
    for word in ["least_connections", "least_bandwidth", "least_packets"] {
        let says = format!(
            "28:10: vservers[0].method: '{word}' needs traffic that passes through the nodes: of services that stand for an `lb_vserver`, \
             or have a `source` that tells it; 'rtt', 'least_response_time', 'round_robin' and 'source_ip_hash' need none"
        );
        refused(&vserver(&format!("method = \"{word}\"")), &[&says]);
    }
}

#[test]
fn what_must_be_measured_is_no_backup_method() {
    for word in ["rtt", "least_response_time", "least_connections"] {
        refused(
            &vserver(&format!("backup_method = \"{word}\"")),
            &[&format!(
                "28:17: vservers[0].backup_method: can't be '{word}': it answers while nothing is measured"
            )],
        );
    }
    assert!(folder(&and("")).load(None).is_ok());
}

/// The small configuration with backups from its virtual server `www` to these, and from each to the one named beside it.
fn chained(www: &str, others: &[(&str, Option<&str>)]) -> String {
    let backup = |name: &str| format!("backup_vserver = \"{name}\"\n");
    let other = |(name, to): &(&str, Option<&str>)| {
        format!(
            "[[vservers]]\nname = \"{name}\"\nservices = [\"web\"]\n{}",
            to.map(backup).unwrap_or_default()
        )
    };
    vserver(&backup(www)) + &others.iter().map(other).collect::<String>()
}

#[test]
fn a_chain_of_backups_is_followed_in_either_order_of_the_file() {
    let chain = chained("b", &[("c", None), ("b", Some("c"))]);
    let vservers = folder(&chain).load(None).unwrap_or_else(|e| panic!("{e}")).vservers;
    let backups: Vec<_> = vservers.iter().map(|v| (v.name.as_str(), v.backup)).collect();
    assert_eq!(backups, [("www", Some(2)), ("c", None), ("b", Some(1))]);
}

#[test]
fn a_chain_that_comes_back_is_refused_with_its_place_and_its_way() {
    refused(&chained("www", &[]), &["28:18: vservers[0].backup_vserver: leads back here: www -> www"]);
    let text = chained("b", &[("b", Some("c")), ("c", Some("b"))]);
    let errors = folder(&text).errors();
    assert_eq!(errors.len(), 1, "a loop is one error, and who leads into it is none: {errors:?}");
    assert!(errors[0].ends_with("vservers[2].backup_vserver: leads back here: c -> b -> c"), "{errors:?}");
    let unknown = folder(&chained("nope", &[("b", None)])).errors();
    assert!(unknown[0].contains("there is no virtual server 'nope'"), "{unknown:?}");
}

#[test]
fn who_asks_is_measured_if_any_of_a_chain_chooses_by_rtt() {
    let text = chained("b", &[("b", None)]).replacen(
        "backup_vserver",
        "method = \"round_robin\"\nbackup_vserver",
        1,
    );
    let vservers = folder(&text).load(None).unwrap_or_else(|e| panic!("{e}")).vservers;
    assert_eq!(vservers.iter().map(|v| v.wants_rtt).collect::<Vec<_>>(), [true, true]);
    let alone = folder(&vserver("method = \"round_robin\"")).load(None).unwrap();
    assert!(!alone.vservers[0].wants_rtt);
}

#[test]
fn orders_are_noticed_only_where_they_differ() {
    let ordered = |order: &str| {
        let other = "[[services]]\nname = \"b\"\nsite = \"fra\"\naddress = \"198.18.1.81\"\nport = 80\n";
        let services = format!("services = [\"web\", {{ service = \"b\", order = {order} }}]");
        folder(&(with("services = [\"web\"]", &services) + other))
            .load(None)
            .map(|c| c.vservers[0].has_orders)
    };
    assert_eq!((ordered("1").unwrap(), ordered("2").unwrap()), (false, true));
    assert!(ordered("0").is_err() && ordered("65536").is_err());
}

#[test]
fn persistence_has_its_defaults_and_an_id_made_of_the_name() {
    let of = |keys: &str| {
        folder(&vserver(keys)).load(None).unwrap_or_else(|e| panic!("{e}")).vservers[0].persistence
    };
    assert_eq!(of(""), None);
    let plain = of("persistence = \"source_ip\"").unwrap();
    assert_eq!((plain.mask_v4, plain.mask_v6, plain.timeout.as_secs()), (32, 128, 120));
    assert_eq!(of("persistence = \"source_ip\""), Some(plain));
    let set = "persistence = \"source_ip\"\npersistence_id = 7\npersistence_timeout = \"10m\"\npersistence_mask_v4 = 24\npersistence_mask_v6 = 56";
    let set = of(set).unwrap();
    assert_eq!((set.id, set.mask_v4, set.mask_v6, set.timeout.as_secs()), (7, 24, 56, 600));
    refused(
        &vserver("persistence_id = 7"),
        &["28:18: vservers[0].persistence_id: is used only with persistence = \"source_ip\""],
    );
}

#[test]
fn virtual_servers_that_share_sessions_mean_the_same_clients_by_them() {
    let other = |keys: &str| {
        let other = format!(
            "[[vservers]]\nname = \"b\"\nservices = [\"web\"]\npersistence = \"source_ip\"\npersistence_id = 7\n{keys}\n"
        );
        folder(&(vserver("persistence = \"source_ip\"\npersistence_id = 7") + &other)).errors()
    };
    assert_eq!(other(""), Vec::<String>::new());
    let error = other("persistence_mask_v4 = 24");
    assert!(
        error[0].ends_with(
            "vservers[1].persistence: shares id 7 with 'www', so masks and timeout must be the same"
        ),
        "{error:?}"
    );
}

#[test]
fn a_domain_may_be_a_wildcard() {
    let config = folder(&super::SMALL.replace("www.gslb.test", "*.app.gslb.test")).load(None);
    assert_eq!(config.unwrap_or_else(|e| panic!("{e}")).domains[0].name.to_ascii(), "*.app.gslb.test.");
}

#[test]
fn when_clients_are_sent_on_and_come_back_is_said_once() {
    let with_backup = |keys: &str| {
        let other = "[[vservers]]\nname = \"b\"\nservices = [\"web\"]\n";
        folder(&(vserver(&format!("backup_vserver = \"b\"\n{keys}")) + other))
    };
    let of = |keys: &str| with_backup(keys).load(None).unwrap_or_else(|e| panic!("{e}")).vservers[0].clone();
    let health = of("spillover_health = 50\nspillover_return = 80").spillover.unwrap();
    assert_eq!((health.health, health.connections, health.back_at), (Some(50), None, 80));
    assert_eq!(of("").spillover, None);
    assert_eq!(of("failback = \"manual\"").failback, crate::Failback::Manual);
    assert_eq!(
        of("failback_delay = \"5m\"").failback,
        crate::Failback::After(std::time::Duration::from_secs(300))
    );
    assert_eq!(of("").failback, crate::Failback::AtOnce);
    let both = with_backup("failback = \"manual\"\nfailback_delay = \"5m\"").errors();
    assert!(both[0].ends_with("nothing comes back by itself with failback = \"manual\""), "{both:?}");
    let untold = with_backup("spillover_connections = 5").errors();
    assert!(
        untold[0].contains("spillover_connections: needs services that stand for an `lb_vserver`"),
        "{untold:?}"
    );
    let alone = folder(&vserver("spillover_health = 50")).errors();
    assert!(alone[0].ends_with("needs a `backup_vserver` to send clients on to"), "{alone:?}");
    let limit = folder(&with("port = 80", "port = 80\nmax_clients = 5")).errors();
    assert!(limit[0].contains("services[0].max_clients: needs services that stand"), "{limit:?}");
}
