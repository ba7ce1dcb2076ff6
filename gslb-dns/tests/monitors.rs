//! Every kind of monitor in a running node, from its configuration to the answers and to what the API shows.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod process;

use process::{Process, ask, free_ports};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

/// A server that says this to whoever connects, and then answers each line by the next of these.
fn server(hello: &'static str, answers: &'static [&'static str]) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || talk(&mut stream, hello, answers));
        }
    });
    port
}

fn talk(stream: &mut TcpStream, hello: &str, answers: &[&str]) {
    let _ = stream.write_all(hello.as_bytes());
    for answer in answers {
        if !matches!(stream.read(&mut [0; 1024]), Ok(1..)) || stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// A node with a service for each kind of monitor, all of them bound to one domain.
struct Scene {
    node: Process,
    admin: SocketAddr,
    dns: SocketAddr,
    folder: tempfile::TempDir,
}

impl Scene {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The command runs as nobody.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(folder.path().join("alive"), "").unwrap();
        std::fs::write(folder.path().join("password"), "hush\n").unwrap();
        let pki = folder.path().join("pki");
        let pki = pki.to_str().unwrap();
        assert!(Process::start(&["pki", "init", pki, "--group", "test"]).wait(SOON).success());
        assert!(Process::start(&["pki", "issue", pki, "fra/1"]).wait(SOON).success());
        let port = free_ports(3);
        let file = folder.path().join("gslb.toml");
        std::fs::write(&file, text(folder.path(), port)).unwrap();
        let at = |port| (Ipv4Addr::LOCALHOST, port).into();
        let node = Process::start(&["--log", "error", "run", file.to_str().unwrap()]);
        Scene { node, admin: at(port + 2), dns: at(port), folder }
    }

    /// The services as the API shows them; none while it does not answer.
    fn services(&self) -> Vec<Value> {
        let mut asked = Process::start(&["--admin", &self.admin.to_string(), "--json", "services"]);
        asked.wait(SOON);
        let all: Value = serde_json::from_str(&asked.stdout()).unwrap_or_default();
        all["services"].as_array().cloned().unwrap_or_default()
    }

    /// What is answered in many queries, which go round.
    fn answered(&self) -> BTreeSet<Ipv4Addr> {
        (0..40).flat_map(|_| ask(Ipv4Addr::LOCALHOST, self.dns, "www.gslb.test.")).collect()
    }

    fn await_services(&self, what: &str, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let end = Instant::now() + SOON;
        loop {
            let services = self.services();
            if is_so(&services) {
                return services;
            }
            assert!(Instant::now() < end, "not {what} within {SOON:?}: {services:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn text(folder: &Path, port: u16) -> String {
    let (dns, mep, admin) = (port, port + 1, port + 2);
    let web = server("", &["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nstatus=up"]);
    let ftp = server("220 hi\r\n", &["331 go on\r\n", "230 in\r\n", ""]);
    let echo = server("", &["+PONG\r\n"]);
    let alive = folder.join("alive");
    let alive = alive.display();
    let script = format!("test -e {alive} && echo there || {{ echo gone; exit 2; }}");
    // The name, the port, and the monitor.
    let kinds = [
        ("ping", 1, String::new()),
        ("tcp", web, String::new()),
        ("http", web, String::new()),
        ("http-ecv", web, "receive = \"status=up\"".to_owned()),
        ("tcp-ecv", echo, "send = 'PING\\r\\n'\nreceive_regex = '^\\+PONG'".to_owned()),
        ("dns", dns, "query = \"ns1.gslb.test\"\naddresses = [\"127.0.0.1\"]".to_owned()),
        ("ftp", ftp, "user = \"probe\"\npassword_file = \"password\"".to_owned()),
        ("user", 2, format!("command = [\"/bin/sh\", \"-c\", \"{script}\"]")),
    ];
    let mut text = format!(
        r#"version = 1
[group]
name = "test"
[dns]
listen = ["127.0.0.1:{dns}"]
[mep]
listen = "127.0.0.1:{mep}"
[admin]
listen = "127.0.0.1:{admin}"
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
[[vservers]]
name = "www"
local_method = "round_robin"
services = [{}]
[[domains]]
name = "www.gslb.test"
vserver = "www"
"#,
        kinds.iter().map(|(kind, ..)| format!("\"{kind}\"")).collect::<Vec<_>>().join(", ")
    );
    for (n, (kind, port, more)) in kinds.iter().enumerate() {
        text += &format!(
            "[[monitors]]\nname = \"{kind}\"\nkind = \"{kind}\"\ninterval = \"500ms\"\ntimeout = \"400ms\"\nfall = 2\n{more}\n\
             [[services]]\nname = \"{kind}\"\nsite = \"fra\"\naddress = \"127.0.0.{}\"\nport = {port}\nmonitors = [\"{kind}\"]\n",
            // All addresses of loopback are this host; the node listens at the first only.
            if *kind == "dns" { 1 } else { 10 + n },
        );
    }
    text
}

#[test]
fn every_kind_of_monitor_watches_in_a_running_node() {
    let mut scene = Scene::start();
    let up = |services: &[Value]| services.len() == 8 && services.iter().all(|s| s["state"] == "up");
    let services = scene.await_services("up", up);
    for service in &services {
        let monitor = &service["monitors"][0];
        println!("{:9} {}", monitor["kind"].as_str().unwrap(), monitor["last"].as_str().unwrap());
        let can_run = monitor["passing"] == true;
        assert_eq!(service["service"], monitor["kind"]);
        // Who may not ping has no such monitor.
        assert!(can_run || monitor["kind"] == "ping", "{service:#}");
        assert!(!can_run || monitor["response_time_us"].as_u64() < Some(400_000), "{service:#}");
    }
    assert_eq!(services[7]["monitors"][0]["recent"][0]["passed"], true);
    assert!(!format!("{services:?}").contains("hush"), "a password is shown");

    let user = Ipv4Addr::new(127, 0, 0, 17);
    assert!(scene.answered().contains(&user));
    std::fs::remove_file(scene.folder.path().join("alive")).unwrap();
    let down = |services: &[Value]| services.iter().any(|s| s["service"] == "user" && s["state"] == "down");
    let services = scene.await_services("down", down);
    let reason = services[7]["reason"].as_str().unwrap();
    assert!(reason.starts_with("user 127.0.0.17:2: CRITICAL: gone"), "{reason}");
    assert!(!scene.answered().contains(&user));
    assert!(services[..7].iter().all(|s| s["state"] == "up"), "the others stay as they are");
    std::fs::write(scene.folder.path().join("alive"), "").unwrap();
    scene.await_services("up again", up);
    assert!(scene.answered().contains(&user));
    scene.node.interrupt();
    assert!(scene.node.wait(SOON).success());
}
