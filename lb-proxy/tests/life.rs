//! Starting, changing and stopping: listeners that stay, requests that end well.

#![allow(clippy::unwrap_used, reason = "an integration test is all test")]

mod support;

use gslb_types::{LbVserverName, ServiceState};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lb_core::LocalPersistence;
use lb_proxy::{Kind, Proxy, StartError, VserverSettings};
use std::time::{Duration, Instant};
use support::service::{Connection, Service};
use support::{body, eventually, header, name, rest, start, until, vserver, within};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// A service that answers when it is told to.
async fn held(text: &'static str) -> (Service, std::sync::Arc<tokio::sync::Semaphore>) {
    let go = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let gate = go.clone();
    let service = Service::start(move |mut connection: Connection| {
        let gate = gate.clone();
        async move {
            while connection.request().await.is_some() {
                gate.acquire().await.unwrap().forget();
                connection.respond(text).await;
            }
        }
    })
    .await;
    (service, go)
}

/// Stops a proxy, with patience.
fn stopping(running: support::Running) -> tokio::task::JoinHandle<bool> {
    tokio::spawn(async move { running.proxy.stop(Duration::from_secs(20)).await })
}

#[tokio::test]
async fn a_stop_lets_what_runs_end_and_takes_nothing_new() {
    let (service, go) = held("done").await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let mut rests = running.connect().await;
    go.add_permits(1);
    rests.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    until(&mut rests, "done").await;
    let mut works = running.connect().await;
    works.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    eventually("under way", || running.active() == [1]).await;
    let (address, stopping) = (running.address, stopping(running));
    assert_eq!(rest(&mut rests).await, "", "a connection that rests is closed at once");
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens");
    assert!(!stopping.is_finished());
    go.add_permits(1);
    let response = rest(&mut works).await;
    assert_eq!((body(&response), header(&response, "connection")), ("done", Some("close")));
    assert!(within(stopping).await.unwrap(), "all ended by itself");
}

