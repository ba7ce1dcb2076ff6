//! What happens when services refuse, close, keep silent or talk nonsense: who is asked next, and what the client hears.

#![allow(clippy::unwrap_used, clippy::panic, reason = "an integration test is all test")]

mod support;

use gslb_types::ServiceState;
use lb_proxy::Kind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use support::service::{Connection, Service};
use support::{Running, body, deaf, eventually, header, name, rest, start, until, vserver};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

/// An address where nobody listens.
async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// A service that answers one request per connection with `text`, closes it, and does not say that it will.
async fn forgetful(text: &'static str) -> Service {
    Service::start(move |mut connection: Connection| async move {
        if connection.request().await.is_some() {
            connection.respond(text).await;
        }
    })
    .await
}

fn failures(running: &Running) -> (u64, u64, u64) {
    let counts = running.view().counts;
    (counts.retried, counts.failed, counts.no_service)
}

#[tokio::test]
async fn who_can_not_be_reached_is_passed_over_and_has_had_no_request() {
    let service = Service::fixed("b").await;
    let running = start(vserver(Kind::Http, &[nobody().await, service.address]));
    for _ in 0..4 {
        assert_eq!(body(&running.get("/").await), "b");
    }
    assert_eq!((running.requests(), running.active()), (vec![0, 4], vec![0, 0]));
    assert_eq!(failures(&running), (2, 0, 0), "every other turn is the first's");
}

