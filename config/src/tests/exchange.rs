//! What is set about sites, nodes and services for the metric exchange (behaviour 4).

use super::faults::refused;
use super::{SMALL, and, folder, with};
use gslb_types::{Transport, TriggerMonitor};

const SECOND: &str = "[[nodes]]\nname = \"fra/2\"\nmep = \"198.18.1.2:4353\"\n";

fn site(more: &str) -> String {
    with("name = \"fra\"", &format!("name = \"fra\"\n{more}"))
}

fn node(more: &str) -> String {
    with(":4353\"", &format!(":4353\"\n{more}"))
}

#[test]
fn each_trigger_has_its_word() {
    for (word, trigger) in [
        ("always", TriggerMonitor::Always),
        ("mep_down", TriggerMonitor::MepDown),
        ("mep_down_or_service_down", TriggerMonitor::MepDownOrServiceDown),
    ] {
        let config = folder(&site(&format!("trigger_monitor = \"{word}\""))).load(None).unwrap();
        assert_eq!(config.sites[0].trigger_monitor, trigger);
    }
    assert_eq!(folder(SMALL).load(None).unwrap().sites[0].trigger_monitor, TriggerMonitor::Always);
    refused(
        &site("trigger_monitor = \"mepdown\""),
        &["6:19: sites[0].trigger_monitor: 'mepdown' is not known here, did you mean 'mep_down'?"],
    );
    refused(
        &site("trigger_monitor = true"),
        &["6:19: sites[0].trigger_monitor: expected a string, found a boolean"],
    );
}

#[test]
fn remote_monitors_are_monitors_each_once() {
    let web = "[[monitors]]\nname = \"web\"\nkind = \"tcp\"\n";
    let text = with("port = 80", "port = 80\nremote_monitors = [\"web\"]") + web;
    let config = folder(&text).load(None).unwrap();
    let watch = crate::Watch { monitor: 0, weight: gslb_types::Weight::ONE };
    assert_eq!(config.services[0].monitors, []);
    assert_eq!(config.services[0].remote_monitors, [watch]);
    refused(
        &(with("port = 80", "port = 80\nremote_monitors = [\"web\", \"wab\", \"web\"]") + web),
        &[
            "24:27: services[0].remote_monitors[1]: there is no monitor 'wab', did you mean 'web'?",
            "24:34: services[0].remote_monitors[2]: is given twice",
        ],
    );
    refused(
        &with("port = 80", "port = 80\nremote_monitor = []"),
        &["24:1: services[0].remote_monitor: unknown key, did you mean 'remote_monitors'?"],
    );
}

/// Both ends of a pair come to the same.
#[test]
fn of_two_wishes_for_a_transport_the_stricter_one_counts() {
    use Transport::{Auto, Grpc, Quic};
    for (one, other, both) in [
        (Auto, Auto, Auto),
        (Auto, Quic, Quic),
        (Auto, Grpc, Grpc),
        (Quic, Quic, Quic),
        (Quic, Grpc, Grpc),
        (Grpc, Grpc, Grpc),
    ] {
        let text = |a, b| node(&format!("transport = \"{a}\"")) + SECOND + &format!("transport = \"{b}\"\n");
        for text in [text(one, other), text(other, one)] {
            let config = folder(&text).load(Some("fra/1")).unwrap();
            assert_eq!(config.transport(&config.nodes[1]), both, "{one} {other}");
        }
    }
    refused(
        &node("transport = \"tcp\""),
        &["10:13: nodes[0].transport: 'tcp' is not known here, there are 'auto', 'quic' and 'grpc'"],
    );
}

#[test]
fn the_addresses_of_a_node_are_prefixes_and_hold_the_one_it_is_dialled_at() {
    let config = folder(&node("addresses = [\"198.18.0.0/16\", \"2001:db8::1\"]")).load(None).unwrap();
    let addresses: Vec<String> = config.nodes[0].addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["198.18.0.0/16", "2001:db8::1/128"]);
    assert!(folder(SMALL).load(None).unwrap().nodes[0].addresses.is_empty());
    refused(
        &node("addresses = [\"198.18.1.0/16\"]"),
        &["10:14: nodes[0].addresses[0]: '198.18.1.0/16' has bits beyond its length, write '198.18.0.0/16'"],
    );
    refused(
        &node("addresses = [\"192.0.2.0/24\"]"),
        &["10:13: nodes[0].addresses: 198.18.1.1, where peers dial the node, lies in none of them"],
    );
    refused(
        &node("addresses = []"),
        &[
            "10:13: nodes[0].addresses: must hold one prefix at least: with none, all connections of the node were refused",
        ],
    );
}

/// gRPC listens at the same address as QUIC, on TCP.
#[test]
fn the_exchange_takes_no_tcp_listener_s_address() {
    refused(
        &and("[mep]\nlisten = \"127.0.0.1:8053\"\n"),
        &["33:10: mep.listen: 127.0.0.1:8053 is taken: the API listens at 127.0.0.1:8053 (admin.listen)"],
    );
    refused(
        &and("[mep]\nlisten = \"0.0.0.0:853\"\n[dns.tls]\ncertificate = \"c\"\nkey = \"k\"\n"),
        &["33:10: mep.listen: 0.0.0.0:853 is taken: DNS listens at 0.0.0.0:853 (dns.listen)"],
    );
}
