//! Each kind of check against a server that fails in each way: refused, silent, wrong answer, half an answer, slow drip,
//! closed, reset. Every reason is what an operator reads, and none comes later than the timeout and a little.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

mod common;

use common::checks::*;
use common::failing::{SHORT, fails, why};
use common::script::{Drip, Hear, Hold, Reset, Server, Step, say};
use common::{LONG, Ldns, Running, ms, v4};
use gslb_types::{Check, HttpCheck};
use probes_core::wire::CheckOutcome;
use std::net::{TcpListener, UdpSocket};

const END: &str = "\r\n\r\n";

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
async fn what_must_not_come_may_still_come_in_an_answer_that_has_not_ended() {
    let check = tcp_ecv("PING\r\n", not(pattern("DOWN")));
    let after = |steps: Vec<Step>| [vec![Hear("PING\r\n")], steps].concat();
    // Half a line, of a server that stalls; and more than is looked into.
    fails(
        &check,
        after(vec![say("state: D"), Hold]),
        r#"the answer did not end within 300ms, but "state: D""#,
    )
    .await;
    let long = r#"the answer is longer than 65536 bytes, and "DOWN" may follow"#;
    fails(&check, after(vec![say("x".repeat(65_537)), Hold]), long).await;
    fails(&check, after(vec![say("state: D"), Reset]), "connection reset").await;
    let page = |length: usize, body: &str| {
        vec![Hear(END), say(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}")), Hold]
    };
    let web = http_ecv(not(pattern("DOWN")));
    fails(&web, page(9, "state\n"), r#"the answer did not end within 300ms, but "state\n""#).await;
    // A whole one passes, be it as long as can be looked into.
    let mut running = Running::on_port(53);
    for body in ["state", &"x".repeat(65_536)] {
        let server = Server::start(v4(51, 1, 17), page(body.len(), body));
        let outcome = running.check(server.addr, web.clone(), LONG).await;
        assert!(matches!(outcome, CheckOutcome::Passed(_)), "{outcome:?}");
    }
    running.stop().await;
}

#[tokio::test]
async fn the_end_of_what_came_is_not_the_end_of_the_answer() {
    let page = |parts: &[&str]| {
        let mut steps = vec![Hear(END), say("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n")];
        for part in parts {
            steps.extend([say(part), Step::Idle(100)]);
        }
        [steps, vec![Hold]].concat()
    };
    let whole = http_ecv(regex("^OK$"));
    fails(&whole, page(&["OK", ", not quite"][..1]), r#"/^OK$/ did not come within 300ms, but "OK""#).await;
    let server = Server::start(v4(51, 1, 18), page(&["OK", ", not ok!"]));
    assert_eq!(why(server.addr, &whole, LONG).await, r#"/^OK$/ is not in the answer "OK, not ok!""#);
    let server = Server::start(v4(51, 1, 18), page(&["OK", "AY, yes, ok"]));
    let word = http_ecv(regex(r"\bOK\b"));
    assert_eq!(why(server.addr, &word, LONG).await, r#"/\bOK\b/ is not in the answer "OKAY, yes, ""#);
    let stays = tcp_ecv("PING\r\n", regex("^.PONG$"));
    let half = r#"/^.PONG$/ did not come within 300ms, but "+PONG""#;
    fails(&stays, vec![Hear("PING\r\n"), say("+PONG"), Hold], half).await;
}

#[tokio::test]
async fn what_is_said_before_the_question_answers_nothing() {
    let mut running = Running::on_port(53);
    // The greeting comes with the connection, well before anything is sent.
    let greeting = |text: &str| vec![say(text), Step::Idle(50), Hear("QUIT\r\n"), say("221 bye\r\n"), Hold];
    for (text, receive, whys) in
        [("220 hi\r\n", pattern("220 "), Some("220 ")), ("221 hi\r\n", pattern("221 bye"), None)]
    {
        let server = Server::start(v4(51, 1, 19), greeting(text));
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push(running.check(server.addr, tcp_ecv("QUIT\r\n", receive.clone()), SHORT).await);
        }
        for outcome in seen {
            match (outcome, whys) {
                (CheckOutcome::Passed(rtt), None) => assert!(rtt.as_duration() > ms(10), "{rtt}"),
                // Whether it comes before what is sent is a matter of who is quicker; measured as nothing it never is.
                (CheckOutcome::Passed(rtt), Some(_)) => assert!(rtt.as_micros() > 1, "{rtt}"),
                (CheckOutcome::Failed(why), Some(said)) => assert!(why.contains(said), "{why}"),
                (outcome, _) => panic!("{outcome:?}"),
            }
        }
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
