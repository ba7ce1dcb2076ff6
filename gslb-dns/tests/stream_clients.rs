//! Clients that take connections and give nothing for them.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod process;

use process::{Process, free_ports};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

const IDLE: Duration = Duration::from_secs(1);

/// A node alone in its group, until it is dropped.
struct Node {
    _process: Process,
    dns: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Node {
    /// Starts it with these lines in the table `dns`.
    fn start(dns: &str) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_ports(2));
        let pki = folder.path().join("pki");
        let pki = pki.to_str().unwrap();
        assert!(Process::start(&["pki", "init", pki, "--group", "test"]).wait(SOON).success());
        assert!(Process::start(&["pki", "issue", pki, "fra/1"]).wait(SOON).success());
        let config = folder.path().join("gslb.toml");
        std::fs::write(&config, text(port, dns)).unwrap();
        let process = Process::start(&["--log", "error", "run", config.to_str().unwrap()]);
        let dns = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let end = Instant::now() + SOON;
        while TcpStream::connect(dns).is_err() {
            assert!(Instant::now() < end, "the node does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Node { _process: process, dns, _folder: folder }
    }
}

fn text(port: u16, dns: &str) -> String {
    let mep = port + 1;
    format!(
        r#"version = 1
[group]
name = "test"
[dns]
listen = ["127.0.0.1:{port}"]
{dns}
[mep]
listen = "127.0.0.1:{mep}"
[admin]
listen = "off"
[[sites]]
name = "fra"
[[nodes]]
name = "fra/1"
mep = "127.0.0.1:{mep}"
[[zones]]
name = "gslb.test"
records = '''
@   SOA ns1 hostmaster 1 1h 15m 1w 5s
    NS  ns1
ns1 A   127.0.0.1
'''
"#
    )
}

/// Whether the other end has closed the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 16]) {
        Ok(read) => read == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

/// Threat T15: the caps hold for connections over TLS too, from the first packet on.
#[test]
fn a_client_that_hoards_tls_connections_loses_its_own() {
    let port = free_ports(1);
    let dot = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let _node = Node::start(&format!(
        "tcp_connections_per_address = 4\n[dns.tls]\nlisten = [\"{dot}\"]\ncertificate = \"pki/fra-1.crt\"\nkey = \"pki/fra-1.key\""
    ));
    let connect = |_| {
        let stream = TcpStream::connect(dot).unwrap();
        stream.set_read_timeout(Some(IDLE / 10)).unwrap();
        stream
    };
    let mut silent: Vec<TcpStream> = (0..5).map(connect).collect();
    // A handshake that never begins ends after 5 s, for all of them: the first goes at once, and alone.
    let end = Instant::now() + Duration::from_secs(4);
    while !is_closed(&mut silent[0]) {
        assert!(Instant::now() < end, "the fifth connection has closed none");
    }
    assert!(silent[1..].iter_mut().all(|stream| !is_closed(stream)));
}

/// RFC 7766 section 6.2.3, faults I-25: messages that deserve no reply keep no connection open.
#[test]
fn a_client_that_sends_messages_without_content_is_idle() {
    let node = Node::start("tcp_idle_timeout = \"1s\"");
    let mut client = TcpStream::connect(node.dns).unwrap();
    client.set_read_timeout(Some(IDLE / 10)).unwrap();
    let end = Instant::now() + IDLE + SOON;
    while !is_closed(&mut client) {
        assert!(Instant::now() < end, "messages of length 0 have kept it open");
        // Fails once the connection is closed, which is what is waited for.
        let _ = client.write_all(&[0, 0]);
    }
}
