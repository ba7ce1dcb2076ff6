//! Checks against small real servers, each failing in its own way.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't be set up has failed")]

mod common;

use common::{LONG, Running, may_ping, ms, v4};
use gslb_types::HttpCheck;
use probes_core::wire::{Check, CheckOutcome};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A server that treats one connection after its request as told, and hands out the request it read.
fn server(
    address: IpAddr,
    answer: impl FnOnce(&mut TcpStream) + Send + 'static,
) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    let (read, requests) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut buf = [0; 1024];
        while !request.ends_with(b"\r\n\r\n") {
            match stream.read(&mut buf) {
                Ok(len @ 1..) => request.extend_from_slice(&buf[..len]),
                _ => return,
            }
        }
        read.send(String::from_utf8(request).unwrap()).unwrap();
        answer(&mut stream);
    });
    (addr, requests)
}

fn says(text: &'static str) -> impl FnOnce(&mut TcpStream) + Send {
    move |stream| stream.write_all(text.as_bytes()).unwrap()
}

fn http(expect: &[u16]) -> Check {
    Check::Http(HttpCheck { expect: expect.to_vec(), ..HttpCheck::get("/health?deep=1") })
}

async fn checked(target: SocketAddr, check: Check, timeout: Duration) -> CheckOutcome {
    let mut running = Running::on_port(53);
    let outcome = running.check(target, check, timeout).await;
    running.stop().await;
    outcome
}

fn failed(reason: &str) -> CheckOutcome {
    CheckOutcome::Failed(reason.into())
}

