//! Programs that people use: curl, wrk and h2load as clients, nginx and haproxy as services.
//!
//! A program that is not installed is said to be missing, and its test skipped; the continuous integration installs them all, and
//! lets none be missing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "an integration test is all test")]

mod support;

use lb_proxy::Kind;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::service::{Connection, Service};
use support::tls::write_pair;
use support::{Running, body, eventually, header, must_run, name, rest, start, vserver};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

/// Whether these programs are there; says so if not, and fails where everything must run (`GSLB_LAB=required`).
fn have(programs: &[&str]) -> bool {
    let places = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    let is_there = |program: &str| places.split(':').any(|place| Path::new(place).join(program).exists());
    let missing: Vec<_> = programs.iter().filter(|program| !is_there(program)).collect();
    if missing.is_empty() {
        return true;
    }
    assert!(!must_run(), "not installed: {missing:?}");
    println!("SKIPPED: not installed: {missing:?}");
    false
}

/// Runs a program to its end, off the runtime's threads, and returns what it printed.
async fn run(program: &'static str, arguments: Vec<String>) -> String {
    let output = tokio::task::spawn_blocking(move || Command::new(program).args(arguments).output().unwrap());
    let output = output.await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A program that serves, ended with the test.
struct Server {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a program whose configuration is made for a free port, and waits until it listens.
async fn serve(
    program: &str,
    arguments: &str,
    configuration: impl Fn(SocketAddr, &Path) -> String,
) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let address = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
    let file = folder.path().join("configuration");
    std::fs::write(&file, configuration(address, folder.path())).unwrap();
    std::fs::write(folder.path().join("big"), vec![b'y'; 3_000_000]).unwrap();
    let mut command = Command::new(program);
    command.args(words(arguments)).arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let server = Server { child, address, _folder: folder };
    eventually(program, || std::net::TcpStream::connect(address).is_ok()).await;
    server
}

async fn nginx() -> Server {
    nginx_that_listens("").await
}

/// nginx with these words after its address.
async fn nginx_that_listens(how: &'static str) -> Server {
    serve("/usr/sbin/nginx", "-e /dev/null -c", move |address, folder| {
        let folder = folder.display();
        format!(
            "daemon off; master_process off; pid {folder}/pid; error_log /dev/null;
             events {{ worker_connections 512; }}
             http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
               fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
               server {{ listen {address} backlog=512 {how}; root {folder}; client_max_body_size 100m;
                 location = / {{ return 200 'nginx\\n'; }} location = /big {{ }}
                 location = /who {{ return 200 '$proxy_protocol_addr:$proxy_protocol_port\\n'; }} }} }}"
        )
    })
    .await
}

async fn haproxy() -> Server {
    haproxy_that_binds("").await
}

/// haproxy with these words after its address. `/who` tells the client it was told of.
async fn haproxy_that_binds(how: &'static str) -> Server {
    serve("/usr/sbin/haproxy", "-db -f", move |address, _| {
        format!(
            "global\n  maxconn 512\ndefaults\n  mode http\n  timeout client 5s\n  timeout server 5s\n  timeout connect 1s\n\
             frontend f\n  bind {address} {how}\n  http-request return status 200 content-type text/plain lf-string \"%ci:%cp\\n\" if {{ path /who }}\n  \
             http-request return status 200 content-type text/plain string \"haproxy\\n\"\n"
        )
    })
    .await
}

fn http(services: &[SocketAddr]) -> Running {
    start(vserver(Kind::Http, services))
}

