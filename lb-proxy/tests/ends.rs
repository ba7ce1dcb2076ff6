//! Deadlines hold whatever clients and services do: of a drain, of a stop, of a body that nobody takes.

#![allow(clippy::unwrap_used, reason = "an integration test is all test")]

mod support;

use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lb_proxy::Kind;
use std::time::{Duration, Instant};
use support::service::{Connection, Service};
use support::{Running, body, deaf, eventually, header, name, rest, start, until, vserver, within};
use tokio::io::AsyncWriteExt;

const TCP: Kind = Kind::Tcp { proxy_protocol: false };

/// A service that begins an answer and never ends it: at `/much` with more than buffers hold, at `/early` before it was asked for
/// all, at `/both` with both, at `/tunnel` in another protocol, elsewhere not at all.
async fn never_done() -> Service {
    Service::start(|mut connection: Connection| async move {
        let Some(head) = connection.request().await else { return };
        let path = head.split(' ').nth(1).unwrap();
        match path {
            "/much" | "/both" => {
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 99000000\r\n\r\n").await;
                connection.send(vec![b'y'; 99_000_000]).await;
            }
            "/early" => {
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nearly").await;
                std::future::pending::<()>().await; // does not read either
            }
            "/tunnel" => {
                connection.send("HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhi").await;
            }
            _ => {}
        }
        connection.request().await;
    })
    .await
}

