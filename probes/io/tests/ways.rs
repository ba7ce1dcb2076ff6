//! Every kind of check against a service that fails in every way: one table, in which each cell is a real socket and a reason,
//! or says why that kind can't fail so. That of ping needs hosts
//! of its own: ping.rs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

mod common;

use common::checks::*;
use common::failing::{SHORT, why};
use common::scenes::*;
use common::script::{Drip, Hear, Hold, Server, Step, say};
use common::{LONG, Ldns, answered, v4};
use gslb_types::{Check, DnsCheck, HttpCheck};
use std::net::SocketAddr;
use tokio::task::JoinSet;

/// The ways of failing, in the order of the table's columns.
const WAYS: [&str; 6] =
    ["refused", "silent", "wrong answer", "half answer", "slow drip", "certificate expired"];

/// One way in which a kind fails.
enum Cell {
    /// So: each scene fails for the reason beside it. "…" at its end stands for whatever follows.
    Fails(Vec<(Scene, &'static str)>),
    /// Not at all, for this reason.
    CanNot(&'static str),
}

use Cell::{CanNot, Fails};

const EXPIRED: &str = "the certificate expired 2 days ago";
const REFUSED: &str = "connection refused";
const UDP_REFUSED: &str = "port unreachable, says 127.54.0.4";
const SILENT: &str = "no answer within 300ms";
const NO_TLS: &str = "no TLS handshake within 300ms";
const CUT: &str = "connection closed before the response was complete";
const CUT_TLS: &str = "connection closed before the TLS handshake was complete";
const NOT_SECURE: &str = "it shows no certificate";
const END: &str = "\r\n\r\n";

/// How far a client of TLS comes before it hears anything: into the second byte of its first message.
const HELLO: &str = "\x16\x03";

/// A record of a handshake that is longer than it will ever get.
const RECORD: &[u8] = b"\x16\x03\x03\x40\x00\x02";

fn tcp() -> [Cell; 6] {
    let check = Check::Tcp;
    [
        Fails(vec![(closed_tcp(&check), REFUSED)]),
        Fails(vec![(full(&check), "no connection within 300ms")]),
        CanNot("a SYN-ACK is all that it asks for"),
        CanNot("a SYN-ACK comes whole"),
        CanNot("a SYN-ACK comes whole"),
        CanNot(NOT_SECURE),
    ]
}

/// What a server may say after a request, by way: of http and https, with or without a pattern.
fn answers(is_ecv: bool) -> [Vec<(Vec<Step>, &'static str)>; 4] {
    let after = |steps: &[Step]| [&[Hear(END)], steps].concat();
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n";
    let mut ways = [
        vec![(after(&[Hold]), SILENT)],
        vec![
            (after(&[say("HTTP/1.1 503 No\r\n\r\n")]), "status 503, expected 2xx"),
            (after(&[say("SSH-2.0-x\r\n")]), "not HTTP"),
        ],
        vec![
            (after(&[say("HTTP/1.1 200 OK\r\nContent-")]), CUT),
            (after(&[say("HTTP/1.1 200 OK\r\nContent-"), Hold]), SILENT),
        ],
        vec![(after(&[Drip(b"HTTP/1.1 200 OK\r\nX: and so on", 5)]), SILENT)],
    ];
    if is_ecv {
        ways[0].push((after(&[say(head), Hold]), SILENT));
        ways[1].push((
            after(&[say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nDOWN")]),
            r#""status=up" is not in the answer "DOWN""#,
        ));
        ways[2].push((after(&[say(head), say("status=u")]), CUT));
        let held = r#""status=up" did not come within 300ms, but "status=u""#;
        ways[2].push((after(&[say(head), say("status=u"), Hold]), held));
        ways[3].push((
            after(&[say(head), Drip(b"status=down ", 5)]),
            r#""status=up" did not come within 300ms, but "status=…"#,
        ));
    }
    ways
}

fn http_kind(is_ecv: bool) -> [Cell; 6] {
    let check = if is_ecv { http_ecv(pattern("status=up")) } else { Check::Http(http()) };
    let [silent, wrong, half, drip] = answers(is_ecv).map(|scenes| {
        Fails(scenes.into_iter().map(|(steps, reason)| (plain(&check, steps), reason)).collect())
    });
    [Fails(vec![(closed_tcp(&check), REFUSED)]), silent, wrong, half, drip, CanNot(NOT_SECURE)]
}

fn https_kind(is_ecv: bool, secrets: &Secrets) -> [Cell; 6] {
    let receive = is_ecv.then(|| pattern("status=up"));
    let tls = Some(verified("www.test", secrets.ca.file()));
    let check = Check::Http(HttpCheck { tls, receive, ..http() });
    let [mut silent, mut wrong, mut half, mut drip] = answers(is_ecv).map(|scenes| {
        let secure = |(steps, reason)| (secure(&check, &secrets.good, steps), reason);
        scenes.into_iter().map(secure).collect::<Vec<_>>()
    });
    silent.push((plain(&check, vec![Hold]), NO_TLS));
    wrong.push((plain(&check, vec![Hear(HELLO), say("HTTP/1.1 400 Bad Request\r\n\r\n"), Hold]), "not TLS"));
    half.push((plain(&check, vec![Hear(HELLO), say(&RECORD[..4])]), CUT_TLS));
    half.push((plain(&check, vec![Hear(HELLO), say(RECORD), Hold]), NO_TLS));
    drip.push((plain(&check, vec![Hear(HELLO), Drip(RECORD, 5)]), NO_TLS));
    let expired = secure(&check, &secrets.expired, vec![Hear(END), say("HTTP/1.1 200 OK\r\n\r\n")]);
    [
        Fails(vec![(closed_tcp(&check), REFUSED)]),
        Fails(silent),
        Fails(wrong),
        Fails(half),
        Fails(drip),
        Fails(vec![(expired, EXPIRED)]),
    ]
}

fn tcp_ecv_kind() -> [Cell; 6] {
    let check = tcp_ecv("PING\r\n", pattern("+PONG\r\n"));
    let after = |steps: &[Step]| plain(&check, [&[Hear("PING\r\n")], steps].concat());
    let (half, held) =
        (r#""+PONG\r\n" is not in the answer "+PO""#, r#""+PONG\r\n" did not come within 300ms, but "+PO""#);
    let dripped = r#""+PONG\r\n" did not come within 300ms, but "+PO+PO…"#;
    [
        Fails(vec![(closed_tcp(&check), REFUSED)]),
        Fails(vec![(after(&[Hold]), SILENT), (after(&[]), "connection closed without an answer")]),
        Fails(vec![(after(&[say("-ERR\r\n")]), r#""+PONG\r\n" is not in the answer "-ERR\r\n""#)]),
        Fails(vec![(after(&[say("+PO")]), half), (after(&[say("+PO"), Hold]), held)]),
        Fails(vec![(after(&[Drip(b"+PO", 5)]), dripped)]),
        CanNot(NOT_SECURE),
    ]
}

fn udp_ecv_kind() -> [Cell; 6] {
    let check = udp_ecv("PING", pattern("PONG"));
    let did_not = |text: &'static str| vec![(datagrams(&check, move |_| vec![text.into()]), text)];
    let named = |reason: &'static str, mut scenes: Vec<(Scene, &'static str)>| {
        scenes.iter_mut().for_each(|scene| scene.1 = reason);
        Fails(scenes)
    };
    [
        Fails(vec![(closed_udp(&check), UDP_REFUSED)]),
        Fails(vec![(datagrams(&check, |_| Vec::new()), SILENT)]),
        named(r#""PONG" did not come within 300ms, but "BUSY""#, did_not("BUSY")),
        named(r#""PONG" did not come within 300ms, but "PON""#, did_not("PON")),
        // Byte by byte, each in a datagram of its own: in none of them it stands.
        Fails(vec![(
            datagrams(&check, |_| b"PONG".iter().map(|byte| vec![*byte]).collect()),
            r#""PONG" did not come within 300ms, but "G""#,
        )]),
        CanNot(NOT_SECURE),
    ]
}

/// An answer with this address.
fn with_address(query: &[u8]) -> Vec<u8> {
    let mut answer = answered(query, 0);
    answer[7] = 1;
    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 192, 0, 2, 9]);
    answer
}

fn dns_kind() -> [Cell; 6] {
    let check = Check::Dns(DnsCheck { addresses: vec![v4(0, 0, 1)], ..dns("www.test.") });
    let stranger = |query: &[u8]| {
        let mut answer = with_address(query);
        answer[0] ^= 1;
        vec![answer]
    };
    [
        Fails(vec![(closed_udp(&check), UDP_REFUSED)]),
        Fails(vec![(datagrams(&check, |_| Vec::new()), SILENT)]),
        Fails(vec![
            (datagrams(&check, |q| vec![answered(q, 2)]), "Server Failure, expected No Error"),
            (datagrams(&check, |q| vec![with_address(q)]), "192.0.2.9, expected 127.0.0.1"),
            (datagrams(&check, stranger), SILENT),
        ]),
        Fails(vec![(
            datagrams(&check, |q| vec![with_address(q)[..40].to_vec()]),
            "not DNS, or half of a message",
        )]),
        CanNot("a datagram comes whole; over TCP, see the next row"),
        CanNot(NOT_SECURE),
    ]
}

/// The query as it goes over TCP, behind its id.
const QUERY: &str = "\x03www\x04test\0\0\x01\0\x01";

/// The same where the answer by UDP is truncated, and the one over TCP fails.
fn dns_over_tcp() -> [Cell; 6] {
    let check = Check::Dns(dns("www.test."));
    let truncated = |query: &[u8]| {
        let mut answer = answered(query, 0);
        answer[2] |= 2;
        vec![answer]
    };
    let after = |steps: &[Step]| {
        let tcp = Server::start(v4(54, 0, 6), [&[Hear(QUERY)], steps].concat());
        let udp = Ldns::start(tcp.addr, move |socket, query, from| {
            socket.send_to(&truncated(query)[0], from).unwrap();
        });
        scene(tcp.addr, &check, udp)
    };
    let silent = "no answer over TCP within 300ms";
    let half = "connection closed before the answer was complete";
    [
        Fails(vec![(datagrams(&check, truncated), REFUSED)]),
        Fails(vec![(after(&[Hold]), silent)]),
        Fails(vec![(after(&[say(b"\0\x04abcd"), Hold]), "not an answer to the query")]),
        Fails(vec![
            (after(&[]), half),
            (after(&[say(b"\0\x40ab")]), half),
            (after(&[say(b"\0\x40ab"), Hold]), silent),
        ]),
        Fails(vec![(after(&[Drip(b"\x40\0", 5)]), silent)]),
        CanNot(NOT_SECURE),
    ]
}

fn ssl_kind(secrets: &Secrets) -> [Cell; 6] {
    let check = Check::Ssl(verified("www.test", secrets.ca.file()));
    let after = |steps: &[Step]| plain(&check, [&[Hear(HELLO)], steps].concat());
    [
        Fails(vec![(closed_tcp(&check), REFUSED)]),
        Fails(vec![(plain(&check, vec![Hold]), NO_TLS)]),
        Fails(vec![(after(&[say("220 ready\r\n"), Hold]), "not TLS")]),
        Fails(vec![(after(&[say(&RECORD[..4])]), CUT_TLS), (after(&[say(RECORD), Hold]), NO_TLS)]),
        Fails(vec![(after(&[Drip(RECORD, 5)]), NO_TLS)]),
        Fails(vec![(secure(&check, &secrets.expired, vec![Hold]), EXPIRED)]),
    ]
}

fn ftp_kind() -> [Cell; 6] {
    let check = ftp("probe", "hush");
    let at_user = [say("220 hi\r\n"), Hear("USER probe\r\n")];
    let at_pass = [&at_user[..], &[say("331 go on\r\n"), Hear("PASS hush\r\n")]].concat();
    let greets = |steps: &[Step]| plain(&check, steps.to_vec());
    let user = |steps: &[Step]| plain(&check, [&at_user, steps].concat());
    let pass = |steps: &[Step]| plain(&check, [&at_pass, steps].concat());
    let (banner, login) = ("no banner within 300ms", "login not complete within 300ms");
    let cut = "connection closed before the reply was complete";
    [
        Fails(vec![(closed_tcp(&check), REFUSED)]),
        Fails(vec![(greets(&[Hold]), banner), (user(&[Hold]), login), (pass(&[Hold]), login)]),
        Fails(vec![
            (greets(&[say("421 too many\r\n")]), "not ready: 421 too many"),
            (greets(&[say("SSH-2.0-x\r\n"), Hold]), r#"not FTP: "SSH-2.0-x""#),
            (user(&[say("530 no\r\n")]), "login refused: 530 no"),
            (pass(&[say("530 not hush\r\n")]), "login refused: 530 not ***"),
        ]),
        Fails(vec![
            (greets(&[say("220 h")]), cut),
            (user(&[say("331-go")]), cut),
            (pass(&[say("230-in, and\r\n")]), cut),
            (greets(&[say("220 h"), Hold]), banner),
            (pass(&[say("230-in, and\r\n"), Hold]), login),
        ]),
        Fails(vec![
            (greets(&[say("220-hi\r\n"), Drip(b"220-and more\r\n", 5)]), banner),
            (user(&[say("331-go\r\n"), Drip(b"331-on\r\n", 5)]), login),
            (pass(&[say("230-in\r\n"), Drip(b"230-and\r\n", 5)]), login),
        ]),
        CanNot(NOT_SECURE),
    ]
}

fn user_kind() -> [Cell; 6] {
    let nowhere = SocketAddr::new(v4(54, 0, 7), 1);
    let runs = |text: &str| scene(nowhere, &Check::User(script(text)), ());
    let over = "no verdict within 300ms";
    [
        CanNot("a command that can't be started says nothing of the service: commands.rs"),
        Fails(vec![(runs("exec sleep 60"), over)]),
        Fails(vec![
            (runs("echo broken; exit 2"), "CRITICAL: broken"),
            (runs("echo hm; exit 3"), "UNKNOWN: hm"),
            (runs("exit 77"), "exit code 77"),
        ]),
        Fails(vec![(runs("printf 'OK, that i'; kill -KILL $$"), "killed by signal 9: OK, that i")]),
        Fails(vec![(runs("while :; do printf O; sleep 0.01; done"), over)]),
        CanNot("the command alone knows what it is shown"),
    ]
}

/// Runs the cells of a kind, all at once, and says what it saw.
async fn run(kind: &str, cells: [Cell; 6]) {
    let mut running = JoinSet::new();
    for (way, cell) in WAYS.into_iter().zip(cells) {
        match cell {
            CanNot(because) => println!("{kind:12} {way:20} can't: {because}"),
            Fails(scenes) => {
                assert!(!scenes.is_empty(), "{kind} {way}");
                for (scene, reason) in scenes {
                    running.spawn(async move {
                        // The whole of it, with what lasts.
                        let scene = scene;
                        let limit = if reason.contains("within 300ms") { SHORT } else { LONG };
                        let why = why(scene.target, &scene.check, limit).await;
                        (way, why, reason)
                    });
                }
            }
        }
    }
    while let Some(seen) = running.join_next().await {
        let (way, why, reason) = seen.unwrap();
        println!("{kind:12} {way:20} {why}");
        match reason.strip_suffix('…') {
            Some(begins) => assert!(why.starts_with(begins), "{kind} {way}: {why}"),
            None => assert_eq!(why, reason, "{kind} {way}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_fails_in_every_way_with_its_reason_and_on_time() {
    let secrets = secrets();
    run("tcp", tcp()).await;
    run("http", http_kind(false)).await;
    run("http-ecv", http_kind(true)).await;
    run("https", https_kind(false, &secrets)).await;
    run("https-ecv", https_kind(true, &secrets)).await;
    run("tcp-ecv", tcp_ecv_kind()).await;
    run("udp-ecv", udp_ecv_kind()).await;
    run("dns", dns_kind()).await;
    run("dns by TCP", dns_over_tcp()).await;
    run("ssl", ssl_kind(&secrets)).await;
    run("ftp", ftp_kind()).await;
    run("user", user_kind()).await;
}
