//! HTTP virtual servers: what passes, what is changed on the way, and what is counted.

#![allow(clippy::unwrap_used, reason = "an integration test is all test")]

mod support;

use lb_proxy::Kind;
use support::service::Service;
use support::{body, eventually, header, start, until, vserver, within};
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn a_request_passes_with_its_host_and_the_client_named() {
    let service = Service::fixed("hello").await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let request = "GET /a?b=c HTTP/1.1\r\nHost: www.test:80\r\nX-Forwarded-For: 10.0.0.1\r\nAccept: x\r\n\
                   Connection: close\r\n\r\n";
    let response = running.say(request).await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert_eq!((body(&response), header(&response, "content-length")), ("hello", Some("5")));
    let expected = "GET /a?b=c HTTP/1.1\r\nhost: www.test:80\r\naccept: x\r\nx-forwarded-for: 10.0.0.1, 127.0.0.1\r\n\
                    x-forwarded-proto: http\r\nx-forwarded-host: www.test:80\r\n\r\n";
    let sorted = |head: &str| {
        let mut lines: Vec<_> = head.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&service.heads()[0]), sorted(expected));
}

#[tokio::test]
async fn connections_are_kept_on_both_sides_and_used_again() {
    let service = Service::fixed("x").await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let mut client = running.connect().await;
    for round in 1..=3 {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        assert!(until(&mut client, "\r\n\r\nx").await.starts_with("HTTP/1.1 200 OK"));
        assert_eq!((service.heads().len(), service.connections()), (round, 1));
    }
    // Another client's request takes the same connection to the service.
    running.get("/").await;
    assert_eq!((service.connections(), running.view().idle), (1, vec![1]));
    assert_eq!((running.active(), running.requests()), (vec![0], vec![4]));
}

