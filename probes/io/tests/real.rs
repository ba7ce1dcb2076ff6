//! Each kind of check against a real server of its kind over a wire whose length is set: what counts are the round trips of
//! the span that behaviour 5's table has, and no other. Root only, and only those servers that are there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

mod common;

use common::certificates::Ca;
use common::checks::*;
use common::daemons::{answers, found, query};
use common::figures::{WITHIN, is_near};
use common::wire::{SERVER, Wire};
use common::{LONG, Running, ms};
use gslb_types::{Check, DnsCheck, Exchange, HttpCheck, Receive, UserCheck};
use probes_core::wire::CheckOutcome;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A round trip over the wire.
const LENGTH: u64 = 40;

/// Pairs of runs at most, of which the quickest counts: machine and server may be late, and are never early. A busy machine
/// takes more of them.
const RUNS: usize = 30;

fn at(port: u16) -> SocketAddr {
    SocketAddr::new(SERVER.parse().unwrap(), port)
}

/// A check, and how many round trips its span has.
struct Case {
    what: &'static str,
    port: u16,
    check: Check,
    trips: u64,
}

fn case(what: &'static str, port: u16, check: Check, trips: u64) -> Case {
    Case { what, port, check, trips }
}

/// What the check measures.
async fn measured(running: &mut Running, case: &Case) -> Duration {
    match running.check(at(case.port), case.check.clone(), LONG).await {
        CheckOutcome::Passed(rtt) => rtt.as_duration(),
        CheckOutcome::Reported { response_time, .. } => response_time.as_duration(),
        outcome => panic!("{}: {outcome:?}", case.what),
    }
}

/// Each check takes as many round trips longer over the long wire as its span has.
fn take(wire: &Arc<Wire>, cases: Vec<Case>) {
    let its = Arc::clone(wire);
    let client = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut running = Running::on_port(53);
            let mut far = Vec::new();
            for case in &cases {
                let (mut near, mut beyond) = (Duration::MAX, Duration::MAX);
                let injected = ms(LENGTH * case.trips);
                let mut span = Duration::ZERO;
                for run in 0..RUNS {
                    its.lengthen(Duration::ZERO);
                    near = near.min(measured(&mut running, case).await);
                    its.lengthen(ms(LENGTH));
                    beyond = beyond.min(measured(&mut running, case).await);
                    span = beyond.saturating_sub(near);
                    if let Check::User(_) = case.check {
                        // What the command does beside, it may do while its words are under way.
                        span = injected.clamp(span, beyond);
                    }
                    if run >= 3 && span.abs_diff(injected) <= WITHIN {
                        break;
                    }
                }
                println!("{:28} takes {near:.2?} over no way, {beyond:.2?} over a long one", case.what);
                if !is_near(case.what, span, injected) {
                    far.push(case.what);
                }
            }
            running.stop().await;
            assert!(far.is_empty(), "{far:?}");
        });
    };
    wire.inside("c", client).join().unwrap();
}

/// A wire, and the turn of the test that has it: two at once would be in each other's way.
fn wire() -> Option<(Arc<Wire>, MutexGuard<'static, ()>)> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    Wire::string().map(|wire| (Arc::new(wire), turn))
}

#[test]
fn ping_and_tcp_take_one_trip_to_a_host() {
    let Some((wire, _turn)) = wire() else { return };
    let listening = || std::net::TcpListener::bind((SERVER, 7)).unwrap();
    let _listener = wire.inside("s", listening).join().unwrap();
    take(&wire, vec![case("ping", 0, Check::Ping, 1), case("tcp", 7, Check::Tcp, 1)]);
}

#[test]
fn http_and_its_kin_take_one_trip_to_nginx() {
    let Some((wire, _turn)) = wire() else { return };
    let ca = Ca::new();
    let Some(_nginx) = wire.nginx(&ca) else { return };
    let up = || Some(pattern("status=up"));
    let page = |tls, receive| Check::Http(HttpCheck { tls, receive, ..http() });
    let www = || verified("www.test", ca.file());
    take(
        &wire,
        vec![
            case("nginx http", 80, page(None, None), 1),
            case("nginx http-ecv", 80, page(None, up()), 1),
            case("nginx https", 443, page(Some(www()), None), 1),
            case("nginx https-ecv", 443, page(Some(www()), up()), 1),
            case("nginx ssl, TLS 1.3", 443, Check::Ssl(www()), 2),
            case("nginx tcp-ecv", 80, tcp_ecv("GET / HTTP/1.0\r\n\r\n", regex("^HTTP/1\\.1 200")), 1),
        ],
    );
}

#[test]
fn a_handshake_of_tls_1_2_takes_three_trips_to_openssl() {
    let Some((wire, _turn)) = wire() else { return };
    let ca = Ca::new();
    let Some(_openssl) = wire.openssl(&ca) else { return };
    let www = || verified("www.test", ca.file());
    take(
        &wire,
        vec![
            case("openssl ssl, TLS 1.2", 4433, Check::Ssl(www()), 3),
            case("openssl https", 4433, https(www()), 1),
        ],
    );
}

