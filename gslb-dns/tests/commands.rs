//! `run`, `check` and `pki` as an operator uses them, and how they fail.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod process;

use nix::sys::signal::Signal;
use process::{Process, free_ports};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

struct Folder(tempfile::TempDir);

impl Folder {
    /// A folder with the certificates of a group of one node, and its configuration.
    fn new(port: u16) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        let pki = folder.path("pki");
        let pki = pki.to_str().unwrap();
        assert!(Process::start(&["pki", "init", pki, "--group", "test"]).wait(SOON).success());
        assert!(Process::start(&["pki", "issue", pki, "fra/1"]).wait(SOON).success());
        std::fs::write(folder.config(), config(port)).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn config(&self) -> PathBuf {
        self.path("gslb.toml")
    }
}

fn config(port: u16) -> String {
    let (mep, admin) = (port + 1, port + 2);
    format!(
        r#"version = 1
[group]
name = "test"
[dns]
listen = ["127.0.0.1:{port}"]
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
[[services]]
name = "web"
site = "fra"
address = "192.0.2.80"
port = 80
[[vservers]]
name = "www"
services = ["web"]
[[domains]]
name = "www.gslb.test"
vserver = "www"
"#
    )
}

fn run(config: &Path) -> Process {
    Process::start(&["--log", "error", "run", config.to_str().unwrap()])
}

/// Waits until the node answers, and returns what it answers.
fn answer(port: u16) -> Vec<Ipv4Addr> {
    // The admin API is the last to listen.
    process::wait_for_listener(&format!("127.0.0.1:{}", port + 2), SOON);
    process::ask(Ipv4Addr::LOCALHOST, ([127, 0, 0, 1], port).into(), "www.gslb.test")
}

#[test]
fn a_node_answers_and_ends_with_code_0_when_told_to() {
    let port = free_ports(3);
    let folder = Folder::new(port);
    let mut node = run(&folder.config());
    assert_eq!(answer(port), [Ipv4Addr::new(192, 0, 2, 80)]);
    node.signal(Signal::SIGTERM);
    let told = std::time::Instant::now();
    assert!(node.wait(SOON).success());
    // Two seconds is the bar (R20); a busy machine gets more.
    assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
    // The port is free at once.
    drop(std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap());
}

/// Faults I-69: a taken port ends the process with the reason.
#[test]
fn a_taken_port_is_named_and_nothing_is_left_running() {
    let port = free_ports(3);
    let folder = Folder::new(port);
    let taken = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let mut node = run(&folder.config());
    assert_eq!(node.wait(SOON).code(), Some(1));
    let said = node.stderr();
    assert!(said.contains(&format!("cannot listen on 127.0.0.1:{port} (UDP)")), "{said}");
    drop(taken);
}

/// Two nodes of one user on one port: SO_REUSEPORT must not let the second take half of the queries.
#[test]
fn a_second_node_on_the_same_port_is_refused() {
    let port = free_ports(3);
    let folder = Folder::new(port);
    let _first = run(&folder.config());
    answer(port);
    assert_eq!(run(&folder.config()).wait(SOON).code(), Some(1));
    assert_eq!(answer(port), [Ipv4Addr::new(192, 0, 2, 80)]);
}

#[test]
fn check_says_what_is_wrong_where_and_what_would_be_right() {
    let port = free_ports(3);
    let folder = Folder::new(port);
    let path = folder.config();
    let mut good = Process::start(&["check", path.to_str().unwrap()]);
    assert!(good.wait(SOON).success());
    assert!(good.stdout().contains("fine: node fra/1"), "{}", good.stdout());

    let broken = config(port)
        .replace("vserver = \"www\"", "vserver = \"wwww\"")
        .replace("[dns]\n", "[dns]\nlistn = 1\n");
    std::fs::write(&path, broken).unwrap();
    let mut bad = Process::start(&["check", path.to_str().unwrap()]);
    assert_eq!(bad.wait(SOON).code(), Some(1));
    let said = bad.stderr();
    for part in [":5:1: dns.listn", "did you mean 'listen'", "domains[0].vserver", "'wwww'", "'www'"] {
        assert!(said.contains(part), "{part} is missing in:\n{said}");
    }
}

/// Threat T10: the verdict of `check` is the verdict of `run`.
#[test]
fn check_refuses_certificates_that_run_refuses() {
    let port = free_ports(3);
    let folder = Folder::new(port);
    let other = config(port).replace("name = \"test\"", "name = \"other\"");
    std::fs::write(folder.config(), other).unwrap();
    for command in ["check", "run"] {
        let mut refused = Process::start(&[command, folder.config().to_str().unwrap()]);
        assert_eq!(refused.wait(SOON).code(), Some(1), "{command}");
        let said = refused.stderr();
        assert!(said.contains("is for group 'test', not 'other'"), "{command}: {said}");
    }
}

#[test]
fn a_configuration_can_be_checked_where_the_certificates_are_not() {
    let folder = Folder::new(free_ports(3));
    std::fs::remove_dir_all(folder.path("pki")).unwrap();
    let mut check = Process::start(&["check", folder.config().to_str().unwrap()]);
    assert!(check.wait(SOON).success());
    let said = check.stderr();
    assert!(said.contains("certificates are not checked") && said.contains("ca.crt"), "{said}");
}

