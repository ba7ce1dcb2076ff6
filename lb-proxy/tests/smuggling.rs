//! Request smuggling: what two readers could take for different requests is refused, or goes on in words that can be read in one
//! way only. Each case is sent with a second request hidden in it; the service must never see that.

#![allow(clippy::unwrap_used, reason = "an integration test is all test")]

mod support;

use lb_proxy::Kind;
use support::raw_h2::{self, Fate};
use support::service::{Connection, Service};
use support::{Running, eventually, header, start, vserver};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// A service that takes each request to its end, and answers with the body as it was framed.
async fn noting() -> Service {
    Service::start(|mut connection: Connection| async move {
        while let Some(head) = connection.request().await {
            let length = header(&head, "content-length").map_or(0, |length| length.parse().unwrap());
            let body = match header(&head, "transfer-encoding") {
                Some(coding) => {
                    assert_eq!(coding, "chunked");
                    chunks(&mut connection.stream).await
                }
                None => exactly(&mut connection.stream, length).await,
            };
            let Some(body) = body else { return };
            connection.respond(&body).await;
        }
    })
    .await
}

/// A body in chunks to the end of its trailers; `None` if it breaks off.
async fn chunks(from: &mut (impl AsyncBufRead + Unpin)) -> Option<String> {
    let mut all = String::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line).await.ok()?;
        let size = usize::from_str_radix(line.strip_suffix("\r\n")?, 16).unwrap();
        all += &line;
        if size == 0 {
            break;
        }
        all += &exactly(from, size + 2).await?;
    }
    while !all.ends_with("\r\n\r\n") {
        from.read_line(&mut all).await.ok().filter(|bytes| *bytes > 0)?;
    }
    Some(all)
}

async fn exactly(from: &mut (impl AsyncBufRead + Unpin), bytes: usize) -> Option<String> {
    let mut all = vec![0; bytes];
    from.read_exact(&mut all).await.ok()?;
    Some(String::from_utf8(all).unwrap())
}