#[tokio::test]
async fn http_2_is_told_to_go_away_and_its_requests_end() {
    let (service, go) = held("done").await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let stream = TokioIo::new(running.connect().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = hyper::Request::get("http://a.test/").body(Empty::<bytes::Bytes>::new()).unwrap();
    let response = tokio::spawn(sender.send_request(request));
    eventually("under way", || running.active() == [1]).await;
    let (address, stopping) = (running.address, stopping(running));
    eventually("nobody listens", || std::net::TcpStream::connect(address).is_err()).await;
    go.add_permits(1);
    let response = within(response).await.unwrap().unwrap();
    assert_eq!(within(response.into_body().collect()).await.unwrap().to_bytes(), "done");
    assert!(within(stopping).await.unwrap());
    within(connection).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_breaks_off_what_does_not_end() {
    let (service, _go) = held("never").await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let mut works = running.connect().await;
    works.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    eventually("under way", || running.active() == [1]).await;
    let begun = Instant::now();
    assert!(!within(running.proxy.stop(Duration::from_millis(200))).await);
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(rest(&mut works).await, "");
}

#[tokio::test]
async fn other_settings_keep_listeners_counters_and_what_runs() {
    let (first, go) = held("a").await;
    let second = Service::fixed("b").await;
    let settings = vserver(Kind::Http, &[first.address]);
    let running = start(settings.clone());
    let mut works = running.connect().await;
    works.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    eventually("under way", || running.active() == [1]).await;

    // The first service goes, another one comes; what was said of it before counts.
    running.proxy.handle_health(&name("s9"), ServiceState::Up, None);
    let mut changed = vserver(Kind::Http, &[second.address]);
    changed.balancer.members[0].name = name("s9");
    running.proxy.apply(vec![changed.clone()]).unwrap();
    assert_eq!(body(&running.get("/").await), "b");
    assert_eq!(running.view().counts.requests, 2);
    assert_eq!(running.view().balancer.retired_active, 1);
    go.add_permits(1);
    assert_eq!(until(&mut works, "\r\n\r\na").await.matches("HTTP/1.1 200").count(), 1);
    assert_eq!(running.view().balancer.retired_active, 0);
    // The client's connection has stayed open, and its next request goes to the new service.
    works.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    until(&mut works, "\r\n\r\nb").await;

    // What can't be done changes nothing.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut refused = changed.clone();
    refused.listen.push(taken.local_addr().unwrap());
    assert!(matches!(running.proxy.apply(vec![refused]), Err(StartError::Listen(..))));
    assert!(matches!(running.proxy.apply(vec![changed.clone(), changed.clone()]), Err(StartError::Name(_))));
    let unpaired = VserverSettings { addresses: vec![], ..changed.clone() };
    assert!(matches!(running.proxy.apply(vec![unpaired]), Err(StartError::Addresses(_, 1, 0))));
    assert_eq!(body(&running.get("/").await), "b");

    // A virtual server that goes closes its listener; connections wind up.
    running.proxy.apply(vec![]).unwrap();
    assert_eq!(rest(&mut works).await, "");
    eventually("closed", || std::net::TcpStream::connect(running.address).is_err()).await;
}

#[tokio::test]
async fn an_address_may_go_from_one_virtual_server_to_another_without_a_gap() {
    let (first, second) = (Service::fixed("a").await, Service::fixed("b").await);
    let fixed = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
    let mut one = vserver(Kind::Http, &[first.address]);
    one.listen = vec![fixed];
    let mut other = vserver(Kind::Http, &[second.address]);
    (other.name, other.listen) = (LbVserverName::new("w").unwrap(), vec![fixed]);
    other.balancer.members[0].name = name("t1");
    let proxy = Proxy::start(vec![one.clone()], &CancellationToken::new()).unwrap();
    proxy.handle_health(&name("s1"), ServiceState::Up, None);
    proxy.handle_health(&name("t1"), ServiceState::Up, None);
    let running = support::Running { proxy, address: fixed };
    assert_eq!(body(&running.get("/").await), "a");
    let twice = vec![one, other.clone()];
    assert!(matches!(running.proxy.apply(twice), Err(StartError::Twice(..))));
    running.proxy.apply(vec![other]).unwrap();
    assert_eq!(body(&running.get("/").await), "b");
}

#[tokio::test]
async fn a_cookie_keeps_a_client_at_its_service_as_long_as_that_can_serve() {
    let (first, second) = (Service::fixed("a").await, Service::fixed("b").await);
    let mut settings = vserver(Kind::Http, &[first.address, second.address]);
    settings.balancer.persistence = LocalPersistence::Cookie;
    let running = start(settings);
    let ask = async |cookie: &str| {
        running
            .say(format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: x=1{cookie}\r\nConnection: close\r\n\r\n"))
            .await
    };
    let response = ask("").await;
    assert_eq!(body(&response), "a");
    let given = header(&response, "set-cookie").unwrap().split(';').next().unwrap().to_owned();
    for _ in 0..3 {
        let again = ask(&format!("; {given}")).await;
        assert_eq!((body(&again), header(&again, "set-cookie")), ("a", None));
    }
    assert_eq!(header(first.heads().last().unwrap(), "cookie"), Some("x=1"), "the service does not see it");
    running.proxy.handle_health(&name("s1"), ServiceState::Down, None);
    let moved = ask(&format!("; {given}")).await;
    assert_eq!(body(&moved), "b");
    assert_ne!(header(&moved, "set-cookie").unwrap().split(';').next(), Some(given.as_str()));
}

#[tokio::test]
async fn the_end_of_a_drain_cuts_requests_bodies_and_tunnels() {
    let service = Service::start(|mut connection: Connection| async move {
        let head = connection.request().await.unwrap();
        if head.starts_with("GET /body") {
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await;
        } else if head.starts_with("GET /tunnel") {
            let switch = "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhalf";
            connection.send(switch).await;
        }
        assert_eq!(connection.request().await, None);
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let mut clients = Vec::new();
    for (path, more) in [("/head", ""), ("/body", ""), ("/tunnel", "Connection: upgrade\r\nUpgrade: x\r\n")] {
        let mut client = running.connect().await;
        client.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{more}\r\n").as_bytes()).await.unwrap();
        if path != "/head" {
            until(&mut client, "half").await;
        }
        clients.push(client);
    }
    eventually("under way", || running.active() == [3]).await;
    running.proxy.drain(&name("s1"), Some(Duration::from_millis(200)));
    let response = until(&mut clients[0], "\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 503"), "{response}");
    assert_eq!(header(&response, "gslb-reason"), Some("drained"));
    assert_eq!(rest(&mut clients[1]).await, "");
    assert_eq!(rest(&mut clients[2]).await, "");
    eventually("drained", || running.proxy.is_drained(&name("s1"))).await;
    assert_eq!(running.view().idle, [0]);
}
