//! One running node of the product.

use super::admin::{Answer, get};
use super::binary::gslb_dns;
use crate::{Lab, LabError};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// The admin API's default address: each namespace has a loopback of its own.
const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8053);

/// How long a node may take to be ready, on a busy machine and in a debug build.
const START: Duration = Duration::from_secs(20);

/// Lines of its log that a failure shows.
const LOG_TAIL: usize = 40;

/// A `gslb-dns run` on a node of the laboratory. It is killed when dropped.
pub struct Node<'lab> {
    lab: &'lab Lab,
    place: String,
    id: String,
    config: PathBuf,
    log: PathBuf,
    environment: Vec<(String, String)>,
    child: Child,
}

impl<'lab> Node<'lab> {
    /// Starts the node that the configuration calls `id` on the laboratory's node `place`.
    pub fn start(lab: &'lab Lab, place: &str, id: &str, config: &Path) -> Result<Node<'lab>, LabError> {
        Self::start_with(lab, place, id, config, &[])
    }

    /// The same, with these variables in its environment.
    pub fn start_with(
        lab: &'lab Lab,
        place: &str,
        id: &str,
        config: &Path,
        environment: &[(&str, &str)],
    ) -> Result<Node<'lab>, LabError> {
        let log = config.with_file_name(format!("{}.log", id.replace('/', "-")));
        let environment: Vec<_> =
            environment.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let child = spawn(lab, place, id, config, &log, &environment)?;
        let (place, id, config) = (place.to_owned(), id.to_owned(), config.to_owned());
        Ok(Node { lab, place, id, config, log, environment, child })
    }

    /// SITE/NODE.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The laboratory's node it runs on.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Waits until `/ready` says so.
    ///
    /// # Panics
    /// If that takes too long or the process ends; with the end of its log.
    #[track_caller]
    pub fn wait_until_ready(&mut self) {
        let start = std::time::Instant::now();
        while !self.get("/ready").is_ok_and(|answer| answer.status == 200) {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("{} ended with {status}:\n{}", self.id, self.log_tail());
            }
            assert!(start.elapsed() < START, "{} is not ready:\n{}", self.id, self.log_tail());
            std::thread::sleep(super::LOOK);
        }
    }

    /// GETs a path of its admin API.
    pub fn get(&self, path: &str) -> io::Result<Answer> {
        self.lab.in_namespace(&self.place, || get(ADMIN, path)).map_err(io::Error::other)?
    }

    /// The output of `gslb-dns` with these arguments, on the node's own machine.
    pub fn cli(&self, arguments: &[&str]) -> Result<String, LabError> {
        let mut command = self.lab.command(&self.place, gslb_dns()?);
        let output = command.args(arguments).output().map_err(LabError::system("gslb-dns"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(LabError::Command { command: format!("gslb-dns {}", arguments.join(" ")), said })
    }

    /// Kills it as a power cut would.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// Starts it anew with the same configuration, after [`Node::kill`].
    pub fn restart(&mut self) -> Result<(), LabError> {
        self.child = spawn(self.lab, &self.place, &self.id, &self.config, &self.log, &self.environment)?;
        Ok(())
    }

    /// Sends its process a signal: SIGSTOP for a machine that hangs, SIGTERM for a clean stop.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill(self.pid(), signal)?)
    }

    /// Waits until it has ended by itself.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Its peers as `/v1/peers` lists them.
    pub fn peers(&self) -> io::Result<Vec<Value>> {
        Ok(self.get("/v1/peers")?.json()?["peers"].as_array().cloned().unwrap_or_default())
    }

    /// What it says of one peer; null if it has no such peer, or does not answer.
    pub fn peer(&self, id: &str) -> Value {
        let peers = self.peers().unwrap_or_default();
        peers.into_iter().find(|peer| peer["peer"] == id).unwrap_or_default()
    }

    /// A number of `/metrics`, under the whole name with its labels.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let text = self.get("/metrics").ok()?.body;
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// The sum of all numbers of `/metrics` with this name, whatever their labels.
    pub fn metric_sum(&self, name: &str) -> f64 {
        let text = self.get("/metrics").map(|answer| answer.body).unwrap_or_default();
        let value = |line: &str| {
            let rest = line.strip_prefix(name)?;
            rest.starts_with(['{', ' ']).then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
        };
        text.lines().filter_map(value).sum()
    }

    /// The memory that is really there for it, in octets; 0 if it does not run.
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        1024 * line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0)
    }

    /// All it logged so far, over all its starts.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn pid(&self) -> Pid {
        // Process ids are below 2^22.
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// The last lines it logged.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines.get(lines.len().saturating_sub(LOG_TAIL)..).unwrap_or_default().join("\n")
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.kill();
        if std::thread::panicking() {
            eprintln!("--- {} logged:\n{}", self.id, self.log_tail());
        }
    }
}

fn spawn(
    lab: &Lab,
    place: &str,
    id: &str,
    config: &Path,
    log: &Path,
    environment: &[(String, String)],
) -> Result<Child, LabError> {
    let open = |log: &Path| File::options().create(true).append(true).open(log);
    let out = open(log).map_err(LabError::system(log.display().to_string()))?;
    let err = out.try_clone().map_err(LabError::system(log.display().to_string()))?;
    let mut command: Command = lab.command(place, gslb_dns()?);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.arg("run").arg(config).args(["--node", id]).stdout(out).stderr(err);
    command.spawn().map_err(LabError::system(format!("gslb-dns run for {id}")))
}
