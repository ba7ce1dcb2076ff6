//! The resolvers and the `dig` that tests of the product use do what those tests take for granted.
#![allow(clippy::expect_used, reason = "helpers of tests fail the test")]

use lab::gslb::{Resolver, Transport, dig, eventually};
use lab::{Kind, Lab, Topology, can_run};
use std::io::ErrorKind;
use std::net::{IpAddr, TcpStream};
use std::time::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A site and an LDNS, 10 ms there and back.
fn pair() -> Lab {
    let pair = Topology::new("resolvers").site("fra").ldns("ldns").link("fra", "ldns", ms(5));
    pair.up().expect("up")
}

fn addresses(lab: &Lab) -> [IpAddr; 2] {
    [lab.v4("ldns").into(), lab.v6("ldns").into()]
}

#[test]
fn a_udp_resolver_answers_with_its_rcode_in_both_families() {
    if !can_run(&["dig"]) {
        return;
    }
    let lab = pair();
    for (rcode, status) in [(0, None), (2, Some("SERVFAIL")), (5, Some("REFUSED"))] {
        let resolver = Resolver::udp(&lab, "ldns", rcode).expect("resolver");
        for address in addresses(&lab) {
            let answer = dig(&lab, "fra", address, ".", "NS", Transport::Udp);
            match status {
                None => assert_eq!(answer.expect("an answer"), [] as [String; 0]),
                Some(status) => assert!(answer.expect_err("no answer").to_string().contains(status)),
            }
        }
        assert_eq!(resolver.served(), 2);
    }
}

#[test]
fn a_tcp_resolver_accepts_and_without_it_nobody_does() {
    if !can_run(&[]) {
        return;
    }
    let lab = pair();
    let connect = |address| {
        let connect = || TcpStream::connect_timeout(&(address, 53).into(), ms(500)).map(|_| ());
        lab.in_namespace("fra", connect).expect("namespace")
    };
    let resolver = Resolver::tcp(&lab, "ldns").expect("resolver");
    for address in addresses(&lab) {
        connect(address).expect("accepted");
    }
    eventually("both connections", ms(5_000), || (resolver.served() == 2).then_some(()));
    drop(resolver);
    for address in addresses(&lab) {
        assert_eq!(connect(address).expect_err("refused").kind(), ErrorKind::ConnectionRefused);
    }
}

#[test]
fn dig_says_that_nobody_answers() {
    if !can_run(&["dig"]) {
        return;
    }
    let lab = pair();
    lab.drop_kinds("ldns", &[Kind::Udp, Kind::Tcp]);
    for transport in [Transport::Udp, Transport::Tcp] {
        let answer = dig(&lab, "fra", lab.v4("ldns").into(), ".", "NS", transport);
        assert_eq!(answer.expect_err("no answer").kind(), ErrorKind::TimedOut);
    }
}

#[test]
#[should_panic(expected = "a miracle: not within 30ms")]
fn waiting_in_vain_says_for_what() {
    eventually("a miracle", ms(30), || None::<()>);
}
