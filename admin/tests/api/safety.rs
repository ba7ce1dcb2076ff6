//! What the API does not do, whoever asks (threat T9, reliability R7, faults I-65).

use crate::fixture::Fixture;
use crate::http::{Answer, Server};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn server() -> Server {
    Fixture::new().serve().await
}

/// A request with these lines after the first.
pub(crate) fn request(first: &str, lines: &[&str]) -> Vec<u8> {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    format!("{first} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n").into_bytes()
}

#[tokio::test]
async fn a_page_whose_name_was_pointed_at_loopback_gets_nothing() {
    let server = server().await;
    for path in ["/v1/peers", "/metrics", "/live", "/", "/nothing"] {
        let answer = server.send(&request(&format!("GET {path}"), &["Host: evil.example:8053"])).await;
        assert_eq!(answer.status, 403, "{path}");
        assert_eq!(
            answer.reason(),
            "Host 'evil.example' is not this node: use localhost, a loopback address, or the address bound"
        );
    }
    let origin = ["Host: localhost", "Origin: https://evil.example"];
    assert_eq!(server.send(&request("GET /v1/peers", &origin)).await.status, 403);
    assert_eq!(
        server.send(&request("GET http://evil.example/v1/peers", &["Host: localhost"])).await.status,
        403
    );
    assert_eq!(server.send(&request("GET /v1/peers", &[])).await.status, 400, "no Host at all");
    assert_eq!(server.send(&request("GET /v1/peers", &["Host: LocalHost"])).await.status, 200);
}

#[tokio::test]
async fn nothing_changes_by_any_method() {
    let server = server().await;
    for method in ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW"] {
        for path in ["/v1/peers", "/nothing"] {
            let answer = server.send(&request(&format!("{method} {path}"), &["Host: localhost"])).await;
            assert_eq!(answer.status, 405, "{method} {path}");
            assert_eq!(answer.headers["allow"], "GET");
        }
    }
}

#[tokio::test]
async fn what_is_not_understood_is_refused_with_a_reason() {
    let server = server().await;
    let explain = "/v1/explain?name=www.gslb.test&ldns=198.51.100.1";
    let cases = [
        ("/v1/nothing", 404, "there is no '/v1/nothing'; / lists what there is"),
        ("/v1/peers/", 404, "there is no '/v1/peers/'; / lists what there is"),
        ("/v1/peers?watch=1", 400, "unknown argument 'watch'; there is none here"),
        ("/v1/ldns?limt=1", 400, "unknown argument 'limt'; there are: after, limit, site"),
        ("/v1/ldns?limit=1&limit=2", 400, "the argument 'limit' is given twice"),
        ("/v1/ldns?limit=0", 400, "limit: expected a number from 1 to 1000, not '0'"),
        ("/v1/ldns?limit=1001", 400, "limit: expected a number from 1 to 1000, not '1001'"),
        ("/v1/ldns?limit=-1", 400, "limit: expected a number from 1 to 1000, not '-1'"),
        ("/v1/ldns?limit=", 400, "limit: expected a number from 1 to 1000, not ''"),
        ("/v1/ldns?after=x", 400, "after: expected an IPv4 or IPv6 address, not 'x'"),
        ("/v1/ldns?site=fr", 400, "there is no site 'fr'; there are: fra, ams, sin"),
        ("/v1/ldns/198.51.100.0%2F24", 400, "ldns: expected an IPv4 or IPv6 address, not '198.51.100.0/24'"),
        ("/v1/explain?ldns=192.0.2.1", 400, "the argument 'name' is missing"),
        ("/v1/explain?name=www.gslb.test", 400, "the argument 'ldns' is missing"),
        (
            "/v1/explain?name=wwww.gslb.test&ldns=192.0.2.1",
            404,
            "'wwww.gslb.test' is no GSLB domain; /v1/domains lists them",
        ),
        (
            "/v1/explain?name=www.gslb.test&ldns=192.0.2",
            400,
            "ldns: expected an IPv4 or IPv6 address, not '192.0.2'",
        ),
    ];
    for (path, status, reason) in cases {
        let answer = server.get(path).await;
        assert_eq!((answer.status, answer.reason().as_str()), (status, reason), "{path}");
    }
    let mx = server.get(&format!("{explain}&type=MX")).await;
    assert_eq!((mx.status, mx.reason().starts_with("type: expected A or AAAA")), (400, true));
    assert!(server.get("/v1/ldns/%ff").await.reason().starts_with("the path can't be read: "));
    for ecs in ["x", "192.0.2.0/33", "192.0.2.0/-1", "2001:db8::/129", "/24"] {
        assert_eq!(server.get(&format!("{explain}&ecs={ecs}")).await.status, 400, "{ecs}");
    }
}

#[tokio::test]
async fn a_long_word_is_not_repeated_whole() {
    let long = "x".repeat(5000);
    let answer = server().await.get(&format!("/v1/ldns?{long}=1")).await;
    assert!(answer.status == 400 && answer.reason().len() < 300, "{}", answer.reason());
}

#[tokio::test]
async fn ten_megabytes_of_body_are_too_large() {
    let server = server().await;
    let mut post = request("POST /v1/peers", &["Host: localhost", "Content-Length: 10000000"]);
    post.resize(post.len() + 10_000_000, b'x');
    let answer = server.send(&post).await;
    assert_eq!((answer.status, answer.reason().as_str()), (413, "no request here needs a body"));
    // Announced and not sent: refused by the announcement.
    let head =
        request("GET /v1/peers", &["Host: localhost", "Content-Length: 10000000", "Expect: 100-continue"]);
    assert_eq!(server.send(&head).await.status, 413);
    let chunked = request("GET /v1/peers", &["Host: localhost", "Transfer-Encoding: chunked"]);
    let chunked = [chunked, b"5\r\nhello\r\n0\r\n\r\n".to_vec()].concat();
    assert_eq!(server.send(&chunked).await.status, 411);
}

