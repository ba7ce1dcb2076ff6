//! What is wrong with the answers of DNS and FTP servers, in words.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

mod common;

use common::checks::*;
use common::failing::{SHORT, fails, why};
use common::script::{Hear, Hold, Server, say};
use common::{LONG, Ldns, Running, v4};
use gslb_types::{Check, DnsCheck};
use probes_core::wire::CheckOutcome;

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
async fn a_password_is_in_no_reason_wherever_a_server_repeats_it() {
    let secret = "a long\tsecret that is cut in two";
    let check = ftp("probe", secret);
    let login = || vec![say("220 hi\r\n"), Hear("USER probe\r\n"), say("331 go on\r\n"), Hear("\r\n")];
    // At the end of what is shown, among control characters, in what is no FTP, before it was asked for.
    let long = format!("530 {} {secret} no\r\n", "x".repeat(180));
    for said in
        [long, format!("530 {secret}\r\n"), format!("what? {secret}\r\n"), format!("332 {secret}\r\n")]
    {
        let steps = [login(), vec![say(&said), Hold]].concat();
        let why = why(Server::start(v4(51, 1, 16), steps).addr, &check, LONG).await;
        assert!(!why.contains("a long") && !why.contains("secret"), "{why}");
        assert!(why.contains("***"), "{why}");
    }
}

#[tokio::test]
async fn what_comes_before_a_question_is_no_answer_to_it() {
    let spoke = "the server spoke before it was asked: ";
    let eager = vec![say("220 hi\r\n331 go on\r\n230 in\r\n"), Hold];
    fails(&ftp("probe", "hush"), eager, &format!(r#"{spoke}"331 go on\r\n230 in\r\n""#)).await;
    let eager = vec![say("220 hi\r\n"), Hear("USER probe\r\n"), say("331 go on\r\n230 in\r\n"), Hold];
    fails(&ftp("probe", "hush"), eager, &format!(r#"{spoke}"230 in\r\n""#)).await;
}

#[tokio::test]
async fn ftp_reads_replies_of_many_lines_and_logins_without_a_password() {
    let many = "220-Welcome\r\n 220 not the end\r\n331 nor this\r\n220 now\r\n";
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