#[tokio::test]
async fn what_concerns_one_hop_alone_does_not_pass() {
    let service = Service::start(|mut connection| async move {
        connection.request().await;
        connection
            .send("HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-End: 2\r\nContent-Length: 0\r\n\r\n")
            .await;
        connection.request().await;
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Hop, Host, close\r\nX-Hop: 1\r\nKeep-Alive: 9\r\n\
                   Proxy-Connection: x\r\nTE: gzip, trailers\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\nX-End: 2\r\n\r\n";
    let response = running.say(request).await;
    let sent = &service.heads()[0];
    for gone in ["x-hop", "keep-alive", "proxy-connection", "upgrade", "http2-settings", "connection"] {
        assert_eq!(header(sent, gone), None, "{gone}");
    }
    assert_eq!(
        (header(sent, "host"), header(sent, "te"), header(sent, "x-end")),
        (Some("a"), Some("trailers"), Some("2"))
    );
    assert_eq!((header(&response, "x-hop"), header(&response, "keep-alive")), (None, None));
    assert_eq!(header(&response, "x-end"), Some("2"));
}

#[tokio::test]
async fn bodies_pass_both_ways_piece_by_piece_with_their_trailers() {
    let service = Service::start(|mut connection| async move {
        connection.request().await.unwrap();
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n").await;
        // Echoes a piece before the next one is sent: nothing on the way waits for the whole.
        assert_eq!(until(&mut connection.stream, "3\r\none\r\n").await, "3\r\none\r\n");
        connection.send("3\r\none\r\n").await;
        assert_eq!(until(&mut connection.stream, "3\r\ntwo\r\n").await, "3\r\ntwo\r\n");
        connection.send("3\r\ntwo\r\n0\r\nX-Sum: 6\r\n\r\n").await;
        until(&mut connection.stream, "0\r\n\r\n").await;
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let mut client = running.connect().await;
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        .await
        .unwrap();
    let head = until(&mut client, "\r\n\r\n").await;
    assert_eq!(header(&head, "transfer-encoding"), Some("chunked"));
    assert_eq!(until(&mut client, "one\r\n").await, "3\r\none\r\n");
    client.write_all(b"3\r\ntwo\r\n0\r\n\r\n").await.unwrap();
    assert_eq!(
        until(&mut client, "X-Sum: 6\r\n\r\n".to_lowercase().as_str()).await,
        "3\r\ntwo\r\n0\r\nx-sum: 6\r\n\r\n"
    );
}

#[tokio::test]
async fn answers_without_a_body_keep_their_length_and_the_connection() {
    let service = Service::start(|mut connection| async move {
        for head in [
            "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        ] {
            connection.request().await.unwrap();
            connection.send(head).await;
        }
        connection.request().await;
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let mut client = running.connect().await;
    for (method, status, length) in
        [("HEAD", "200", Some("1000")), ("GET", "204", None), ("GET", "304", None), ("GET", "200", Some("2"))]
    {
        client.write_all(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.unwrap();
        let head = until(&mut client, "\r\n\r\n").await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        assert_eq!(header(&head, "content-length"), length, "{head}");
    }
    assert_eq!(until(&mut client, "ok").await, "ok");
    assert_eq!(service.connections(), 1);
}

#[tokio::test]
async fn the_service_says_whether_a_client_may_send_its_body() {
    let service = Service::start(|mut connection| async move {
        let head = connection.request().await.unwrap();
        assert_eq!(header(&head, "expect"), Some("100-continue"));
        connection.send("HTTP/1.1 100 Continue\r\n\r\n").await;
        assert_eq!(connection.exactly(4).await, b"body");
        connection.respond("taken").await;
        connection.request().await.unwrap();
        connection.send("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n").await;
        assert_eq!(connection.request().await, None);
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    let mut client = running.connect().await;
    client.write_all(request).await.unwrap();
    assert_eq!(until(&mut client, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"body").await.unwrap();
    assert!(until(&mut client, "taken").await.starts_with("HTTP/1.1 200"));
    // The second time the service does not want it: the client hears that, and no word to go on.
    client.write_all(request).await.unwrap();
    assert!(until(&mut client, "\r\n\r\n").await.starts_with("HTTP/1.1 413"));
}

/// Threat: a body that was never asked for keeps neither the client's place nor the connection to the service.
#[tokio::test]
async fn an_answer_in_place_of_a_body_ends_both_connections() {
    let (tell, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let service = Service::start(move |mut connection| {
        let tell = tell.clone();
        async move {
            connection.request().await.unwrap();
            connection.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno").await;
            tell.send(connection.request().await).unwrap();
        }
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let mut client = running.connect().await;
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n")
        .await
        .unwrap();
    assert!(until(&mut client, "no").await.starts_with("HTTP/1.1 401"));
    let begun = std::time::Instant::now();
    assert_eq!(within(ended.recv()).await, Some(None), "the service is let go");
    drop(client);
    eventually("the client's place is free", || running.view().connections == 0).await;
    assert_eq!(running.active(), [0]);
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_websocket_is_a_tunnel_and_an_active_transaction() {
    let service = Service::start(|mut connection| async move {
        let head = connection.request().await.unwrap();
        assert_eq!((header(&head, "upgrade"), header(&head, "connection")), (Some("websocket"), Some("upgrade")));
        connection
            .send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nwelcome")
            .await;
        assert_eq!(connection.exactly(5).await, b"hello");
        connection.send("bye").await;
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let mut client = running.connect().await;
    client
        .write_all(
            b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\r\n",
        )
        .await
        .unwrap();
    let head = until(&mut client, "\r\n\r\n").await;
    assert_eq!((header(&head, "upgrade"), header(&head, "connection")), (Some("websocket"), Some("upgrade")));
    assert_eq!(until(&mut client, "welcome").await, "welcome");
    assert_eq!((running.active(), running.view().connections), (vec![1], 1));
    client.write_all(b"hello").await.unwrap();
    assert_eq!(until(&mut client, "bye").await, "bye");
    drop(client);
    within(eventually("tunnel over", || running.active() == [0] && running.view().connections == 0)).await;
    assert_eq!(running.view().counts.tunnels, 1);
}

/// [S-LRT]: time to first byte, of responses with status 200 alone, from the dispatch to the head.
#[tokio::test(start_paused = true)]
async fn only_responses_with_status_200_are_measured_and_to_their_head_alone() {
    use std::time::Duration;
    let service = Service::start(|mut connection| async move {
        for status in [500, 404, 204, 302, 200] {
            connection.request().await.unwrap();
            tokio::time::sleep(Duration::from_millis(7)).await;
            connection.send(format!("HTTP/1.1 {status} X\r\n")).await;
            if status != 204 {
                connection.send("Content-Length: 1\r\n").await;
            }
            connection.send("\r\n").await;
            if status != 204 {
                tokio::time::sleep(Duration::from_millis(30)).await;
                connection.send("y").await;
            }
        }
        connection.request().await;
    })
    .await;
    let running = start(vserver(Kind::Http, &[service.address]));
    let ttfb = || running.view().balancer.members[0].ttfb;
    for _ in 0..4 {
        running.get("/").await;
        assert_eq!(ttfb(), None);
    }
    running.get("/").await;
    assert_eq!(ttfb(), Some(gslb_types::Rtt::from_micros(7_000)));
}
