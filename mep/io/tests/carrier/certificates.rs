//! Who may talk to whom, what both ends say about it, and certificates that change while a node runs (faults I-48, T7).

use crate::stranger;
use crate::support::{Node, Pair, authority, group, id, identity, join, loopback, over_both};
use mep_core::carrier::{CarrierEvent, Over};
use mep_io::pki::{Authority, Validity};
use mep_io::{Carrier, Identity, IdentityError, Limits, PeerAddresses, Pem, Settings};

over_both! {
    a_node_of_another_ca_is_not_trusted_by_the_dialler,
    a_dialler_of_another_ca_is_refused_and_told_why,
    an_expired_dialler_is_refused,
    an_expired_listener_is_not_trusted,
    a_node_under_another_ones_address_is_not_taken_for_it,
    names_that_differ_in_an_underscore_only_are_told_apart,
    a_node_of_another_group_is_refused_even_if_its_ca_is_trusted,
    a_stranger_without_a_certificate_is_refused,
    a_new_certificate_is_used_from_the_next_connection_on_and_the_old_session_lives,
    a_group_moves_to_a_new_ca_without_a_break,
    a_bad_pair_is_refused_and_the_old_one_stays,
    a_self_signed_dialler_is_refused,
    a_dialler_from_elsewhere_than_its_list_says_is_refused,
}

fn long_ago() -> Validity {
    Validity { from: 1_500_000_000, until: 1_600_000_000 }
}

async fn a_node_of_another_ca_is_not_trusted_by_the_dialler(over: Over) {
    let (mut a, mut b) = (Node::start(over, &authority(), "fra/1"), Node::start(over, &authority(), "ams/1"));
    a.dial("ams/1", b.address).await;
    let reason = a.dial_failed().await;
    assert_eq!(reason, "its certificate was refused: unknown CA: not signed by the group's CA");
    let reason = b.refused().await;
    assert!(reason.starts_with("it refused our certificate: "), "{reason}");
    a.assert_quiet();
    b.assert_quiet();
}

async fn a_dialler_of_another_ca_is_refused_and_told_why(over: Over) {
    let (ours, foreign) = (authority(), authority());
    let mut pem = foreign.issue(&id("fra/1")).unwrap();
    pem.ca.push_str(ours.certificate()); // trusts ours; is not trusted by us
    let mut a = Node::start_with(over, identity(&pem, "fra/1"), Limits::default(), 16);
    let mut b = Node::start(over, &ours, "ams/1");
    a.dial("ams/1", b.address).await;
    let reason = a.dial_failed().await;
    assert_eq!(reason, "it refused our certificate: unknown CA: not signed by the group's CA");
    let reason = b.refused().await;
    assert_eq!(reason, "its certificate was refused: unknown CA: not signed by the group's CA");
    a.assert_quiet();
    b.assert_quiet();
}

async fn an_expired_dialler_is_refused(over: Over) {
    let ca = authority();
    let mut b = Node::start(over, &ca, "ams/1");
    let old = ca.issue_for(&id("fra/1"), long_ago()).unwrap();
    stranger::knock(over, ca.certificate(), Some(&old), b.address).await;
    let reason = b.refused().await;
    assert_eq!(reason, "its certificate was refused: certificate expired on 2020-09-13 12:26:40 UTC");
    b.assert_quiet();
}

async fn an_expired_listener_is_not_trusted(over: Over) {
    let ca = authority();
    let old = ca.issue_for(&id("ams/1"), long_ago()).unwrap();
    let server = stranger::server(over, ca.certificate(), &old).await;
    let mut a = Node::start(over, &ca, "fra/1");
    a.dial("ams/1", server.address).await;
    let reason = a.dial_failed().await;
    assert_eq!(reason, "its certificate was refused: certificate expired on 2020-09-13 12:26:40 UTC");
}

async fn a_node_under_another_ones_address_is_not_taken_for_it(over: Over) {
    let ca = authority();
    let (mut a, mut b) = (Node::start(over, &ca, "fra/1"), Node::start(over, &ca, "ams/1"));
    a.dial("syd/1", b.address).await;
    let reason = a.dial_failed().await;
    let why = "it is for ams/1, not syd/1: ams/1 listens where the configuration has the address of syd/1";
    assert_eq!(reason, format!("its certificate was refused: {why}"));
    let refused = match over {
        Over::Quic => why,
        Over::Grpc => "not valid for the node it dialled, or not for this purpose", // all that TLS alone can say
    };
    assert_eq!(b.refused().await, format!("it refused our certificate: {refused}"));
    a.assert_quiet();
    b.assert_quiet();
}