#[tokio::test]
async fn an_expected_status_passes_after_the_time_from_request_to_head() {
    let (addr, requests) = server(v4(40, 0, 1), |stream| {
        std::thread::sleep(ms(50));
        // A body that is announced and never comes is not waited for.
        stream.write_all(b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n").unwrap();
        std::thread::sleep(ms(1000));
    });
    let outcome = checked(addr, http(&[200, 204]), LONG).await;
    let CheckOutcome::Passed(rtt) = outcome else { panic!("{outcome:?}") };
    assert!((ms(50)..ms(900)).contains(&rtt.as_duration()), "{rtt}");
    let request = requests.recv().unwrap();
    assert!(request.starts_with("GET /health?deep=1 HTTP/1.1\r\n"), "{request}");
    assert!(request.to_lowercase().contains(&format!("\r\nhost: {addr}\r\n")), "{request}");
    assert!(request.to_lowercase().contains("\r\nconnection: close\r\n"), "{request}");
}

#[tokio::test]
async fn the_configured_host_is_sent_and_a_body_is_not_waited_for() {
    let (addr, requests) = server(v4(40, 0, 2), |stream| {
        stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\nonly this").unwrap();
        std::thread::sleep(ms(1500));
    });
    let check = Check::Http(HttpCheck { host: "www.example.com".into(), ..HttpCheck::get("/") });
    let began = Instant::now();
    let outcome = checked(addr, check, LONG).await;
    assert!(matches!(outcome, CheckOutcome::Passed(_)), "{outcome:?}");
    assert!(began.elapsed() < ms(1400), "{:?}", began.elapsed());
    assert!(requests.recv().unwrap().to_lowercase().contains("\r\nhost: www.example.com\r\n"));
}

#[tokio::test]
async fn an_ipv6_service_is_checked_alike() {
    let Ok(probe) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else {
        return common::skipped("no IPv6 on loopback");
    };
    drop(probe);
    let (addr, requests) = server(Ipv6Addr::LOCALHOST.into(), says("HTTP/1.1 200 OK\r\n\r\n"));
    assert!(matches!(checked(addr, http(&[]), LONG).await, CheckOutcome::Passed(_)));
    let host = format!("\r\nhost: [::1]:{}\r\n", addr.port());
    assert!(requests.recv().unwrap().to_lowercase().contains(&host));
}

#[tokio::test]
async fn a_closed_port_refuses() {
    let addr = TcpListener::bind((v4(40, 1, 1), 0)).unwrap().local_addr().unwrap();
    assert_eq!(checked(addr, http(&[]), LONG).await, failed("connection refused"));
    assert_eq!(checked(addr, Check::Tcp, LONG).await, failed("connection refused"));
}

#[tokio::test]
async fn a_listener_passes_the_tcp_check() {
    let listener = TcpListener::bind((v4(40, 1, 2), 0)).unwrap();
    let outcome = checked(listener.local_addr().unwrap(), Check::Tcp, LONG).await;
    assert!(matches!(outcome, CheckOutcome::Passed(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_silent_server_fails_on_time() {
    let (addr, _requests) = server(v4(40, 1, 3), |_| std::thread::sleep(ms(1500)));
    let began = Instant::now();
    assert_eq!(checked(addr, http(&[]), ms(250)).await, failed("no answer within 250ms"));
    assert!((ms(250)..ms(1250)).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_head_that_drips_fails_on_time_however_it_drips() {
    let (addr, _requests) = server(v4(40, 1, 4), |stream| {
        for byte in b"HTTP/1.1 200 OK\r\nX: and so on, never to end".iter().cycle() {
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(ms(5));
        }
    });
    let began = Instant::now();
    assert_eq!(checked(addr, http(&[]), ms(400)).await, failed("no answer within 400ms"));
    assert!((ms(400)..ms(1400)).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test]
async fn another_status_fails_and_both_are_named() {
    let (addr, _requests) = server(v4(40, 1, 5), says("HTTP/1.1 503 Service Unavailable\r\n\r\n"));
    assert_eq!(checked(addr, http(&[200]), LONG).await, failed("status 503, expected 200"));
    let (addr, _requests) = server(v4(40, 1, 6), says("HTTP/1.1 200 OK\r\n\r\n"));
    assert_eq!(checked(addr, http(&[301, 302]), LONG).await, failed("status 200, expected 301 or 302"));
    let (addr, _requests) = server(v4(40, 1, 7), says("HTTP/1.1 302 Found\r\n\r\n"));
    assert_eq!(checked(addr, http(&[]), LONG).await, failed("status 302, expected 2xx"));
}

#[tokio::test]
async fn garbage_is_not_http() {
    for (i, garbage) in ["SSH-2.0-OpenSSH_9.2\r\n", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "HTTP/1.1 OK\r\n\r\n"]
        .into_iter()
        .enumerate()
    {
        let (addr, _requests) = server(v4(40, 2, i as u8 + 1), says(garbage));
        assert_eq!(checked(addr, http(&[]), LONG).await, failed("not HTTP"), "{garbage:?}");
    }
}

#[tokio::test]
async fn half_an_answer_is_none() {
    for (i, half) in ["", "HTTP/1.1 200 OK\r\nContent-"].into_iter().enumerate() {
        let (addr, _requests) = server(v4(40, 3, i as u8 + 1), says(half));
        let reason = "connection closed before the response was complete";
        assert_eq!(checked(addr, http(&[]), LONG).await, failed(reason), "{half:?}");
    }
}

#[tokio::test]
async fn a_reset_connection_is_named() {
    let (addr, _requests) = server(v4(40, 3, 9), |stream| {
        socket2::SockRef::from(&*stream).set_linger(Some(Duration::ZERO)).unwrap();
    });
    assert_eq!(checked(addr, http(&[]), LONG).await, failed("connection reset"));
}

#[tokio::test]
async fn a_head_without_end_is_given_up() {
    let (addr, _requests) = server(v4(40, 3, 10), |stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"X: 0123456789012345678901234567890123456789\r\n").is_ok() {}
    });
    let outcome = checked(addr, http(&[]), LONG).await;
    assert!(matches!(outcome, CheckOutcome::Failed(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_path_that_cannot_be_sent_is_said_to_be_so() {
    let (addr, _requests) = server(v4(40, 3, 11), says("HTTP/1.1 200 OK\r\n\r\n"));
    let check = Check::Http(HttpCheck::get("/with space"));
    let CheckOutcome::Unable(reason) = checked(addr, check, LONG).await else { panic!() };
    assert!(reason.starts_with("the check's request can't be sent"), "{reason}");
}

#[tokio::test]
async fn a_host_that_answers_echo_passes_the_ping_check() {
    let mut running = Running::on_port(53);
    if !may_ping(&running) {
        return;
    }
    let outcome = running.check(SocketAddr::new(v4(40, 4, 1), 0), Check::Ping, LONG).await;
    assert!(matches!(outcome, CheckOutcome::Passed(_)), "{outcome:?}");
}