/// A client of HTTP/2 that lets each response have this much of its body.
async fn h2(running: &Running, window: u32) -> SendRequest<Empty<bytes::Bytes>> {
    let stream = TokioIo::new(running.connect().await);
    let mut client = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = client.initial_stream_window_size(window).handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn ask(
    sender: &mut SendRequest<Empty<bytes::Bytes>>,
    path: &str,
) -> hyper::Response<hyper::body::Incoming> {
    let request = hyper::Request::get(format!("http://a.test{path}")).body(Empty::new()).unwrap();
    within(sender.send_request(request)).await.unwrap()
}

const EARLY: &str = "an answer before a request that nobody reads";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_at_its_deadline_whatever_runs() {
    let service = never_done().await;
    for (what, request) in [
        ("a request", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        (EARLY, "POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 99000000\r\n\r\nx"),
        ("a client that takes nothing", "GET /much HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("a tunnel", "GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
        ("half a head", "GET / HT"),
    ] {
        let running = start(vserver(Kind::Http, &[service.address]));
        let mut client = running.connect().await;
        client.write_all(request.as_bytes()).await.unwrap();
        match what {
            "half a head" => eventually("in", || running.view().connections == 1).await,
            EARLY => {
                until(&mut client, "early").await;
                let more = vec![b'y'; 99_000_000];
                // Until all buffers are full on the way to a service that reads nothing.
                while tokio::time::timeout(Duration::from_millis(200), client.write(&more)).await.is_ok() {}
            }
            _ => eventually("under way", || running.active() == [1]).await,
        }
        stops(&running, what).await;
    }
    let running = start(vserver(Kind::Http, &[service.address]));
    let mut sender = h2(&running, 1000).await;
    let _much = ask(&mut sender, "/much").await;
    stops(&running, "a body of HTTP/2").await;
    let running = start(vserver(TCP, &[service.address]));
    let _client = running.connect().await;
    eventually("under way", || running.active() == [1]).await;
    stops(&running, "a connection").await;
    let (address, _listener, _fillers) = deaf().await;
    for kind in [TCP, Kind::Http] {
        let running = start(vserver(kind, &[address]));
        let mut client = running.connect().await;
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        eventually("under way", || running.active() == [1]).await;
        stops(&running, "a service that does not answer").await;
    }
}

async fn stops(running: &Running, what: &str) {
    let begun = Instant::now();
    assert!(!running.proxy.stop(Duration::from_millis(100)).await || what == "half a head", "{what}");
    let lasted = begun.elapsed();
    println!("stopped with {what} in {lasted:?}");
    assert!(lasted < Duration::from_secs(2), "{what}: {lasted:?}");
    assert_eq!(running.active(), [0], "{what}");
}

#[tokio::test]
async fn the_end_of_a_drain_cuts_clients_that_take_nothing() {
    let service = never_done().await;
    let other = Service::fixed("other").await;
    let running = start(vserver(Kind::Http, &[service.address, other.address]));
    running.proxy.set_enabled(&name("s2"), false);
    let mut deaf = running.connect().await;
    deaf.write_all(b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut early = running.connect().await;
    let post = b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\nx";
    early.write_all(post).await.unwrap();
    until(&mut early, "early").await;
    let mut both = running.connect().await;
    both.write_all(b"POST /both HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\nx").await.unwrap();
    let mut sender = h2(&running, 1000).await;
    let much = ask(&mut sender, "/much").await;
    eventually("under way", || running.active() == [4, 0]).await;
    tokio::time::sleep(Duration::from_millis(100)).await; // until all buffers are full
    running.proxy.set_enabled(&name("s2"), true);
    let begun = Instant::now();
    running.proxy.drain(&name("s1"), Some(Duration::from_millis(200)));
    eventually("drained", || running.proxy.is_drained(&name("s1"))).await;
    let lasted = begun.elapsed();
    assert!(lasted < Duration::from_secs(2), "{lasted:?}");
    assert!(within(much.into_body().collect()).await.is_err(), "it did not come whole");
    let response = ask(&mut sender, "/").await;
    assert_eq!(within(response.into_body().collect()).await.unwrap().to_bytes(), "other", "others go on");
    eventually("the clients' places are free", || running.view().connections == 1).await;
}

#[tokio::test]
async fn a_request_that_is_still_dialling_as_its_drain_ends_goes_to_another_member() {
    let (address, _listener, _fillers) = deaf().await;
    let other = Service::fixed("other").await;
    let running = start(vserver(Kind::Http, &[address, other.address]));
    let drains = async |address| {
        eventually("dialling", || running.active()[0] == 1).await;
        running.proxy.drain(&name("s1"), Some(Duration::from_millis(100)));
        let _: std::net::SocketAddr = address;
    };
    let begun = Instant::now();
    let (response, ()) = tokio::join!(running.get("/"), drains(address));
    assert_eq!(body(&response), "other", "{response}");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(running.requests(), [0, 1]);
}

#[tokio::test]
async fn without_another_member_a_dialling_request_is_told_and_a_connection_reset() {
    let (address, _listener, _fillers) = deaf().await;
    for kind in [Kind::Http, TCP] {
        let is_http = kind == Kind::Http;
        let running = start(vserver(kind, &[address]));
        let mut client = running.connect().await;
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        eventually("dialling", || running.active() == [1]).await;
        let begun = Instant::now();
        running.proxy.drain(&name("s1"), Some(Duration::from_millis(100)));
        let response = rest(&mut client).await;
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        let expected = is_http.then_some("all_draining");
        assert_eq!((header(&response, "gslb-reason"), running.active()), (expected, vec![0]), "{response}");
    }
}

/// A client of HTTP/2 may take the head of a response and then no byte of its body, while its connection lives on.
#[tokio::test]
async fn an_http_2_body_that_a_client_does_not_take_is_given_up_and_others_go_on() {
    let (stuck, other) = (never_done().await, Service::fixed("other").await);
    let mut settings = vserver(Kind::Http, &[stuck.address, other.address]);
    settings.timeouts.idle = Duration::from_millis(400);
    let running = start(settings);
    let mut sender = h2(&running, 1000).await;
    let much = ask(&mut sender, "/much").await;
    running.proxy.set_enabled(&name("s1"), false);
    let (begun, mut asked) = (Instant::now(), 0);
    while running.active()[0] == 1 {
        assert!(begun.elapsed() < Duration::from_secs(10), "it is not given up");
        let response = ask(&mut sender, "/").await;
        assert_eq!(within(response.into_body().collect()).await.unwrap().to_bytes(), "other");
        asked += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(within(much.into_body().collect()).await.is_err());
    println!("{asked} answers beside the body that was given up");
    assert_eq!((running.view().counts.timed_out, running.view().connections), (1, 1));
    ask(&mut sender, "/").await;
}

/// The last one to wait for a place must not wait for a place of the old settings.
#[tokio::test]
async fn clients_beyond_the_limit_come_in_as_it_is_raised_and_wait_as_it_is_lowered() {
    let service = Service::fixed("x").await;
    let settings = vserver(Kind::Http, &[service.address]);
    let limit = |max| lb_proxy::VserverSettings { max_connections: max, ..settings.clone() };
    let running = start(limit(1));
    let first = running.connect().await;
    eventually("in", || running.view().connections == 1).await;
    let mut second = running.connect().await;
    eventually("waits", || running.view().counts.full == 1).await;
    running.proxy.apply(vec![limit(2)]).unwrap();
    second.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    until(&mut second, "\r\n\r\nx").await;
    running.proxy.apply(vec![limit(1)]).unwrap();
    let mut third = running.connect().await;
    third.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    eventually("waits", || running.view().counts.full == 2).await;
    drop(first);
    eventually("one is gone", || running.view().connections == 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(running.view().connections, 1, "one in, and one may be in");
    drop(second);
    until(&mut third, "\r\n\r\nx").await;
}