async fn names_that_differ_in_an_underscore_only_are_told_apart(over: Over) {
    let ca = authority();
    let (mut a, mut b) = (Node::start(over, &ca, "fra/1"), Node::start(over, &ca, "a_b/1"));
    a.dial("a-b/1", b.address).await;
    assert_eq!(a.dial_failed().await, "certificate not valid for a-b/1: it names a_b/1");
    let reason = b.refused().await;
    assert!(reason.ends_with("it refused: certificate not valid for a-b/1: it names a_b/1"), "{reason}");
    a.dial("a_b/1", b.address).await;
    assert_eq!(a.connected().await.1, id("a_b/1"));
}

async fn a_node_of_another_group_is_refused_even_if_its_ca_is_trusted(over: Over) {
    let (ours, other) = (authority(), Authority::new(&"other".parse().unwrap()).unwrap());
    let mut pem = ours.issue(&id("ams/1")).unwrap();
    pem.ca.push_str(other.certificate());
    let mut b = Node::start_with(over, identity(&pem, "ams/1"), Limits::default(), 16);
    let theirs = other.issue(&id("fra/1")).unwrap();
    let told = stranger::knock(over, ours.certificate(), Some(&theirs), b.address).await;
    let reason = "the certificate is for group 'other', not 'test'";
    assert!(told.contains(reason), "{told}");
    assert_eq!(b.refused().await, reason);
}

async fn a_stranger_without_a_certificate_is_refused(over: Over) {
    let ca = authority();
    let mut b = Node::start(over, &ca, "ams/1");
    stranger::knock(over, ca.certificate(), None, b.address).await;
    assert_eq!(b.refused().await, "its certificate was refused: none was shown");
    b.assert_quiet();
}

async fn a_new_certificate_is_used_from_the_next_connection_on_and_the_old_session_lives(over: Over) {
    let ca = authority();
    let Pair { mut a, mut b, at_a, .. } =
        join(Node::start(over, &ca, "fra/1"), Node::start(over, &ca, "ams/1")).await;
    let before = b.identity.subject();
    b.identity.reload_pem(&ca.issue_for(&id("ams/1"), Validity::days(30)).unwrap()).unwrap();
    let after = b.identity.subject();
    assert!(before.serial != after.serial && before.expires > after.expires);
    a.send(at_a, "still here").await;
    assert_eq!(b.received().await, "still here");
    // As dialled, and as dialler.
    a.dial("ams/1", b.address).await;
    b.dial("fra/1", a.address).await;
    for _ in 0..2 {
        let CarrierEvent::Connected { certificate_expires, .. } = a.event().await else {
            panic!("not connected")
        };
        assert_eq!(certificate_expires, after.expires);
    }
    a.send(at_a, "and here").await;
    let frame = loop {
        if let CarrierEvent::Received { frame, .. } = b.event().await {
            break frame;
        }
    };
    assert_eq!(frame, "and here");
}

async fn a_group_moves_to_a_new_ca_without_a_break(over: Over) {
    let (old, new) = (authority(), authority());
    let both = format!("{}{}", old.certificate(), new.certificate());
    let (mut a, mut b) = (Node::start(over, &old, "fra/1"), Node::start(over, &old, "ams/1"));
    let pem =
        |ca: &Authority, me: &str, trusted: &str| Pem { ca: trusted.into(), ..ca.issue(&id(me)).unwrap() };
    let steps: [(&Authority, &Authority, &str); 4] =
        [(&old, &old, &both), (&new, &old, &both), (&new, &new, &both), (&new, &new, new.certificate())];
    for (of_a, of_b, trusted) in steps {
        a.identity.reload_pem(&pem(of_a, "fra/1", trusted)).unwrap();
        b.identity.reload_pem(&pem(of_b, "ams/1", trusted)).unwrap();
        a.dial("ams/1", b.address).await;
        a.connected().await;
        b.connected().await;
    }
    let mut late = Node::start(over, &old, "syd/1");
    late.dial("ams/1", b.address).await;
    assert!(late.dial_failed().await.contains("unknown CA"), "the old CA no longer counts");
}

async fn a_bad_pair_is_refused_and_the_old_one_stays(over: Over) {
    let ca = authority();
    let (mut a, b) = (Node::start(over, &ca, "fra/1"), Node::start(over, &ca, "ams/1"));
    let before = b.identity.subject();
    let one = ca.issue(&id("ams/1")).unwrap();
    let two = ca.issue(&id("ams/1")).unwrap();
    let error = b.identity.reload_pem(&Pem { key: two.key, ..one }).unwrap_err();
    assert!(matches!(error, IdentityError::Mismatch { .. }), "{error}");
    assert_eq!(b.identity.subject(), before);
    a.dial("ams/1", b.address).await;
    assert_eq!(a.connected().await.1, id("ams/1"));
}

