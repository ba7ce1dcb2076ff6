//! Whoever is not who he says he is gets nowhere, and is told apart by name (threat T7, faults I-48, I-52).

use crate::Test;
use crate::misbehaving::write_pem;
use crate::peer::{Ended, Peer, at};
use crate::sites::{
    LDNS, NAME, NODES, PATIENCE, SITES, Settings, config, eventually_says, map, seconds, service,
};
use lab::Lab;
use lab::gslb::{Group, Node, Watch, eventually};
use mep_io::Pem;
use mep_io::pki::{Authority, Validity};
use rcgen::{CertificateParams, KeyPair, SanType};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const TESTS: &[Test] = &[
    ("another_ca_a_wrong_name_an_expired_and_a_self_signed_certificate_are_refused_by_name", refused),
    ("a_stolen_certificate_is_of_no_use_from_another_address", stolen),
    ("nothing_of_the_exchange_is_readable_on_the_way", no_clear_text),
];

fn authority() -> Authority {
    Authority::new(&"lab".parse().expect("a name")).expect("a CA")
}

/// A folder from which an impostor runs, with this CA and certificate in it.
fn impostor(text: &str, id: &str, pem: &Pem) -> Group<'static> {
    let group = Group::prepare("lab", text, &[id]).expect("a folder");
    write(group.folder(), id, pem);
    group
}

fn write(folder: &Path, id: &str, pem: &Pem) {
    let stem = folder.join("pki").join(id.replace('/', "-"));
    fs::write(folder.join("pki/ca.crt"), &pem.ca).expect("written");
    fs::write(stem.with_extension("crt"), &pem.certificate).expect("written");
    fs::write(stem.with_extension("key"), &pem.key).expect("written");
}

/// A certificate that names iad/1 and that nobody but itself vouches for.
fn self_signed() -> Pem {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    let dns = "1.iad.lab.mep.gslb.internal".to_owned().try_into().expect("a name");
    let uri = "spiffe://lab.gslb.internal/site/iad/node/1".to_owned().try_into().expect("a URI");
    params.subject_alt_names = vec![SanType::DnsName(dns), SanType::URI(uri)];
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    Pem { ca: certificate.clone(), certificate, key: key.serialize_pem() }
}

/// One second past every hour the fake clock shows, so that it is expired for everybody else.
fn expired(ours: &Authority) -> Pem {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
    let validity = Validity { from: now - 7200, until: now - 3600 };
    ours.issue_for(&"iad/1".parse().expect("an id"), validity).expect("a certificate")
}

/// A process that stands where iad/1 should.
struct Impostor<'a> {
    what: &'static str,
    /// Who it says it is.
    id: &'static str,
    pem: Pem,
    /// Its configuration.
    text: &'a str,
    environment: &'a [(&'a str, &'a str)],
    /// What the reason must say.
    word: &'static str,
}

fn refused() {
    let Some(faketime) = lab::faketime() else { return };
    let lab = map("impostors").up().expect("up");
    let text = config(&Settings::new());
    let ours = authority();
    let mut group = Group::prepare("lab", &text, &NODES).expect("certificates");
    NODES.iter().for_each(|id| write_pem(&group, &ours, id));
    group.start_nodes(&lab, &[("fra/1", "fra"), ("sin/1", "sin")], &[]).expect("two nodes");
    let fra = group.node("fra/1");
    eventually_says(fra, "sin/1", "up");

    let id = || "iad/1".parse().expect("an id");
    // Knows our CA, so that it dials us; is not known to it.
    let mut foreign = authority().issue(&id()).expect("a certificate");
    foreign.ca.push_str(ours.certificate());
    let mut alone = self_signed();
    alone.ca.push_str(ours.certificate());
    let library = faketime.to_string_lossy().into_owned();
    let an_hour_and_a_half_ago =
        [("LD_PRELOAD", &*library), ("FAKETIME_DONT_FAKE_MONOTONIC", "1"), ("FAKETIME", "-90m")];
    let other_text = text.replace("\"iad/1\"", "\"iad/9\"");
    let wrong_name = ours.issue(&"iad/9".parse().expect("an id")).expect("a certificate");
    let case = |what, id, pem, word| Impostor { what, id, pem, text: &text, environment: &[], word };
    let cases = [
        case("another CA", "iad/1", foreign, "unknown CA"),
        case("self-signed", "iad/1", alone, "unknown CA"),
        Impostor {
            environment: &an_hour_and_a_half_ago,
            ..case("expired", "iad/1", expired(&ours), "expired")
        },
        Impostor { text: &other_text, ..case("our CA, wrong name", "iad/9", wrong_name, "iad/9") },
    ];
    for Impostor { what, id, pem, text, environment, word } in cases {
        let group = impostor(text, id, &pem);
        let folder = group.folder().join("gslb.toml");
        let before = strangers(fra);
        let node = Node::start_with(&lab, "iad", id, &folder, environment).expect("a process");
        let said = eventually(&format!("{what}: fra/1 says why"), PATIENCE, || {
            let all = said_by(fra);
            all.contains(word).then_some(all)
        });
        let refused = eventually(&format!("{what}: it is counted"), PATIENCE, || {
            let counted = strangers(fra);
            (counted > before || fra.peer("iad/1")["refusals"].as_u64() > Some(0)).then_some(counted - before)
        });
        println!("T7: {what}: {said} ({refused} turned away)");
        assert_ne!(fra.peer("iad/1")["state"], "up");
        assert_eq!(fra.peer("iad/1")["sessions"], 0);
        assert_eq!(fra.peer("sin/1")["state"], "up");
        drop(node);
    }

    // A good certificate of one node, and a hello in the name of another.
    let pem = ours.issue(&id()).expect("a certificate");
    let address = SocketAddr::new(lab.v4("fra").into(), 4353);
    let ended = at(&lab, "iad", async || {
        let mut peer = Peer::start(&pem, "iad/1");
        let mut hello = peer.hello();
        hello.site = "sin".to_owned();
        let ended = match peer.session("fra/1", address, hello).await {
            Err(ended) => ended,
            // Hellos pass each other: ours may be refused after the other's has come.
            Ok(mut session) => loop {
                if let Err(ended) = peer.hear(&mut session).await {
                    break ended;
                }
            },
        };
        let (Ended::DialFailed(reason) | Ended::Closed(reason)) = ended;
        reason
    });
    let status = eventually("fra/1 says why", PATIENCE, || {
        let status = fra.peer("iad/1");
        status["last_attempt"].as_str().is_some_and(|why| why.contains("names sin/1")).then_some(status)
    });
    println!("T7: iad/1 says it is sin/1: told {ended:?}; fra/1 says {}", status["last_attempt"]);
    assert_eq!((&status["sessions"], &fra.peer("sin/1")["downs"]), (&0.into(), &0.into()));
    assert_eq!(group.nodes().len() + 1, SITES.len());
}

