//! Each kind of check against a server that fails in each way: refused, silent, wrong answer, half an answer, slow drip,
//! closed, reset. Every reason is what an operator reads, and none comes later than the timeout and a little.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

mod common;

use common::certificates::Ca;
use common::checks::*;
use common::script::{Drip, Hear, Hold, Reset, Server, Step, Tls, say};
use common::{LONG, Ldns, Running, ms, v4};
use gslb_types::{Check, DnsCheck, HttpCheck};
use probes_core::wire::CheckOutcome;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

const END: &str = "\r\n\r\n";

/// The timeout where it is to be seen.
const SHORT: Duration = Duration::from_millis(300);

/// What a busy machine may add to it.
const LATE: Duration = Duration::from_millis(1500);

/// The reason that the check fails for, within this timeout.
async fn why(target: SocketAddr, check: &Check, timeout: Duration) -> String {
    let mut running = Running::on_port(53);
    let began = Instant::now();
    let outcome = running.check(target, check.clone(), timeout).await;
    let took = began.elapsed();
    running.stop().await;
    let CheckOutcome::Failed(why) = outcome else { panic!("{check:?}: {outcome:?}") };
    assert!(took < timeout.saturating_add(LATE), "{check:?} took {took:?}");
    println!("{:10} {why}", check.kind());
    why
}

/// A server that does this fails the check, for this reason.
async fn fails(check: &Check, steps: Vec<Step>, reason: &str) {
    let timeout = if reason.contains("within") { SHORT } else { LONG };
    assert_eq!(why(Server::start(v4(51, 0, 1), steps).addr, check, timeout).await, reason);
}

async fn fails_over_tls(tls: &Tls, check: &Check, steps: Vec<Step>, reason: &str) {
    let timeout = if reason.contains("within") { SHORT } else { LONG };
    assert_eq!(why(Server::with(v4(51, 0, 2), Some(tls.clone()), steps).addr, check, timeout).await, reason);
}

/// All kinds that connect.
fn connecting() -> Vec<Check> {
    vec![
        Check::Tcp,
        tcp_ecv("PING", pattern("PONG")),
        Check::Http(http()),
        https(unverified()),
        http_ecv(pattern("ok")),
        Check::Ssl(unverified()),
        ftp("probe", "hush"),
    ]
}

#[tokio::test]
async fn a_closed_port_refuses_every_kind() {
    let tcp = TcpListener::bind((v4(51, 1, 1), 0)).unwrap().local_addr().unwrap();
    for check in connecting() {
        assert_eq!(why(tcp, &check, LONG).await, "connection refused");
    }
    let udp = UdpSocket::bind((v4(51, 1, 1), 0)).unwrap().local_addr().unwrap();
    for check in [udp_ecv("PING", pattern("PONG")), Check::Dns(dns("www.test."))] {
        assert_eq!(why(udp, &check, LONG).await, "port unreachable, says 127.51.1.1");
    }
}

#[tokio::test]
async fn a_silent_server_fails_every_kind_on_time() {
    let silent = Server::start(v4(51, 1, 2), vec![Hold]).addr;
    let mut all = connecting();
    all.remove(0); // a connection is all that tcp asks for
    let whys = ["no answer", "no answer", "no TLS handshake", "no answer", "no TLS handshake", "no banner"];
    for (check, missing) in all.iter().zip(whys) {
        assert_eq!(why(silent, check, SHORT).await, format!("{missing} within 300ms"));
    }
    let mute = Ldns::start((v4(51, 1, 3), 0), |_, _, _| {});
    for check in [udp_ecv("PING", pattern("PONG")), Check::Dns(dns("www.test."))] {
        assert_eq!(why(mute.addr, &check, SHORT).await, "no answer within 300ms");
    }
    let asleep = Check::User(user(&["/bin/sleep", "60"]));
    assert_eq!(why(silent, &asleep, SHORT).await, "no verdict within 300ms");
}