/// Faults I-66: nobody reads the log here, and strangers make the node write more to it than a pipe holds.
#[test]
fn a_log_that_nobody_reads_stalls_nobody() {
    let port = free_ports(3);
    let folder = Folder::new(port);
    let mut node = Process::start(&["--log", "trace", "run", folder.config().to_str().unwrap()]);
    answer(port);
    let stranger = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    // The beginning of a QUIC packet of version 1, and nothing sensible behind it: quinn traces each.
    let packet = [&[0xc0, 0, 0, 0, 1, 8][..], &[0xff; 26]].concat();
    for _ in 0..200 {
        for _ in 0..20 {
            stranger.send_to(&packet, (Ipv4Addr::LOCALHOST, port + 1)).unwrap();
        }
        assert_eq!(answer(port), [Ipv4Addr::new(192, 0, 2, 80)]);
    }
    node.signal(Signal::SIGTERM);
    assert!(node.wait(SOON).success());
    let log = node.stderr();
    // A pipe holds 64 KiB, and no part of a line.
    assert!(log.len() > 60 * 1024, "the log did not fill the pipe: {}", log.len());
}

/// Faults I-61: a wish to reload must not end the node, and must not pass for granted.
#[test]
fn sighup_is_refused_and_the_node_goes_on() {
    let port = free_ports(3);
    let folder = Folder::new(port);
    let mut node = Process::start(&["run", folder.config().to_str().unwrap()]);
    answer(port);
    for _ in 0..3 {
        node.signal(Signal::SIGHUP);
        assert_eq!(answer(port), [Ipv4Addr::new(192, 0, 2, 80)]);
    }
    node.signal(Signal::SIGTERM);
    assert!(node.wait(SOON).success());
    let log = node.stderr();
    assert!(log.contains("SIGHUP") && log.contains("restart to take changes"), "{log}");
}

/// Bar R15: the node runs, and an operator reads why its admin API may not answer one day.
#[test]
fn too_few_descriptors_for_the_clients_allowed_are_warned_of() {
    let port = free_ports(3);
    let folder = Folder::new(port);
    let logged = |descriptors| {
        let config = folder.config();
        let mut node = Process::start_with_descriptors(descriptors, &["run", config.to_str().unwrap()]);
        assert_eq!(answer(port), [Ipv4Addr::new(192, 0, 2, 80)]);
        node.signal(Signal::SIGTERM);
        assert!(node.wait(SOON).success());
        node.stderr()
    };
    let warning = "raise the limit of open files or lower dns.tcp_connections";
    let (few, enough) = (logged(1087), logged(1088));
    assert!(few.contains(warning), "{few}");
    assert!(!enough.contains(warning), "{enough}");
}

/// Threat T11: a log that goes to a file or to the journal holds no escape sequences.
#[test]
fn a_log_that_is_no_terminal_is_plain_text() {
    let port = free_ports(3);
    let folder = Folder::new(port);
    let mut node = Process::start(&["run", folder.config().to_str().unwrap()]);
    answer(port);
    node.signal(Signal::SIGTERM);
    assert!(node.wait(SOON).success());
    let log = node.stderr();
    assert!(log.contains("node runs") && log.contains("node stops"), "{log}");
    assert!(!log.contains('\x1b'), "{log:?}");
}

/// A script that is satisfied by the exit code reads nothing.
#[test]
fn what_nobody_reads_is_no_fault() {
    let folder = Folder::new(free_ports(3));
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let status = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gslb-dns"));
        command.args(args).stdout(full()).status().unwrap().code()
    };
    assert_eq!(status(&["check", folder.config().to_str().unwrap()]), Some(0));
    assert_eq!(status(&["pki", "issue", folder.path("pki").to_str().unwrap(), "fra/2"]), Some(0));
    assert!(folder.path("pki/fra-2.crt").exists());
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let port = free_ports(3);
    let folder = Folder::new(port);
    let key = folder.path("pki/fra-1.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut node = run(&folder.config());
    assert_eq!(node.wait(SOON).code(), Some(1));
    let said = node.stderr();
    assert!(said.contains("fra-1.key") && said.contains("chmod 600"), "{said}");
}

#[test]
fn a_certificate_is_replaced_if_that_is_said_and_never_made_to_be_over() {
    let folder = Folder::new(free_ports(3));
    let pki = folder.path("pki");
    let issue = |more: &[&str]| {
        let mut issue = Process::start(&[&["pki", "issue", pki.to_str().unwrap(), "fra/1"], more].concat());
        (issue.wait(SOON).code(), issue.stderr())
    };
    let (code, said) = issue(&[]);
    assert_eq!(code, Some(1));
    assert!(said.contains("fra-1.key: already there") && said.contains("--renew"), "{said}");
    assert_eq!(issue(&["--renew", "--days", "0"]).0, Some(2));
    assert_eq!(issue(&["--renew", "--days", "1"]).0, Some(0));
}

#[test]
fn an_existing_ca_is_never_replaced() {
    let folder = Folder::new(free_ports(3));
    let before = std::fs::read(folder.path("pki/ca.key")).unwrap();
    let pki = folder.path("pki");
    let mut again = Process::start(&["pki", "init", pki.to_str().unwrap(), "--group", "other"]);
    assert_eq!(again.wait(SOON).code(), Some(1));
    assert_eq!(std::fs::read(folder.path("pki/ca.key")).unwrap(), before);
}
