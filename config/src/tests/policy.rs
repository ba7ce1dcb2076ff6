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
