//! Each kind of check measures the span that behaviour 5's table has for it, and nothing beside it: servers here delay what
//! counts, and what does not. Ping and tcp, whose span no server sees, are measured over a long way: `real.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

mod common;

use common::certificates::Ca;
use common::checks::*;
use common::figures::{Late, Measured, is_near};
use common::script::{Hear, Hold, Idle, Server, Step, Tls, Wait, say};
use common::{Ldns, Running, ms, v4};
use gslb_types::Check;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// The delay that counts, and the one that does not.
const DELAY: u64 = 40;
const OTHER: u64 = 70;

const END: &str = "\r\n\r\n";

async fn measures(what: &str, server: (SocketAddr, Late), check: Check, injected: u64) {
    let mut running = Running::on_port(53);
    let measured =
        Measured { target: server.0, late: server.1, check }.median(&mut running, ms(injected)).await;
    running.stop().await;
    assert!(is_near(what, measured, ms(injected)), "{what}");
}

#[tokio::test]
async fn http_is_measured_from_the_request_to_the_response() {
    // The body, which is not looked into, comes late.
    let steps = vec![
        Hear(END),
        Wait(DELAY),
        say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"),
        Idle(OTHER),
        say("ok"),
    ];
    measures("http", Server::start(v4(50, 0, 1), steps).at(), Check::Http(http()), DELAY).await;
}

#[tokio::test]
async fn http_ecv_is_measured_to_what_makes_the_response_match() {
    let steps = vec![
        Hear(END),
        say("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"),
        Wait(DELAY / 2),
        say("stat"),
        Wait(DELAY / 2),
        say("us=up"),
        Idle(OTHER),
        say("..."),
    ];
    let server = Server::start(v4(50, 0, 2), steps);
    measures("http-ecv", server.at(), http_ecv(pattern("status=up")), DELAY).await;
    measures("http-ecv, regex", server.at(), http_ecv(regex("status=(up|on)")), DELAY).await;
}

#[tokio::test]
async fn https_is_measured_from_the_request_on_and_not_from_the_handshake() {
    let ca = Ca::new();
    for (what, version) in
        [("https, TLS 1.2", &rustls::version::TLS12), ("https, TLS 1.3", &rustls::version::TLS13)]
    {
        let tls = Tls { config: ca.server_of(&["www.test"], -1, 1, &[version]), wait: OTHER, counts: false };
        let steps = vec![Hear(END), Wait(DELAY), say("HTTP/1.1 200 OK\r\n\r\n")];
        let server = Server::with(v4(50, 0, 3), Some(tls), steps);
        measures(what, server.at(), https(unverified()), DELAY).await;
        measures(what, server.at(), https(verified("www.test", ca.file())), DELAY).await;
    }
}

/// The same for what takes time by itself, here: the delay is what it takes longer than with none.
async fn adds(what: &str, without: Measured, with: Measured, injected: u64) {
    let mut running = Running::on_port(53);
    let measured = with.beyond(&without, &mut running, ms(injected)).await;
    running.stop().await;
    assert!(is_near(what, measured, ms(injected)), "{what}");
}

#[tokio::test]
async fn ssl_is_measured_from_the_syn_to_the_end_of_the_handshake() {
    let ca = Ca::new();
    for (what, version) in
        [("ssl, TLS 1.2", &rustls::version::TLS12), ("ssl, TLS 1.3", &rustls::version::TLS13)]
    {
        let config = ca.server_of(&["www.test"], -1, 1, &[version]);
        let [without, with] = [0, DELAY].map(|wait| {
            let tls = Tls { config: config.clone(), wait, counts: true };
            let (target, late) = Server::with(v4(50, 0, 4), Some(tls), vec![Hold]).at();
            Measured { target, check: Check::Ssl(unverified()), late }
        });
        adds(what, without, with, DELAY).await;
    }
}