/// The real thing stands all along; the thief sits where iad's node would.
fn stolen() {
    let lab = map("stolen").up().expect("up");
    let settings = Settings { node: "addresses = [\"198.18.{n}.0/24\"]", ..Settings::new() };
    let text = config(&settings);
    let ours = authority();
    let mut group = Group::prepare("lab", &text, &NODES).expect("certificates");
    NODES.iter().for_each(|id| write_pem(&group, &ours, id));
    group.start_nodes(&lab, &[("fra/1", "fra"), ("sin/1", "sin")], &[]).expect("two nodes");
    let fra = group.node("fra/1");
    eventually_says(fra, "sin/1", "up");
    let pem = ours.issue(&"sin/1".parse().expect("an id")).expect("a certificate");
    let thief = impostor(&text, "sin/1", &pem);
    let folder = thief.folder().join("gslb.toml");
    let _node = Node::start(&lab, "iad", "sin/1", &folder).expect("a process");
    let said = eventually("fra/1 says why", PATIENCE, || {
        let peer = fra.peer("sin/1");
        let answer = fra.get("/v1/peers").and_then(|answer| answer.json()).unwrap_or_default();
        let texts = [&peer["last_attempt"], &peer["reason"], &answer["strangers"]["last_reason"]];
        texts
            .iter()
            .filter_map(|text| text.as_str())
            .find(|text| text.contains("198.18.2.1"))
            .map(str::to_owned)
    });
    std::thread::sleep(seconds(3));
    let peer = fra.peer("sin/1");
    println!(
        "T7: sin/1 from iad's address: {said}; the real one: {} after {} sessions",
        peer["state"], peer["sessions"]
    );
    assert_eq!((&peer["state"], &peer["sessions"], &peer["downs"]), (&"up".into(), &1.into(), &0.into()));
}

/// Connections turned away before anybody could be told apart.
fn strangers(node: &Node<'_>) -> u64 {
    node.metric_sum("gslb_strangers_total") as u64
}

/// All reasons that stand in a node's `/v1/peers` about iad/1 and about strangers.
fn said_by(node: &Node<'_>) -> String {
    let answer = node.get("/v1/peers").and_then(|answer| answer.json()).unwrap_or_default();
    let peer = node.peer("iad/1");
    [&answer["strangers"]["last_reason"], &peer["last_attempt"], &peer["reason"]]
        .iter()
        .filter_map(|text| text.as_str())
        .collect::<Vec<_>>()
        .join("; ")
}

/// What stands in frames: names of services, of settings, and an LDNS as the protocol writes it.
fn secrets(lab: &Lab) -> [Vec<u8>; 4] {
    let mut address = lab.v4("ldns-eu").octets().to_vec();
    address.reverse();
    [b"web-fra".to_vec(), b"web-sin".to_vec(), b"rtt_tolerance".to_vec(), address]
}

fn contains(packets: &[Vec<u8>], text: &[u8]) -> bool {
    packets.iter().any(|packet| packet.windows(text.len()).any(|window| window == text))
}

fn no_clear_text() {
    for transport in ["quic", "grpc"] {
        let lab = map("clear-text").up().expect("up");
        for (from, to) in [("fra", "sin"), ("sin", "fra"), ("ldns-eu", "fra")] {
            lab.tap(from, to);
        }
        let node = if transport == "quic" { "transport = \"quic\"" } else { "transport = \"grpc\"" };
        let settings = Settings { node, ..Settings::new() };
        let group = Group::start(&lab, "lab", &config(&settings), &NODES).expect("three nodes");
        let watch = Watch::start(&lab, &LDNS, &SITES, NAME, seconds(1)).expect("a watch");
        eventually("the table is exchanged", PATIENCE, || {
            (watch.last_of("ldns-eu", "sin") == Some(service(&lab, "fra"))).then_some(())
        });
        assert_eq!(group.node("fra/1").peer("sin/1")["over"], transport);
        let packets = [lab.take_tapped("fra", "sin"), lab.take_tapped("sin", "fra")].concat();
        let octets: usize = packets.iter().map(Vec::len).sum();
        let readable = secrets(&lab).iter().filter(|secret| contains(&packets, secret)).count();
        println!(
            "T7: {transport}: {} packets, {octets} octets between fra and sin, {readable} of 4 secrets in them",
            packets.len()
        );
        assert!(packets.len() > 20 && readable == 0);
        // The capture works: queries are not encrypted.
        assert!(contains(&lab.take_tapped("ldns-eu", "fra"), b"\x03www\x04gslb\x04test"));
    }
}