/// What is hidden.
const HIDDEN: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// What must come of a request.
#[derive(Clone, Copy)]
enum Must {
    /// Refused with this status; the connection ends, and nothing reaches the service.
    Refuse(&'static str),
    /// Refused, although its head has gone on already: the service's connection breaks off in the middle of the body.
    BreakOff,
    /// Passes, and the service gets exactly this body, framed anew.
    Pass(&'static str),
}

use Must::{BreakOff, Pass, Refuse};

/// Heads. RFC 9112 sections 2.2, 3, 5.1, 5.2, 6.1 to 6.3 and 11.2; RFC 9110 section 5.5.
const HEADS: &[(&str, Must)] = &[
    ("Content-Length: 3\r\nTransfer-Encoding: chunked", Refuse("400")),
    ("Transfer-Encoding: chunked\r\nContent-Length: 3", Refuse("400")),
    ("Content-Length: 3\r\nContent-Length: 3", Refuse("400")),
    ("Content-Length: 3\r\nContent-Length: 4", Refuse("400")),
    ("Content-Length: 3\r\nX: y\r\ncontent-length: 3", Refuse("400")),
    ("Content-Length: 3, 3", Refuse("400")),
    ("Content-Length:", Refuse("400")),
    ("Content-Length: +3", Refuse("400")),
    ("Content-Length: -1", Refuse("400")),
    ("Content-Length: 3 3", Refuse("400")),
    ("Content-Length: 0x3", Refuse("400")),
    ("Content-Length: 99999999999999999999", Refuse("400")),
    ("Content-Length:\r\n 3", Refuse("400")),
    ("Transfer-Encoding: gzip, chunked", Refuse("501")),
    ("Transfer-Encoding: chunked, identity", Refuse("400")),
    ("Transfer-Encoding: identity", Refuse("400")),
    ("Transfer-Encoding: xchunked", Refuse("400")),
    ("Transfer-Encoding: \"chunked\"", Refuse("400")),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", Refuse("400")),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", Refuse("400")),
    ("Transfer-Encoding:\r\n chunked", Refuse("400")),
    ("Transfer-Encoding : chunked", Refuse("400")),
    ("Content-Length : 3", Refuse("400")),
    (" Content-Length: 3", Refuse("400")),
    ("Transfer-Encoding: \x0bchunked", Refuse("400")),
    ("X: a\r\n folded", Refuse("400")),
    ("X: a\r\n\tTransfer-Encoding: chunked", Refuse("400")),
    ("X: a\0b", Refuse("400")),
    ("X: a\rTransfer-Encoding: chunked", Refuse("400")),
    ("X\x01: b", Refuse("400")),
    (": b", Refuse("400")),
    ("no colon", Refuse("400")),
];

/// Bodies in chunks (RFC 9112 section 7.1), up to where the hidden request begins.
const CHUNKS: &[(&str, Must)] = &[
    ("3\r\nabc\r\n0\r\n\r\n", Pass("3\r\nabc\r\n0\r\n\r\n")),
    ("003\r\nabc\r\n0000\r\n\r\n", Pass("3\r\nabc\r\n0\r\n\r\n")),
    ("3;a=b;c=\"d\"\r\nabc\r\n0\r\n\r\n", Pass("3\r\nabc\r\n0\r\n\r\n")),
    ("+3\r\nabc\r\n0\r\n\r\n", BreakOff),
    ("-3\r\nabc\r\n0\r\n\r\n", BreakOff),
    ("0x3\r\nabc\r\n0\r\n\r\n", BreakOff),
    ("3_\r\nabc\r\n0\r\n\r\n", BreakOff),
    ("\r\nabc\r\n0\r\n\r\n", BreakOff),
    (";a\r\nabc\r\n0\r\n\r\n", BreakOff),
    ("3\nabc\n0\n\n", BreakOff),
    ("3;a\nabc\r\n0\r\n\r\n", BreakOff),
    ("3;a=\"\r\n\"\r\nabc\r\n0\r\n\r\n", BreakOff),
    ("3\rabc\r\n0\r\n\r\n", BreakOff),
    ("3\r\nabcd\r\n0\r\n\r\n", BreakOff),
    ("3\r\nabc0\r\n\r\n", BreakOff),
    ("10000000000000003\r\nabc\r\n0\r\n\r\n", BreakOff),
    ("fffffffffffffffff\r\nabc\r\n0\r\n\r\n", BreakOff),
    // Trailers never become headers, whatever they are called.
    ("3\r\nabc\r\n0\r\nX: y\r\n\r\n", Pass("3\r\nabc\r\n0\r\n\r\n")),
    ("3\r\nabc\r\n0\r\nContent-Length: 99\r\nHost: b\r\n\r\n", Pass("3\r\nabc\r\n0\r\n\r\n")),
    ("3\r\nabc\r\n0\r\nTransfer-Encoding: x\r\n\r\n", Pass("3\r\nabc\r\n0\r\n\r\n")),
    ("3\r\nabc\r\n0\r\nno colon\r\n\r\n", BreakOff),
];

fn http(service: &Service) -> Running {
    start(vserver(Kind::Http, &[service.address]))
}

#[tokio::test]
async fn requests_of_http_1_that_can_be_read_in_two_ways_are_refused() {
    let service = noting().await;
    let running = http(&service);
    for (headers, must) in HEADS {
        let Refuse(status) = must else { unreachable!() };
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{headers}\r\n\r\n");
        let response = running.say(format!("{head}3\r\nabc\r\n0\r\n\r\n{HIDDEN}")).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{headers:?}: {response}");
        assert_eq!(response.matches("HTTP/1.1").count(), 1, "{headers:?}: {response}");
    }
    assert_eq!((service.heads(), running.active()), (vec![], vec![0]));
}

#[tokio::test]
async fn chunks_go_on_framed_anew_or_not_at_all() {
    let service = noting().await;
    let running = http(&service);
    for (chunks, must) in CHUNKS {
        let before = service.heads().len();
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let last = "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let response = match must {
            Pass(_) => running.say(format!("{head}{chunks}{last}")).await,
            BreakOff | Refuse(_) => running.say(format!("{head}{chunks}{HIDDEN}")).await,
        };
        let heads = service.heads()[before..].to_vec();
        assert!(!heads.iter().any(|head| head.contains("/smuggled")), "{chunks:?}: {heads:?}");
        match must {
            Pass(body) => {
                assert!(response.contains(&format!("\r\n\r\n{body}HTTP/1.1 200")), "{chunks:?}: {response}");
                assert_eq!(heads.len(), 2, "{chunks:?}: {heads:?}");
                for name in ["content-length", "x"] {
                    assert_eq!(header(&heads[0], name), None, "{chunks:?}: {}", heads[0]);
                }
                assert_eq!(header(&heads[0], "host"), Some("a"));
            }
            BreakOff | Refuse(_) => {
                assert!(response.starts_with("HTTP/1.1 400"), "{chunks:?}: {response}");
                assert_eq!(header(&response, "gslb-reason"), Some("body"), "{chunks:?}");
                assert_eq!(response.matches("HTTP/1.1").count(), 1, "{chunks:?}: {response}");
                assert_eq!(
                    running.view().idle,
                    [0],
                    "{chunks:?}: a half request's connection is not used again"
                );
            }
        }
    }
    eventually("ended", || running.active() == [0]).await;
    assert_eq!(running.view().counts.failed, 0, "nothing of it is the service's fault");
}

type Header = (&'static str, &'static str);

const GET: [Header; 4] = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")];