#[tokio::test]
async fn tcp_ecv_tells_what_came_instead() {
    let check = tcp_ecv("PING\r\n", pattern("+PONG"));
    let ping = || Hear("PING\r\n");
    fails(&check, vec![ping(), say("-ERR\r\n")], r#""+PONG" is not in the answer "-ERR\r\n""#).await;
    fails(&check, vec![ping(), say("+PO")], r#""+PONG" is not in the answer "+PO""#).await;
    fails(&check, vec![ping()], "connection closed without an answer").await;
    fails(&check, vec![ping(), say("+PO"), Reset], "connection reset").await;
    let held = r#""+PONG" did not come within 300ms, but "+PO""#;
    fails(&check, vec![ping(), say("+PO"), Hold], held).await;
    let long = vec![ping(), say("x".repeat(200_000)), Hold];
    let x = "x".repeat(80);
    fails(&check, long, &format!(r#""+PONG" is not in the first 65536 bytes of the answer "{x}"…"#)).await;
    let regex = tcp_ecv("PING\r\n", regex("^.PONG$"));
    fails(&regex, vec![ping(), say("-PING")], r#"/^.PONG$/ is not in the answer "-PING""#).await;
}

#[tokio::test]
async fn a_drip_outlives_no_timeout() {
    let why = |check: Check, first: Step, drip: &'static [u8]| async move {
        why(Server::start(v4(51, 1, 4), vec![first, Drip(drip, 5)]).addr, &check, SHORT).await
    };
    assert_eq!(
        why(Check::Http(http()), Hear(END), b"HTTP/1.1 200 OK\r\nX: and so on").await,
        "no answer within 300ms"
    );
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n";
    let server = Server::start(v4(51, 1, 4), vec![Hear(END), say(head), Drip(b"-", 5)]).addr;
    let reason = self::why(server, &http_ecv(pattern("ok")), SHORT).await;
    assert!(reason.starts_with(r#""ok" did not come within 300ms, but "--"#), "{reason}");
    let reason = why(tcp_ecv("PING", pattern("PONG")), Hear("PING"), b".").await;
    assert!(reason.starts_with(r#""PONG" did not come within 300ms, but ".."#), "{reason}");
    assert_eq!(why(ftp("a", "b"), say("220-hello\r\n"), b"220-and more\r\n").await, "no banner within 300ms");
    assert_eq!(
        why(https(unverified()), say(""), b"\x16\x03\x03\x40\x00\x02").await,
        "no TLS handshake within 300ms"
    );
}

#[tokio::test]
async fn an_answer_with_what_must_not_come_fails_and_one_without_it_passes() {
    let check = tcp_ecv("PING\r\n", not(pattern("ERR")));
    let error = vec![Hear("PING\r\n"), say("-ERR loading\r\n"), Hold];
    fails(&check, error, r#"the answer holds "ERR", which must not come"#).await;
    // No answer is no good answer.
    fails(&check, vec![Hear("PING\r\n"), Hold], "no answer within 300ms").await;
    fails(&check, vec![Hear("PING\r\n")], "connection closed without an answer").await;
    let page = |body: &str| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        Server::start(v4(51, 1, 5), vec![Hear(END), say(head), say(body), Hold])
    };
    let check = http_ecv(not(pattern("maintenance")));
    assert_eq!(
        why(page("in maintenance").addr, &check, LONG).await,
        r#"the answer holds "maintenance", which must not come"#
    );
    let mut running = Running::on_port(53);
    let good = Server::start(v4(51, 1, 5), vec![Hear("PING\r\n"), say("+PONG\r\n"), Hold]).addr;
    for (target, check) in
        [(page("all is well").addr, check), (good, tcp_ecv("PING\r\n", not(pattern("ERR"))))]
    {
        let outcome = running.check(target, check, SHORT).await;
        let CheckOutcome::Passed(rtt) = outcome else { panic!("{outcome:?}") };
        assert!(rtt.as_duration() < SHORT, "up to the answer, not up to the timeout: {rtt}");
    }
    running.stop().await;
}

#[tokio::test]
async fn udp_ecv_passes_over_what_it_does_not_look_for_and_shows_it() {
    let server = Ldns::start((v4(51, 1, 6), 0), |socket, _, from| {
        socket.send_to(b"busy\0", from).unwrap();
    });
    let reason = why(server.addr, &udp_ecv("ping", pattern("pong")), SHORT).await;
    assert_eq!(reason, r#""pong" did not come within 300ms, but "busy\x00""#);
    let reason = why(server.addr, &udp_ecv("ping", not(pattern("busy"))), LONG).await;
    assert_eq!(reason, r#"the answer holds "busy", which must not come"#);
}

#[tokio::test]
async fn http_ecv_wants_the_status_and_the_body() {
    let answer = |status: &str, body: &str| {
        vec![Hear(END), say(format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n{body}"))]
    };
    let check = http_ecv(pattern("ok"));
    fails(&check, answer("200 OK", "down!"), r#""ok" is not in the answer "down!""#).await;
    fails(&check, answer("503 No", "ok..."), "status 503, expected 2xx").await;
    fails(&check, answer("200 OK", "no"), "connection closed before the response was complete").await;
    fails(&check, answer("200 OK", ""), "connection closed before the response was complete").await;
    let empty = vec![Hear(END), say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")];
    fails(&check, empty, "connection closed without an answer").await;
}

#[tokio::test]
async fn what_is_asked_for_is_what_was_configured() {
    let server =
        Server::start(v4(51, 1, 7), vec![Hear("{\"deep\":1}"), say("HTTP/1.1 204 No Content\r\n\r\n")]);
    let check = HttpCheck {
        method: "POST".to_owned(),
        path: "/check?a=b".to_owned(),
        host: "www.test:81".to_owned(),
        headers: vec![
            ("X-Check".to_owned(), "gslb".to_owned()),
            ("User-Agent".to_owned(), "monitor".to_owned()),
        ],
        body: b"{\"deep\":1}".to_vec(),
        ..http()
    };
    let mut running = Running::on_port(53);
    let outcome = running.check(server.addr, Check::Http(check), LONG).await;
    running.stop().await;
    assert!(matches!(outcome, CheckOutcome::Passed(_)), "{outcome:?}");
    let heard = server.heard()[0].to_lowercase();
    assert!(heard.starts_with("post /check?a=b http/1.1\r\n"), "{heard}");
    for line in [
        "host: www.test:81",
        "x-check: gslb",
        "user-agent: monitor",
        "connection: close",
        "content-length: 10",
    ] {
        assert_eq!(heard.matches(&format!("\r\n{line}\r\n")).count(), 1, "{line}: {heard}");
    }
    assert_eq!(heard.matches("user-agent").count(), 1);
}

#[tokio::test]
async fn a_certificate_that_is_verified_fails_for_what_is_wrong_with_it() {
    let (ca, other, impostor) = (Ca::new(), Ca::named("another"), Ca::new());
    let show = |names: &[&str], from, to| Tls { config: ca.server(names, from, to), wait: 0, counts: false };
    let good = || vec![Hear(END), say("HTTP/1.1 200 OK\r\n\r\n")];
    let www = || verified("www.test", ca.file());
    for kind in [https, Check::Ssl] {
        let expired = show(&["www.test"], -30, -3);
        fails_over_tls(&expired, &kind(www()), good(), "the certificate expired 2 days ago").await;
        let early = show(&["www.test"], 5, 9);
        fails_over_tls(&early, &kind(www()), good(), "the certificate is valid only in 4 days").await;
        let theirs = show(&["mail.test"], -1, 1);
        let reason = "the certificate is not for www.test, but for mail.test";
        fails_over_tls(&theirs, &kind(www()), good(), reason).await;
        let unknown = kind(verified("www.test", other.file()));
        let reason = "the certificate descends from none of the CA certificates";
        fails_over_tls(&show(&["www.test"], -1, 1), &unknown, good(), reason).await;
        let unsigned = kind(verified("www.test", impostor.file()));
        let reason = "the certificate is not signed by the CA that it names";
        fails_over_tls(&show(&["www.test"], -1, 1), &unsigned, good(), reason).await;
    }
    // Not verified, each will do.
    let mut running = Running::on_port(53);
    for (names, from, to) in [(["www.test"], -30, -3), (["www.test"], 5, 9), (["mail.test"], -1, 1)] {
        let server = Server::with(v4(51, 1, 8), Some(show(&names, from, to)), good());
        for check in [https(unverified()), Check::Ssl(unverified())] {
            let outcome = running.check(server.addr, check, LONG).await;
            assert!(matches!(outcome, CheckOutcome::Passed(_)), "{outcome:?}");
        }
    }
    // Without a name it is the address that the certificate must hold.
    let server = Server::with(v4(51, 1, 9), Some(show(&["127.51.1.9"], -1, 1)), good());
    let outcome = running.check(server.addr, https(verified("", ca.file())), LONG).await;
    assert!(matches!(outcome, CheckOutcome::Passed(_)), "{outcome:?}");
    running.stop().await;
}

#[tokio::test]
async fn a_certificate_is_looked_at_every_time() {
    // A resumed session would not show it.
    let ca = Ca::new();
    let config = ca.server(&["www.test"], -1, 1);
    let tls = Tls { config, wait: 0, counts: false };
    let steps = vec![Hear(END), say("HTTP/1.1 200 OK\r\n\r\n")];
    let server = Server::with(v4(51, 1, 10), Some(tls), steps);
    let mut running = Running::on_port(53);
    let check = || https(verified("www.test", ca.file()));
    assert!(matches!(running.check(server.addr, check(), LONG).await, CheckOutcome::Passed(_)));
    let expired = Tls { config: ca.server(&["www.test"], -9, -2), wait: 0, counts: false };
    let listener = Server::with(v4(51, 1, 11), Some(expired), vec![Hold]);
    for _ in 0..2 {
        let outcome = running.check(listener.addr, check(), LONG).await;
        assert!(matches!(&outcome, CheckOutcome::Failed(why) if why.contains("expired")), "{outcome:?}");
    }
    running.stop().await;
}

#[tokio::test]
async fn what_is_not_tls_or_not_http_is_named() {
    fails(&https(unverified()), vec![say("HTTP/1.1 400 Bad Request\r\n\r\n"), Hold], "not TLS").await;
    fails(&Check::Ssl(unverified()), vec![say("220 ready\r\n"), Hold], "not TLS").await;
    let closed = "connection closed before the TLS handshake was complete";
    fails(&Check::Ssl(unverified()), vec![Hear("\x16")], closed).await;
    let tls = Tls { config: Ca::new().server(&["www.test"], -1, 1), wait: 0, counts: false };
    fails_over_tls(&tls, &https(unverified()), vec![Hear(END), say("SSH-2.0-x\r\n")], "not HTTP").await;
    let half = vec![Hear(END), say("HTTP/1.1 200 OK\r\nContent-")];
    fails_over_tls(&tls, &https(unverified()), half, "connection closed before the response was complete")
        .await;
    fails_over_tls(&tls, &https(unverified()), vec![Hear(END), Hold], "no answer within 300ms").await;
}

#[tokio::test]
async fn a_file_of_ca_certificates_that_holds_none_says_nothing_about_the_service() {
    let mut running = Running::on_port(53);
    let server = Server::start(v4(51, 1, 12), vec![Hold]);
    for (file, why) in [
        ("/nonexistent/ca.crt", "/nonexistent/ca.crt: no such file or directory"),
        ("/etc/hostname", "/etc/hostname: holds no CA certificate"),
    ] {
        let outcome = running.check(server.addr, https(verified("www.test", file.into())), LONG).await;
        assert_eq!(outcome, CheckOutcome::Unable(why.to_owned()));
    }
    running.stop().await;
}

#[tokio::test]
async fn dns_tells_what_is_wrong_with_the_answer() {
    /// A server whose answer to each query this makes.
    fn answering(answer: fn(&[u8]) -> Vec<u8>) -> Ldns {
        Ldns::start((v4(51, 1, 13), 0), move |socket, query, from| {
            socket.send_to(&answer(query), from).unwrap();
        })
    }
    fn with_address(query: &[u8]) -> Vec<u8> {
        let mut answer = common::answered(query, 0);
        answer[7] = 1;
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 192, 0, 2, 9]);
        answer
    }
    let check = DnsCheck { addresses: vec![v4(0, 0, 1)], ..dns("www.test.") };
    let reason = why(answering(with_address).addr, &Check::Dns(check.clone()), LONG).await;
    assert_eq!(reason, "192.0.2.9, expected 127.0.0.1");
    let servfail = answering(|query| common::answered(query, 2));
    assert_eq!(
        why(servfail.addr, &Check::Dns(check.clone()), LONG).await,
        "Server Failure, expected No Error"
    );
    let half = answering(|query| with_address(query)[..40].to_vec());
    assert_eq!(why(half.addr, &Check::Dns(check.clone()), LONG).await, "not DNS, or half of a message");
    let empty = answering(|query| common::answered(query, 0));
    assert_eq!(why(empty.addr, &Check::Dns(check.clone()), LONG).await, "no address, expected 127.0.0.1");
    // Somebody else's answer is none: the check waits on.
    let stranger = answering(|query| {
        let mut answer = common::answered(query, 0);
        answer[0] ^= 1;
        answer
    });
    assert_eq!(why(stranger.addr, &Check::Dns(check.clone()), SHORT).await, "no answer within 300ms");
    let truncated = answering(|query| {
        let mut answer = common::answered(query, 0);
        answer[2] |= 2;
        answer
    });
    assert_eq!(why(truncated.addr, &Check::Dns(check), LONG).await, "connection refused", "over TCP");
    let mut running = Running::on_port(53);
    let refused = answering(|query| common::answered(query, 5));
    let outcome =
        running.check(refused.addr, Check::Dns(DnsCheck { rcode: 5, ..dns("www.test.") }), LONG).await;
    assert!(matches!(outcome, CheckOutcome::Passed(_)), "{outcome:?}");
    running.stop().await;
}

#[tokio::test]
async fn ftp_tells_how_far_the_login_came() {
    let check = ftp("probe", "hush");
    let (user, pass) = (|| Hear("USER probe\r\n"), || Hear("PASS hush\r\n"));
    fails(&check, vec![say("421 too many\r\n")], "not ready: 421 too many").await;
    fails(&check, vec![say("SSH-2.0-x\r\n"), Hold], r#"not FTP: "SSH-2.0-x""#).await;
    fails(&check, vec![say("220 hi\r\n"), user(), say("530 no\r\n")], "login refused: 530 no").await;
    let refused = vec![say("220 hi\r\n"), user(), say("331 go on\r\n"), pass(), say("530 not hush\r\n")];
    fails(&check, refused, "login refused: 530 not ***").await;
    let account = vec![say("220 hi\r\n"), user(), say("331 go on\r\n"), pass(), say("332 account?\r\n")];
    fails(&check, account, "the login asks for more than a password: 332 account?").await;
    let half = vec![say("220 hi\r\n"), user(), say("331 go on\r\n"), pass(), say("230-in, and")];
    fails(&check, half, "connection closed before the reply was complete").await;
    let silent = vec![say("220 hi\r\n"), user(), say("331 go on\r\n"), pass(), Hold];
    fails(&check, silent, "login not complete within 300ms").await;
    let endless = vec![say("220-".repeat(10_000)), Hold];
    fails(&check, endless, "a reply without end, of more than 16384 bytes").await;
    fails(&check, vec![say("120 in 5 minutes\r\n".repeat(9)), Hold], "not ready: it only ever says so").await;
}

#[tokio::test]
async fn ftp_reads_replies_of_many_lines_and_logins_without_a_password() {
    let many = "220-Welcome\r\n 220 not the end\r\n331-nor this\r\n220 now\r\n";
    let in_ = "230-motd\r\n\r\n230 in\r\n";
    let with = vec![
        say("120 soon\r\n"),
        say(many),
        Hear("USER probe\r\n"),
        say("331 go on\r\n"),
        Hear("PASS hush\r\n"),
        say(in_),
        Hear("QUIT\r\n"),
    ];
    let without = vec![say("220 hi\r\n"), Hear("USER probe\r\n"), say("230 in\r\n"), Hold];
    let mut running = Running::on_port(53);
    for steps in [with, without] {
        let server = Server::start(v4(51, 1, 14), steps);
        let outcome = running.check(server.addr, ftp("probe", "hush"), LONG).await;
        assert!(matches!(outcome, CheckOutcome::Passed(_)), "{outcome:?}");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_source_that_this_machine_does_not_have_says_nothing_about_the_service() {
    let listener = TcpListener::bind((v4(51, 1, 15), 0)).unwrap();
    let target = listener.local_addr().unwrap();
    let mut running = Running::on_port(53);
    let good = running.check_from(Some(v4(51, 9, 9)), target, Check::Tcp, LONG).await;
    assert!(matches!(good, CheckOutcome::Passed(_)), "{good:?}");
    assert_eq!(listener.accept().unwrap().1.ip(), v4(51, 9, 9));
    let stranger = "192.0.2.1".parse().unwrap();
    let outcome = running.check_from(Some(stranger), target, Check::Tcp, LONG).await;
    assert_eq!(outcome, CheckOutcome::Unable("not sent: cannot assign requested address".to_owned()));
    if common::may_ping(&running) {
        let pinged = running.check_from(Some(v4(51, 9, 9)), target, Check::Ping, LONG).await;
        assert!(matches!(pinged, CheckOutcome::Passed(_)), "{pinged:?}");
        let outcome = running.check_from(Some(stranger), target, Check::Ping, ms(500)).await;
        assert!(matches!(outcome, CheckOutcome::Unable(_)), "{outcome:?}");
    }
    running.stop().await;
}