/// Echoes what is posted, however it is framed; says which framing.
async fn echo() -> Service {
    Service::start(|mut connection: Connection| async move {
        while let Some(head) = connection.request().await {
            let length = header(&head, "content-length").map(|l| l.parse::<usize>().unwrap());
            if header(&head, "expect").is_some() {
                connection.send("HTTP/1.1 100 Continue\r\n\r\n").await;
            }
            let sent = match length {
                Some(length) => connection.exactly(length).await,
                None if header(&head, "transfer-encoding") == Some("chunked") => {
                    support::until(&mut connection.stream, "0\r\n\r\n").await.into_bytes()
                }
                None => Vec::new(),
            };
            connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", sent.len())).await;
            connection.send(sent).await;
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_speaks_http_1_and_http_2_and_uploads() {
    if !have(&["curl"]) {
        return;
    }
    let service = echo().await;
    let running = http(&[service.address]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let content: Vec<u8> = (0..2_000_000u32).map(|n| n as u8 % 251).collect();
    std::fs::write(&file, &content).unwrap();
    let back = folder.path().join("back");
    for (protocol, expect) in [
        ("--http1.1", "-HExpect:100-continue"),
        ("--http1.1", "-HExpect:"),
        ("--http2-prior-knowledge", "-HA:b"),
    ] {
        let arguments = format!(
            "-sS -m 20 {protocol} {expect} --data-binary @{} -o {} -w %{{http_code}}:%{{http_version}} http://{}/",
            file.display(),
            back.display(),
            running.address
        );
        let told = run("curl", words(&arguments)).await;
        assert_eq!(told, if protocol == "--http1.1" { "200:1.1" } else { "200:2" });
        assert_eq!(std::fs::read(&back).unwrap(), content, "{protocol} {expect}");
    }
    let chunked = format!("-sS -m 20 -HTransfer-Encoding:chunked -d abc http://{}/", running.address);
    assert_eq!(run("curl", words(&chunked)).await, "3\r\nabc\r\n0\r\n\r\n");
    let head = run("curl", words(&format!("-sS -m 20 -I http://{}/", running.address))).await;
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert_eq!(running.active(), [0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_speaks_tls() {
    if !have(&["curl"]) {
        return;
    }
    let service = Service::fixed("secret").await;
    let folder = tempfile::tempdir().unwrap();
    let files = write_pair(folder.path(), "a", &["a.test"]);
    let ca = files.certificate.display().to_string();
    let running = start(vserver(Kind::Ssl { certificates: vec![files] }, &[service.address]));
    let port = running.address.port();
    for (protocol, version) in [("--http2", "2"), ("--http1.1", "1.1"), ("--tls-max 1.2", "2")] {
        let arguments = format!(
            "-sS -m 20 {protocol} --cacert {ca} --resolve a.test:{port}:127.0.0.1 -w :%{{http_version}} https://a.test:{port}/"
        );
        assert_eq!(run("curl", words(&arguments)).await, format!("secret:{version}"), "{protocol}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_and_haproxy_are_services_like_others() {
    if !have(&["nginx", "haproxy"]) {
        return;
    }
    let (nginx, haproxy) = (nginx().await, haproxy().await);
    let running = http(&[nginx.address, haproxy.address]);
    let answers = [running.get("/").await, running.get("/").await, running.get("/").await];
    assert_eq!(answers.each_ref().map(|a| body(a)), ["nginx\n", "haproxy\n", "nginx\n"]);
    let big = http(&[nginx.address]).get("/big").await;
    assert_eq!(body(&big).len(), 3_000_000);
    // haproxy ends; nginx has all.
    drop(haproxy);
    for _ in 0..4 {
        assert_eq!(body(&running.get("/").await), "nginx\n");
    }
    assert_eq!(running.view().counts.failed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrk_sees_no_error_on_kept_and_on_new_connections() {
    if !have(&["wrk", "nginx"]) {
        return;
    }
    let nginx = nginx().await;
    let tcp = start(vserver(Kind::Tcp { proxy_protocol: false }, &[nginx.address]));
    let running = http(&[nginx.address]);
    for (address, more) in [(running.address, ""), (running.address, "-HConnection:close"), (tcp.address, "")]
    {
        let report = run("wrk", words(&format!("-t1 -c16 -d1s {more} http://{address}/"))).await;
        println!("{}", report.lines().find(|l| l.contains("requests in")).unwrap_or_default().trim());
        assert!(!report.contains("Non-2xx") && !report.contains("Socket errors"), "{report}");
    }
    assert_eq!((running.view().counts.failed, running.view().counts.no_service), (0, 0));
    eventually("all ended", || running.active() == [0] && tcp.active() == [0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h2load_sees_no_error() {
    if !have(&["h2load", "nginx"]) {
        return;
    }
    let nginx = nginx().await;
    let running = http(&[nginx.address]);
    for path in ["", "big"] {
        let requests = if path.is_empty() { 2000 } else { 40 };
        let report =
            run("h2load", words(&format!("-n{requests} -c4 -m20 http://{}/{path}", running.address))).await;
        let told =
            report.lines().find(|line| line.starts_with("status codes")).unwrap_or_default().to_owned();
        assert_eq!(told, format!("status codes: {requests} 2xx, 0 3xx, 0 4xx, 0 5xx"), "{report}");
    }
    eventually("all ended", || running.active() == [0]).await;
}

/// Real receivers of the PROXY protocol take our header for what it is, and learn the client's address and port.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_and_haproxy_learn_the_client_by_the_proxy_protocol() {
    if !have(&["nginx", "haproxy"]) {
        return;
    }
    let servers = [nginx_that_listens("proxy_protocol").await, haproxy_that_binds("accept-proxy").await];
    for (server, what) in servers.iter().zip(["nginx", "haproxy"]) {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let mut settings = vserver(Kind::Tcp { proxy_protocol: true }, &[server.address]);
            settings.listen = vec![listen.parse().unwrap()];
            let running = start(settings);
            let mut client = running.connect().await;
            let from = client.local_addr().unwrap();
            client.write_all(b"GET /who HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
            let response = rest(&mut client).await;
            assert_eq!(body(&response), format!("{}:{}\n", from.ip(), from.port()), "{what}: {response}");
        }
        // Without the header they take no client at all: they really read it.
        let bare = start(vserver(Kind::Tcp { proxy_protocol: false }, &[server.address]));
        assert!(!bare.get("/who").await.starts_with("HTTP/1.1 200"), "{what}");
    }
}

/// The same loads through ssl, where h2load agrees on HTTP/2 and wrk speaks HTTP/1.1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrk_and_h2load_see_no_error_through_tls() {
    if !have(&["wrk", "h2load", "nginx"]) {
        return;
    }
    let nginx = nginx().await;
    let folder = tempfile::tempdir().unwrap();
    let files = write_pair(folder.path(), "a", &["a.test"]);
    let running = start(vserver(Kind::Ssl { certificates: vec![files] }, &[nginx.address]));
    let report = run("wrk", words(&format!("-t1 -c16 -d1s https://{}/", running.address))).await;
    println!("{}", report.lines().find(|l| l.contains("requests in")).unwrap_or_default().trim());
    assert!(!report.contains("Non-2xx") && !report.contains("Socket errors"), "{report}");
    let report = run("h2load", words(&format!("-n500 -c4 -m20 https://{}/", running.address))).await;
    assert!(report.contains("Application protocol: h2\n"), "{report}");
    assert!(report.contains("status codes: 500 2xx, 0 3xx, 0 4xx, 0 5xx"), "{report}");
    assert_eq!((running.view().counts.failed, running.view().counts.no_service), (0, 0));
    eventually("all ended", || running.active() == [0]).await;
}

/// Drained first, a service may be killed in the middle of the load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_that_are_drained_while_wrk_asks_fail_nobody() {
    if !have(&["wrk", "nginx", "haproxy"]) {
        return;
    }
    let (nginx, haproxy) = (nginx().await, haproxy().await);
    let running = http(&[nginx.address, haproxy.address]);
    let wrk = tokio::spawn(run("wrk", words(&format!("-t1 -c32 -d3s http://{}/", running.address))));
    eventually("under load", || running.requests().iter().all(|requests| *requests > 500)).await;
    running.proxy.drain(&name("s2"), Some(Duration::from_secs(20)));
    eventually("drained", || running.proxy.is_drained(&name("s2"))).await;
    drop(haproxy); // killed: nobody is there any more
    let report = wrk.await.unwrap();
    println!("{}", report.lines().find(|l| l.contains("requests in")).unwrap_or_default().trim());
    assert!(!report.contains("Non-2xx") && !report.contains("Socket errors"), "{report}");
    assert_eq!((running.view().counts.failed, running.view().counts.no_service), (0, 0));
}