/// Right names, own signature.
fn self_signed(me: &str) -> Pem {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    let (site, node) = me.split_once('/').unwrap();
    let uri = format!("spiffe://test.gslb.internal/site/{site}/node/{node}");
    params.subject_alt_names = vec![rcgen::SanType::URI(uri.try_into().unwrap())];
    let certificate = params.self_signed(&key).unwrap().pem();
    Pem { ca: String::new(), certificate, key: key.serialize_pem() }
}

async fn a_self_signed_dialler_is_refused(over: Over) {
    let ca = authority();
    let mut b = Node::start(over, &ca, "ams/1");
    stranger::knock(over, ca.certificate(), Some(&self_signed("fra/1")), b.address).await;
    let reason = b.refused().await;
    assert_eq!(reason, "its certificate was refused: unknown CA: not signed by the group's CA");
    b.assert_quiet();
}

/// Faults I-52: the certificate is genuine, and stolen perhaps.
async fn a_dialler_from_elsewhere_than_its_list_says_is_refused(over: Over) {
    let ca = authority();
    let listed = |node: &str, allowed: &str| PeerAddresses {
        node: id(node),
        address: "127.0.0.1".parse().unwrap(),
        allowed: vec![allowed.parse().unwrap()],
    };
    let peers = [listed("fra/1", "127.0.0.0/30"), listed("syd/1", "192.0.2.0/24")];
    let own = identity(&ca.issue(&id("ams/1")).unwrap(), "ams/1");
    let settings = Settings { listen: loopback(), identity: own.clone(), limits: Limits::default() };
    let carrier = Carrier::bind(settings).unwrap().with_peers(&peers);
    let mut b = Node::run(over, own, carrier, 16);
    let at = |me: &str, listen: &str| {
        let identity = identity(&ca.issue(&id(me)).unwrap(), me);
        Node::start_at(over, listen.parse().unwrap(), identity, Limits::default(), 16)
    };
    let (mut near, mut far, mut other) =
        (at("fra/1", "127.0.0.3:0"), at("fra/1", "127.0.0.4:0"), at("syd/1", "127.0.0.3:0"));

    near.dial("ams/1", b.address).await;
    near.connected().await;
    assert_eq!(b.connected().await.1, id("fra/1"));

    for (node, why) in [
        (&mut far, "fra/1 may not come from 127.0.0.4: its addresses are 127.0.0.0/30"),
        (&mut other, "syd/1 may not come from 127.0.0.3: its addresses are 192.0.2.0/24"),
    ] {
        node.dial("ams/1", b.address).await;
        assert_eq!(b.refused().await, why);
        assert_eq!(node.dial_failed().await, format!("it refused: {why}"));
        // Where this node dials to is configured, and needs no list.
        b.dial(&node.me.to_string(), node.address).await;
        b.connected().await;
        node.connected().await;
    }
}

#[test]
fn an_identity_says_what_is_wrong_with_it() {
    let ca = authority();
    let good = ca.issue(&id("ams/1")).unwrap();
    let wrong = |pem: &Pem| Identity::from_pem(pem, &group(), &id("ams/1")).unwrap_err();
    let old = ca.issue_for(&id("ams/1"), long_ago()).unwrap();
    assert_eq!(
        wrong(&old).to_string(),
        "the certificate in memory: the certificate expired on 2020-09-13 12:26:40 UTC"
    );
    let early = ca.issue_for(&id("ams/1"), Validity { from: 4_000_000_000, until: 4_100_000_000 }).unwrap();
    assert!(matches!(wrong(&early), IdentityError::NotYetValid(..)));
    let other = ca.issue(&id("fra/1")).unwrap();
    assert_eq!(
        wrong(&other).to_string(),
        "the certificate in memory: the certificate is for node fra/1, but this node is ams/1"
    );
    let foreign = Pem { ca: authority().certificate().into(), ..good.clone() };
    assert!(matches!(wrong(&foreign), IdentityError::NotOurs { .. }), "{}", wrong(&foreign));
    let no_key = Pem { key: good.certificate.clone(), ..good.clone() };
    assert_eq!(wrong(&no_key).to_string(), "the key in memory: holds no private key");
    let text = Pem { certificate: "hello".into(), ..good.clone() };
    assert_eq!(wrong(&text).to_string(), "the certificate in memory: not PEM: no -----BEGIN line");
    let cut = Pem { certificate: good.certificate.chars().take(200).collect(), ..good.clone() };
    assert!(wrong(&cut).to_string().starts_with("the certificate in memory: damaged PEM"), "{}", wrong(&cut));
    let as_node = Pem { certificate: good.ca.clone(), ..good.clone() };
    assert!(matches!(wrong(&as_node), IdentityError::Subject(..)));
    assert!(!format!("{good:?}").contains("PRIVATE KEY"), "a key is not printed by accident");
}