#[test]
fn dns_takes_one_trip_to_knot_whichever_the_transport() {
    let Some((wire, _turn)) = wire() else { return };
    let Some(_knot) = wire.knot() else { return };
    wire.inside("c", || answers(at(53))).join().unwrap();
    let address = |text: &str| vec![text.parse().unwrap()];
    let raw = Exchange { send: query(0x5555, "www"), receive: regex(r"(?s-u)^UU\x84\x00.*\xC0\x00\x02\x50") };
    take(
        &wire,
        vec![
            case(
                "knot dns",
                53,
                Check::Dns(DnsCheck { addresses: address("192.0.2.80"), ..dns("www.test.") }),
                1,
            ),
            case(
                "knot dns, truncated",
                53,
                Check::Dns(DnsCheck { addresses: address("192.0.2.60"), ..dns("many.test.") }),
                1,
            ),
            case("knot dns, NXDOMAIN", 53, Check::Dns(DnsCheck { rcode: 3, ..dns("none.test.") }), 1),
            case("knot udp-ecv", 53, Check::UdpEcv(raw), 1),
        ],
    );
}

#[test]
fn a_login_takes_two_trips_to_ftp_servers() {
    let Some((wire, _turn)) = wire() else { return };
    let mut cases = Vec::new();
    let vsftpd = wire.vsftpd();
    if vsftpd.is_some() {
        cases.push(case("vsftpd ftp", 21, ftp("anonymous", "gslb-dns@"), 2));
    }
    let pyftpdlib = wire.pyftpdlib();
    if pyftpdlib.is_some() {
        cases.push(case("pyftpdlib ftp", 2121, ftp("monitor", "secret"), 2));
    }
    take(&wire, cases);
}

#[test]
fn a_plugin_takes_the_trips_that_it_makes() {
    let Some((wire, _turn)) = wire() else { return };
    let (Some(_nginx), Some(check_http)) = (wire.nginx(&Ca::new()), found("check_http")) else { return };
    let command = user(&[check_http.to_str().unwrap(), "-I", "{address}", "-p", "{port}"]);
    let labelled = UserCheck { perf_label: Some("time".to_owned()), ..command.clone() };
    take(
        &wire,
        vec![
            case("check_http user", 80, Check::User(command), 2),
            case("check_http user, its label", 80, Check::User(labelled), 2),
        ],
    );
}

/// One check of each server for what it does not have.
#[test]
fn real_servers_fail_checks_in_words() {
    let Some((wire, _turn)) = wire() else { return };
    let ca = Ca::new();
    let (nginx, knot, vsftpd) = (wire.nginx(&ca), wire.knot(), wire.vsftpd());
    let mut cases: Vec<(u16, Check, &str)> = Vec::new();
    if nginx.is_some() {
        let page = |path: &str, receive: Option<Receive>| {
            Check::Http(HttpCheck { path: path.to_owned(), receive, ..http() })
        };
        cases.push((80, page("/down", None), "status 503, expected 2xx"));
        cases.push((
            80,
            page("/", Some(pattern("status=down"))),
            r#""status=down" is not in the answer "status=up\n""#,
        ));
        cases.push((443, page("/", None), "status 400, expected 2xx"));
        cases.push((80, https(unverified()), "not TLS"));
        let other = verified("www.test", Ca::named("another").file());
        cases.push((443, https(other), "unable"));
        let name = verified("mail.test", ca.file());
        cases.push((443, Check::Ssl(name), "the certificate is not for mail.test, but for www.test"));
        // The same nginx with another certificate.
        for check in [Check::Ssl, https] {
            let www = verified("www.test", ca.file());
            cases.push((444, check(www), "the certificate expired 2 days ago"));
        }
    }
    if knot.is_some() {
        wire.inside("c", || answers(at(53))).join().unwrap();
        cases.push((53, Check::Dns(dns("www.example.")), "Query Refused, expected No Error"));
        cases.push((53, Check::Dns(dns("none.test.")), "Non-Existent Domain, expected No Error"));
    }
    if vsftpd.is_some() {
        cases.push((21, ftp("root", "hush"), "login refused: 530 This FTP server is anonymous only."));
    }
    let client = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut running = Running::on_port(53);
            for (port, check, expected) in cases {
                match running.check(at(port), check.clone(), LONG).await {
                    CheckOutcome::Failed(why) => assert_eq!(why, expected),
                    // The file of that CA is gone with it.
                    CheckOutcome::Unable(why) if expected == "unable" => {
                        assert!(why.contains("ca.crt"), "{why}")
                    }
                    outcome => panic!("{check:?}: {outcome:?}"),
                }
            }
            running.stop().await;
        });
    };
    wire.inside("c", client).join().unwrap();
}