#[tokio::test]
async fn tcp_ecv_is_measured_from_what_is_sent_to_what_is_looked_for() {
    let steps = vec![
        say("hello\r\n"),
        Hear("PING\r\n"),
        Wait(DELAY / 2),
        say("+PO"),
        Wait(DELAY / 2),
        say("NG\r\n"),
        Idle(OTHER),
        say("more"),
    ];
    let server = Server::start(v4(50, 0, 5), steps);
    measures("tcp-ecv", server.at(), tcp_ecv("PING\r\n", pattern("+PONG\r\n")), DELAY).await;
    let greeting = Server::start(v4(50, 0, 6), vec![Wait(DELAY), say("220 ready\r\n"), Hold]);
    measures("tcp-ecv, server first", greeting.at(), tcp_ecv("", pattern("220 ")), DELAY).await;
}

#[tokio::test]
async fn udp_ecv_is_measured_from_the_datagram_to_the_one_that_answers() {
    let (late, its) = lates();
    let server = Ldns::start((v4(50, 0, 7), 0), move |socket, _, from| {
        its.sleep(ms(DELAY / 2));
        socket.send_to(b"not yet", from).unwrap();
        its.sleep(ms(DELAY / 2));
        socket.send_to(b"pong", from).unwrap();
    });
    measures("udp-ecv", (server.addr, late), udp_ecv("ping", pattern("pong")), DELAY).await;
}

/// One count of lateness, for the server and for the test.
fn lates() -> (Late, Late) {
    let late = Late::default();
    (late.clone(), late)
}

/// An answer without records.
fn dns_answer(query: &[u8], flags: u8) -> Vec<u8> {
    let mut answer = query.to_vec();
    answer[2] |= 0x80 | flags;
    answer
}

#[tokio::test]
async fn dns_is_measured_from_the_query_to_the_response_of_the_transport_that_answers() {
    let (late, its) = lates();
    let server = Ldns::start((v4(50, 0, 8), 0), move |socket, query, from| {
        its.sleep(ms(DELAY));
        socket.send_to(&dns_answer(query, 0), from).unwrap();
    });
    measures("dns", (server.addr, late), Check::Dns(dns("www.test.")), DELAY).await;
    let truncating = Ldns::start((v4(50, 0, 9), 0), |socket, query, from| {
        std::thread::sleep(ms(OTHER));
        socket.send_to(&dns_answer(query, 0x02), from).unwrap();
    });
    let listener = TcpListener::bind(truncating.addr).unwrap();
    let (late, its) = lates();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut length) = (stream.unwrap(), [0; 2]);
            stream.read_exact(&mut length).unwrap();
            let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
            stream.read_exact(&mut query).unwrap();
            its.sleep(ms(DELAY));
            stream.write_all(&[&length[..], &dns_answer(&query, 0)].concat()).unwrap();
        }
    });
    measures("dns, truncated", (truncating.addr, late), Check::Dns(dns("www.test.")), DELAY).await;
}

#[tokio::test]
async fn ftp_is_measured_from_the_user_name_to_the_login() {
    let steps = vec![
        Idle(OTHER),
        say("220-Welcome\r\n220 to it\r\n"),
        Hear("USER probe\r\n"),
        Wait(DELAY / 2),
        say("331 password\r\n"),
        Hear("PASS hush\r\n"),
        Wait(DELAY / 2),
        say("230 in\r\n"),
        Hold,
    ];
    measures("ftp", Server::start(v4(50, 0, 10), steps).at(), ftp("probe", "hush"), DELAY).await;
}

#[tokio::test]
async fn a_command_is_measured_from_its_start_to_its_end() {
    let nowhere = SocketAddr::new(v4(50, 0, 11), 1);
    let command = |check| Measured { target: nowhere, check: Check::User(check), late: Late::default() };
    let sleep = user(&["/bin/sleep", "0.04"]);
    adds("user", command(user(&["/bin/sleep", "0"])), command(sleep), DELAY).await;
    // What it leaves running, with its output open, is not waited for.
    let lasting = |wait| command(script(&format!("sleep 30 & sleep {wait}; echo OK")));
    adds("user, with a child", lasting("0"), lasting("0.04"), DELAY).await;
}