#[tokio::test]
async fn a_head_without_end_is_cut_off() {
    let server = server().await;
    let long = format!("X: {}", "x".repeat(100_000));
    let mut stream = server.connect().await;
    // The other end may have closed before all is written.
    let _ = stream.write_all(&request("GET /live", &["Host: localhost", &long])).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
    let nonsense = server.send(b"\x16\x03\x01\x00\xff\r\n\r\n").await;
    assert_eq!(nonsense.status, 400);
    assert_eq!(server.get("/live").await.status, 200);
}

#[tokio::test]
async fn a_thousand_clients_that_never_finish_keep_nobody_out() {
    let server = server().await;
    let mut slow: Vec<TcpStream> = Vec::new();
    for n in 0..1000 {
        let mut stream = server.connect().await;
        // Half of them send half a request. One that had to make room gives an error.
        if n % 2 == 0 {
            let _ = stream.write_all(b"GET /v1/peers HTTP/1.1\r\nHost: loc").await;
        }
        slow.push(stream);
    }
    let start = Instant::now();
    assert_eq!(server.get("/ready").await.status, 200);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let mut open = 0;
    for stream in &mut slow {
        // Closed ones say so at once; the others have nothing to say.
        let look = tokio::time::timeout(Duration::from_millis(1), stream.read_u8()).await;
        open += usize::from(look.is_err());
    }
    assert!(open <= 128, "{open} are open");
}

/// The same with clients that go on, each by a byte a second, and come again when they are cut off.
#[tokio::test]
async fn a_thousand_clients_that_send_a_byte_a_second_keep_nobody_out() {
    const CLIENTS: usize = 1000;
    let server = server().await;
    let head = request("GET /v1/peers", &["Host: localhost"]);
    let mut slow = Vec::new();
    for _ in 0..CLIENTS {
        slow.push((server.connect().await, 0));
    }
    let (mut slowest, mut cut_off) = (Duration::ZERO, 0);
    for _ in 0..4 {
        let second = Instant::now();
        for (stream, sent) in &mut slow {
            if stream.write_all(&head[*sent..=*sent]).await.is_err() {
                (*stream, *sent, cut_off) = (server.connect().await, 0, cut_off + 1);
            } else {
                *sent += 1;
            }
        }
        while second.elapsed() < Duration::from_secs(1) {
            let asked = Instant::now();
            assert_eq!(server.get("/ready").await.status, 200);
            slowest = slowest.max(asked.elapsed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    println!("slowest genuine answer {slowest:?}; {cut_off} slow connections cut off");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    assert!(cut_off > 0);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_not_awaited_for_ever() {
    const REQUESTS: usize = 4000;
    let server = server().await;
    let mut stream = server.connect().await;
    stream.write_all(&b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(REQUESTS)).await.unwrap();
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut answers = Vec::new();
    // The rest may end in a reset.
    let _ = stream.read_to_end(&mut answers).await;
    let came = answers.windows(15).filter(|window| window == b"HTTP/1.1 200 OK").count();
    assert!((1..REQUESTS).contains(&came), "{came}");
}

#[tokio::test]
async fn a_body_that_trickles_in_is_not_awaited() {
    let server = server().await;
    let mut stream = server.connect().await;
    let head = request("POST /v1/peers", &["Host: localhost", "Content-Length: 10000000"]);
    stream.write_all(&head).await.unwrap();
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    assert_eq!(Answer::read(&mut stream).await.status, 413);
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[tokio::test]
async fn clients_of_the_first_version_are_served() {
    let answer = server().await.send(b"GET /live HTTP/1.0\r\nHost: 127.0.0.1:8053\r\n\r\n").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "{\"live\":true}"));
}

#[tokio::test]
async fn a_request_that_is_never_finished_is_not_awaited_for_ever() {
    let server = server().await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /live HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
    // From here on the runtime's clock jumps to the next timer whenever all wait.
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    let waited = start.elapsed();
    assert!(waited >= Duration::from_secs(4) && waited < Duration::from_secs(7), "{waited:?}");
}

#[tokio::test]
async fn a_connection_serves_several_requests_and_is_closed_when_idle() {
    let server = server().await;
    let mut stream = server.connect().await;
    for _ in 0..3 {
        stream.write_all(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut answer = [0; 15];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, *b"HTTP/1.1 200 OK");
        let mut seen = Vec::new();
        while !seen.ends_with(b"{\"live\":true}") {
            seen.push(stream.read_u8().await.unwrap());
        }
    }
    tokio::time::pause();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn stopping_does_not_wait_for_clients() {
    let server = server().await;
    let mut idle = server.connect().await;
    idle.write_all(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    idle.read_u8().await.unwrap();
    let mut half = server.connect().await;
    half.write_all(b"GET /live HTTP/1.1\r\nHo").await.unwrap();
    let silent = server.connect().await;
    let start = Instant::now();
    server.stop.cancel();
    server.task.await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(TcpStream::connect(server.address).await.is_err(), "still listening");
    drop((idle, half, silent));
}

#[tokio::test]
async fn answers_are_not_kept_by_anybody_on_the_way() {
    let server = server().await;
    for path in ["/v1/peers", "/nothing", "/metrics"] {
        let Answer { headers, .. } = server.get(path).await;
        assert_eq!(
            (headers["cache-control"].as_str(), headers["x-content-type-options"].as_str()),
            ("no-store", "nosniff")
        );
    }
}
