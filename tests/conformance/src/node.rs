//! One running `gslb-dns`, which ends with the test at the latest.

use lab::gslb::{eventually, get, gslb_dns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How long a node may take to start, on a busy machine and in a debug build.
const START: Duration = Duration::from_secs(30);

/// A shell that runs a program, says its process id, and kills it when its own input ends: with the test process, however
/// that ends. A test's statics are never dropped, and a killed test drops nothing.
const KEEPER: &str = r#"exec 2>/dev/null; log=$1; shift; "$@" </dev/null >"$log" 2>&1 & echo $!; read -r _; kill -9 $!; wait $!"#;

/// A process of `gslb-dns run`, killed when it is dropped.
pub struct Node {
    keeper: Child,
    pid: u32,
    dns: Vec<SocketAddr>,
    admin: SocketAddr,
    log: PathBuf,
    // Last: the process has its files open until it is killed.
    _folder: TempDir,
}

impl Node {
    /// Starts a node with this configuration, in a folder of its own, with certificates of `gslb-dns pki`, and returns when
    /// it answers.
    ///
    /// # Panics
    /// If that takes too long or it ends; with its log.
    #[track_caller]
    pub fn start(config: &str) -> Node {
        Node::start_with(config, &[], |command| command)
    }

    /// The same with more files beside the configuration, and with a say in how the process is run: `run` gets the command
    /// of the program with its arguments, and may wrap it, to run it in a network namespace for example.
    #[track_caller]
    pub fn start_with(config: &str, files: &[(&str, &[u8])], run: impl FnOnce(Command) -> Command) -> Node {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        for (name, content) in files.iter().chain(&[("gslb.toml", config.as_bytes())]) {
            fs::write(at(name), content).expect("written");
        }
        pki(folder.path());
        let mut program = Command::new(gslb_dns().expect("the binary"));
        program.args(["--log-json", "run"]).arg(at("gslb.toml"));
        let log = at("log");
        let (mut keeper, pid) = keep(&run(program), &log);
        let runs = eventually("the node runs, or ends", START, || said(&log).or_else(|| ended(pid)));
        if runs.is_null() {
            // The keeper ends by itself when its input does.
            drop(keeper.stdin.take());
            let _ = keeper.wait();
            panic!("the node ended:\n{}", fs::read_to_string(&log).unwrap_or_default());
        }
        let dns = addresses(&runs["dns"]);
        let admin = addresses(&runs["admin"]).first().copied().expect("an admin address");
        Node { keeper, pid, dns, admin, log, _folder: folder }
    }

    /// Where it answers DNS, in the order of the configuration.
    pub fn dns(&self) -> &[SocketAddr] {
        &self.dns
    }

    /// The first of them.
    pub fn address(&self) -> SocketAddr {
        self.dns.first().copied().expect("an address")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("it runs");
    }

    /// The memory that is really there for it, in bytes.
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).expect("it runs");
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
        1024 * kib.unwrap_or(0_u64)
    }

    /// GETs a path of its admin API as JSON.
    pub fn get(&self, path: &str) -> Value {
        get(self.admin, path).and_then(|answer| answer.json()).expect("JSON of the admin API")
    }

    /// A number of `/metrics`, named with its labels as it is printed there.
    pub fn metric(&self, name: &str) -> u64 {
        let answer = get(self.admin, "/metrics").expect("/metrics").body;
        let value =
            answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok());
        let number: f64 = value.unwrap_or_else(|| panic!("no metric {name} in\n{answer}"));
        number as u64
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            eprintln!("--- the node logged:\n{}", lines[lines.len().saturating_sub(30)..].join("\n"));
        }
    }
}

/// Runs a command under a keeper.
fn keep(command: &Command, log: &Path) -> (Child, u32) {
    let mut keeper = Command::new("sh");
    keeper.args(["-c", KEEPER, "keeper"]).arg(log).arg(command.get_program()).args(command.get_args());
    let mut keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh");
    let mut pid = String::new();
    let output = keeper.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut pid).expect("a process id");
    (keeper, pid.trim().parse().expect("a process id"))
}

/// The certificates of the group "gslb" and of its node a/1.
fn pki(folder: &Path) {
    for arguments in [["init", "pki", "--group", "gslb"].as_slice(), &["issue", "pki", "a/1"]] {
        let mut command = Command::new(gslb_dns().expect("the binary"));
        let output = command.current_dir(folder).arg("pki").args(arguments).output().expect("gslb-dns pki");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The fields of the line by which a node says that it runs.
fn said(log: &Path) -> Option<Value> {
    let log = fs::read_to_string(log).ok()?;
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.map(|mut line| line["fields"].take()).find(|fields| fields["message"] == "node runs")
}

/// Null if the process has ended.
fn ended(pid: u32) -> Option<Value> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    (stat.is_empty() || stat.contains(") Z")).then_some(Value::Null)
}

/// The addresses in a printed list or option.
fn addresses(printed: &Value) -> Vec<SocketAddr> {
    let text = printed.as_str().unwrap_or_default();
    let inner = text.trim_start_matches("Some(").trim_end_matches(')');
    let list = inner.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or(inner);
    list.split(", ").filter_map(|address| address.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_from_what_a_node_says() {
        let read =
            |text: &str| addresses(&Value::from(text)).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(read("[127.0.0.1:5, [::1]:6]"), ["127.0.0.1:5", "[::1]:6"]);
        assert_eq!(read("[[::1]:6]"), ["[::1]:6"]);
        assert_eq!(read("Some(127.0.0.1:8053)"), ["127.0.0.1:8053"]);
        assert_eq!(read("None"), [""; 0]);
    }
}