/// A node whose tasks are late: the runtime's only thread is held for this long again and again.
const HELD: Duration = Duration::from_millis(15);

#[tokio::test]
async fn a_busy_node_does_not_make_a_service_look_slow() {
    let busy = tokio::spawn(async {
        loop {
            std::thread::sleep(HELD);
            tokio::task::yield_now().await;
        }
    });
    let steps = |steps: &[Step]| steps.to_vec();
    let web = steps(&[Hear(END), Wait(DELAY), say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), Hold]);
    let web = Server::start(v4(50, 1, 1), web);
    measures("http, busy", web.at(), Check::Http(http()), DELAY).await;
    measures("http-ecv, busy", web.at(), http_ecv(pattern("ok")), DELAY).await;
    let echo = Server::start(v4(50, 1, 2), steps(&[Hear("PING"), Wait(DELAY), say("PONG"), Hold]));
    measures("tcp-ecv, busy", echo.at(), tcp_ecv("PING", pattern("PONG")), DELAY).await;
    let tls = Tls { config: Ca::new().server(&["www.test"], -1, 1), wait: OTHER, counts: false };
    let web = steps(&[Hear(END), Wait(DELAY), say("HTTP/1.1 200 OK\r\n\r\n"), Hold]);
    measures("https, busy", Server::with(v4(50, 1, 3), Some(tls), web).at(), https(unverified()), DELAY)
        .await;
    let (late, its) = lates();
    let datagrams = Ldns::start((v4(50, 1, 4), 0), move |socket, _, from| {
        its.sleep(ms(DELAY));
        socket.send_to(b"pong", from).unwrap();
    });
    measures("udp-ecv, busy", (datagrams.addr, late), udp_ecv("ping", pattern("pong")), DELAY).await;
    let (late, its) = lates();
    let server = Ldns::start((v4(50, 1, 5), 0), move |socket, query, from| {
        its.sleep(ms(DELAY));
        socket.send_to(&dns_answer(query, 0), from).unwrap();
    });
    measures("dns, busy", (server.addr, late), Check::Dns(dns("www.test.")), DELAY).await;
    let tls = Tls { config: Ca::new().server(&["www.test"], -1, 1), wait: DELAY, counts: true };
    let (target, late) = Server::with(v4(50, 1, 6), Some(tls), vec![Hold]).at();
    let check = Check::Ssl(unverified());
    let mut running = Running::on_port(53);
    let took = Measured { target, check, late }.median(&mut running, ms(DELAY)).await;
    println!("ssl, busy: {took:?}, of which the server waits {DELAY} ms");
    // The rest is its own work; a runtime that is late twice would show in 15 ms and more.
    assert!((ms(DELAY)..ms(DELAY) + HELD / 2).contains(&took), "{took:?}");
    let listener = TcpListener::bind((v4(50, 1, 7), 0)).unwrap();
    let target = listener.local_addr().unwrap();
    let took = Measured { target, check: Check::Tcp, late: Late::default() }
        .median(&mut running, Duration::ZERO)
        .await;
    running.stop().await;
    assert!(is_near("tcp, busy", took, Duration::ZERO), "{took:?}");
    let login = steps(&[
        say("220 hi\r\n"),
        Hear("USER probe\r\n"),
        Wait(DELAY / 2),
        say("331 password\r\n"),
        Hear("PASS hush\r\n"),
        Wait(DELAY / 2),
        say("230 in\r\n"),
        Hold,
    ]);
    measures("ftp, busy", Server::start(v4(50, 1, 8), login).at(), ftp("probe", "hush"), DELAY).await;
    busy.abort();
}