/// HTTP/2 that would be something else in HTTP/1.1 (RFC 9113 sections 8.1 to 8.3 and 10.3).
const DOWNGRADES: &[(&str, &[Header], Option<&str>)] = &[
    (
        "a coding",
        &[("transfer-encoding", "chunked")],
        Some("0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"),
    ),
    ("Connection", &[("connection", "keep-alive")], None),
    ("Proxy-Connection", &[("proxy-connection", "x")], None),
    ("Keep-Alive", &[("keep-alive", "x")], None),
    ("Upgrade", &[("upgrade", "websocket")], None),
    ("TE other than trailers", &[("te", "gzip")], None),
    ("CR LF in a value", &[("x", "a\r\nTransfer-Encoding: chunked")], None),
    ("CR in a value", &[("x", "a\rb")], None),
    ("LF in a value", &[("x", "a\nGET /smuggled HTTP/1.1")], None),
    ("NUL in a value", &[("x", "a\0b")], None),
    ("CR LF in a name", &[("x: y\r\nz", "b")], None),
    ("a colon in a name", &[("x:y", "b")], None),
    ("a space in a name", &[("content-length ", "3")], None),
    ("a name in capitals", &[("X", "b")], None),
    ("an empty name", &[("", "b")], None),
    ("CR LF in the host", &[("host", "a\r\nX: y")], None),
    ("two hosts", &[("host", "a"), ("host", "b")], None),
    ("two lengths", &[("content-length", "3"), ("content-length", "4")], Some("abc")),
    ("a length with a sign", &[("content-length", "+3")], Some("abc")),
    ("no length", &[("content-length", "x")], Some("abc")),
    ("a pseudo-header after others", &[("x", "y"), (":path", "/smuggled")], None),
    ("a path twice", &[(":path", "/smuggled")], None),
    ("a pseudo-header that is none", &[(":x", "y")], None),
];

/// The same in the request line.
const LINES: &[(&str, [Header; 4])] = &[
    ("CR LF in the path", [GET[0], GET[1], (":path", "/ HTTP/1.1\r\nHost: b\r\n\r\nGET /smuggled"), GET[3]]),
    ("a space in the path", [GET[0], GET[1], (":path", "/ HTTP/1.1"), GET[3]]),
    ("no slash in the path", [GET[0], GET[1], (":path", "smuggled"), GET[3]]),
    ("an empty path", [GET[0], GET[1], (":path", ""), GET[3]]),
    ("a space in the method", [(":method", "GET /smuggled HTTP/1.1\r\nX:"), GET[1], GET[2], GET[3]]),
    ("CR LF in the authority", [GET[0], GET[1], GET[2], (":authority", "a\r\nX: y")]),
    ("a path in the authority", [GET[0], GET[1], GET[2], (":authority", "a/smuggled?")]),
    ("CR LF in the scheme", [GET[0], (":scheme", "http\r\nX: y"), GET[2], GET[3]]),
    ("CONNECT", [(":method", "CONNECT"), GET[1], GET[2], GET[3]]),
];

#[tokio::test]
async fn requests_of_http_2_that_would_be_others_in_http_1_do_not_pass() {
    let service = noting().await;
    let running = http(&service);
    for (what, more, data) in DOWNGRADES {
        let headers = [&GET[..], more].concat();
        let fate = raw_h2::ask(&running, &headers, data.map(str::as_bytes)).await;
        println!("{what}: {fate:?}");
        assert_ne!(fate, Fate::Answered, "{what}");
    }
    for (what, line) in LINES {
        let fate = raw_h2::ask(&running, line, None).await;
        println!("{what}: {fate:?}");
        assert_ne!(fate, Fate::Answered, "{what}");
    }
    assert_eq!(service.heads(), [""; 0]);
    // A length that the data does not keep is found when the head has gone on.
    for length in ["2", "4"] {
        let fate =
            raw_h2::ask(&running, &[&GET[..], &[("content-length", length)]].concat(), Some(b"abc")).await;
        assert_ne!(fate, Fate::Answered, "{length}");
    }
    eventually("ended", || running.active() == [0]).await;
    assert!(
        service.heads().iter().all(|head| head.starts_with("GET / HTTP/1.1\r\n")),
        "{:?}",
        service.heads()
    );
    assert_eq!(running.view().idle, [0], "a half request's connection is not used again");
}

#[tokio::test]
async fn requests_of_http_2_that_are_proper_go_on_in_one_way() {
    let service = noting().await;
    let running = http(&service);
    let whole: &[u8] = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    let length = whole.len().to_string();
    for headers in [&GET[..], &[&GET[..], &[("content-length", &length)]].concat()] {
        assert_eq!(raw_h2::ask(&running, headers, Some(whole)).await, Fate::Answered);
    }
    // The authority is the host, whatever Host says.
    let two = [&GET[..], &[("host", "b"), ("x-forwarded-host", "b")]].concat();
    assert_eq!(raw_h2::ask(&running, &two, None).await, Fate::Answered);
    let heads = service.heads();
    assert_eq!(heads.len(), 3, "{heads:?}");
    let framing = |head: &String| {
        (
            header(head, "transfer-encoding").map(str::to_owned),
            header(head, "content-length").map(str::to_owned),
        )
    };
    assert_eq!(framing(&heads[0]), (Some("chunked".to_owned()), None));
    assert_eq!(framing(&heads[1]), (None, Some(length)));
    assert_eq!((header(&heads[2], "host"), header(&heads[2], "x-forwarded-host")), (Some("a"), Some("a")));
}