#[tokio::test]
async fn when_nobody_can_be_reached_the_client_is_told_so() {
    let running = start(vserver(Kind::Http, &[nobody().await, nobody().await]));
    let response = running.get("/").await;
    assert!(response.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{response}");
    assert_eq!(header(&response, "gslb-reason"), Some("connect_failed"));
    assert_eq!(
        (header(&response, "server"), body(&response)),
        (Some("gslb-dns"), "502 the service could not be reached\n")
    );
    assert_eq!((failures(&running), running.requests()), ((2, 1, 0), vec![0, 0]));
}

#[tokio::test]
async fn the_number_of_members_that_are_tried_is_bounded() {
    let all = [nobody().await, nobody().await, nobody().await];
    let running = start(lb_proxy::VserverSettings { retries: 1, ..vserver(Kind::Http, &all) });
    assert!(running.get("/").await.starts_with("HTTP/1.1 502"));
    assert_eq!(failures(&running), (1, 1, 0));
}

#[tokio::test]
async fn a_service_that_does_not_answer_a_syn_is_passed_over_in_time() {
    let (address, _listener, _fillers) = deaf().await;
    let mut settings = vserver(Kind::Http, &[address]);
    settings.timeouts.connect = Duration::from_millis(100);
    let running = start(settings);
    let response = running.get("/").await;
    assert!(response.starts_with("HTTP/1.1 504"), "{response}");
    assert_eq!(header(&response, "gslb-reason"), Some("connect_timeout"));
}

#[tokio::test]
async fn a_client_that_leaves_before_its_service_is_reached_was_no_request_of_it() {
    let (address, _listener, _fillers) = deaf().await;
    let running = start(vserver(Kind::Http, &[address]));
    let mut client = running.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    eventually("dispatched", || running.active() == [1]).await;
    assert_eq!(running.requests(), [0], "a counter does not go back");
    drop(client);
    eventually("ended", || running.active() == [0]).await;
    assert_eq!(running.requests(), [0]);
}

#[tokio::test]
async fn a_connection_that_was_closed_while_it_waited_costs_no_request() {
    let service = forgetful("x").await;
    let running = start(vserver(Kind::Http, &[service.address]));
    for round in 1..=20 {
        assert_eq!(body(&running.get("/").await), "x", "round {round}");
    }
    assert_eq!((running.requests(), running.view().counts.failed), (vec![20], 0));
}

#[tokio::test]
async fn a_body_too_survives_a_connection_that_was_closed_while_it_waited() {
    let service = Service::start(|mut connection: Connection| async move {
        connection.request().await.unwrap();
        let sent = connection.exactly(6).await;
        connection.respond(std::str::from_utf8(&sent).unwrap()).await;
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    for _ in 0..20 {
        let response = running
            .say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nConnection: close\r\n\r\nabcdef")
            .await;
        assert_eq!(body(&response), "abcdef", "{response}");
    }
    assert_eq!((running.requests(), running.view().counts.failed), (vec![20], 0));
}

#[tokio::test]
async fn a_connection_that_died_while_it_waited_leads_to_another_member_if_its_own_is_gone() {
    let (first, second) = (Service::fixed("a").await, Service::fixed("b").await);
    let running = start(vserver(Kind::Http, &[first.address, second.address]));
    let bodies = [running.get("/").await, running.get("/").await];
    assert_eq!(bodies.map(|b| body(&b).to_owned()), ["a", "b"]);
    assert_eq!(running.view().idle, [1, 1]);
    drop(first);
    tokio::task::yield_now().await;
    for _ in 0..4 {
        assert_eq!(body(&running.get("/").await), "b");
    }
    assert_eq!((running.requests(), running.active()), (vec![1, 5], vec![0, 0]));
    assert_eq!(running.view().counts.failed, 0);
}

/// It can be reached by the kernel's word alone, so each try ends before or just after the request's first byte.
#[tokio::test]
async fn a_service_that_resets_every_connection_does_not_keep_a_request() {
    let resets = Service::start(|connection: Connection| async move {
        connection.stream.get_ref().set_zero_linger().unwrap();
    })
    .await;
    let alone = start(vserver(Kind::Http, &[resets.address]));
    let other = Service::fixed("b").await;
    let running = start(vserver(Kind::Http, &[resets.address, other.address]));
    for _ in 0..30 {
        let response = alone.get("/").await;
        assert!(response.starts_with("HTTP/1.1 502"), "{response}");
        let response = running.get("/").await;
        assert!(
            body(&response) == "b" || header(&response, "gslb-reason") == Some("bad_response"),
            "{response}"
        );
    }
    assert_eq!((alone.active(), running.active()), (vec![0], vec![0, 0]));
}

#[tokio::test]
async fn a_request_that_reached_a_service_is_never_given_to_another() {
    let closes = Service::start(|mut connection: Connection| async move {
        connection.request().await;
    })
    .await;
    let other = Service::fixed("b").await;
    let running = start(vserver(Kind::Http, &[closes.address, other.address]));
    let response = running.get("/").await;
    assert!(response.starts_with("HTTP/1.1 502"), "{response}");
    assert_eq!(header(&response, "gslb-reason"), Some("bad_response"));
    assert_eq!((closes.heads().len(), other.heads().len()), (1, 0));
    assert_eq!((running.requests(), failures(&running)), (vec![1, 0], (0, 1, 0)));
}

#[tokio::test]
async fn nonsense_is_a_bad_response() {
    for nonsense in [
        "SSH-2.0-x\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nNo colon\r\n\r\n",
    ] {
        let service = Service::start(move |mut connection: Connection| async move {
            connection.request().await;
            connection.send(nonsense).await;
            connection.request().await;
        })
        .await;
        let running = start(vserver(Kind::Http, &[service.address]));
        let response = running.get("/").await;
        assert_eq!(header(&response, "gslb-reason"), Some("bad_response"), "{nonsense:?}: {response}");
    }
}

#[tokio::test]
async fn a_response_cut_short_is_cut_short_for_the_client_too() {
    let service = Service::start(|mut connection: Connection| async move {
        connection.request().await;
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n").await;
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let response = running.get("/").await;
    assert_eq!(body(&response), "4\r\nhalf\r\n", "no last chunk pretends that this was all");
    assert_eq!(running.active(), [0]);
}

#[tokio::test]
async fn a_silent_service_is_given_up_after_first_byte_and_after_idle() {
    let service = Service::start(|mut connection: Connection| async move {
        if connection.request().await.unwrap().starts_with("GET /half") {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await;
        }
        connection.request().await;
    })
    .await;
    let mut settings = vserver(Kind::Http, &[service.address]);
    settings.timeouts.first_byte = Duration::from_millis(300);
    settings.timeouts.idle = Duration::from_millis(150);
    let running = start(settings);
    let begun = Instant::now();
    let response = running.get("/never").await;
    let waited = begun.elapsed();
    assert!(response.starts_with("HTTP/1.1 504"), "{response}");
    assert_eq!(header(&response, "gslb-reason"), Some("response_timeout"));
    assert!(waited >= Duration::from_millis(300), "{waited:?}");
    assert_eq!(body(&running.get("/half").await), "half");
    assert_eq!((running.active(), running.view().idle), (vec![0], vec![0]));
}

#[tokio::test]
async fn a_client_that_stops_sending_its_body_is_told_and_the_service_is_free() {
    let service = Service::start(|mut connection: Connection| async move {
        connection.request().await.unwrap();
        connection.exactly(4).await;
        assert_eq!(connection.request().await, None);
    })
    .await;
    let mut settings = vserver(Kind::Http, &[service.address]);
    settings.timeouts.idle = Duration::from_millis(150);
    let running = start(settings);
    let response = running.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf").await;
    assert!(response.starts_with("HTTP/1.1 408"), "{response}");
    assert_eq!((header(&response, "gslb-reason"), running.active()), (Some("request_timeout"), vec![0]));
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_service_at_once() {
    let service = Service::start(|mut connection: Connection| async move {
        connection.request().await;
        assert_eq!(connection.request().await, None);
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let mut client = running.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    eventually("dispatched", || running.active() == [1] && service.heads().len() == 1).await;
    drop(client);
    eventually("ended", || running.active() == [0]).await;
}

#[tokio::test]
async fn without_a_service_the_reason_is_told_and_when_to_come_back() {
    let service = Service::fixed("x").await;
    let running = start(vserver(Kind::Http, &[service.address]));
    running.proxy.handle_health(&name("s1"), ServiceState::Down, None);
    let response = running.get("/").await;
    assert!(response.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{response}");
    assert_eq!(
        (header(&response, "gslb-reason"), header(&response, "retry-after")),
        (Some("all_down"), Some("5"))
    );
    assert_eq!(body(&response), "503 no service is up\n");
    running.proxy.handle_health(&name("s1"), ServiceState::Up, None);
    running.proxy.drain(&name("s1"), Some(Duration::from_secs(60)));
    assert_eq!(header(&running.get("/").await, "gslb-reason"), Some("all_draining"));
    running.proxy.drain(&name("s1"), None);
    running.proxy.set_enabled(&name("s1"), false);
    assert_eq!(header(&running.get("/").await, "gslb-reason"), Some("all_disabled"));
    running.proxy.set_enabled(&name("s1"), true);
    assert_eq!(body(&running.get("/").await), "x");
    assert_eq!(failures(&running), (0, 0, 3));
}

#[tokio::test]
async fn an_answer_before_the_end_of_the_request_passes_while_the_rest_goes_on() {
    let service = Service::start(|mut connection: Connection| async move {
        connection.request().await.unwrap();
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nearly").await;
        assert_eq!(connection.exactly(8).await, b"the rest");
        connection.send("+late").await;
        connection.request().await;
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let mut client = running.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n").await.unwrap();
    until(&mut client, "early").await;
    client.write_all(b"the rest").await.unwrap();
    assert_eq!(until(&mut client, "+late").await, "+late");
    eventually("ended", || running.active() == [0]).await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
    rest(&mut client).await;
}

/// What services assert is part of the tests here.
#[tokio::test]
#[should_panic(expected = "in a service: not this one")]
async fn a_service_that_panics_fails_its_test() {
    let service = Service::start(|mut connection: Connection| async move {
        connection.request().await;
        panic!("not this one");
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    assert!(running.get("/").await.starts_with("HTTP/1.1 502"));
}
