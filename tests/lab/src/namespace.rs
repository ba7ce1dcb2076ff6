//! One network namespace: made, entered, and taken away with all that runs in it.

use crate::error::LabError;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Where `ip netns` keeps its names.
const NAMES: &str = "/run/netns";

/// All names start with this and the process id, so that what a killed test left can be found and swept.
const PREFIX: &str = "gslblab";

/// How long processes may take to end by themselves.
const GRACE: Duration = Duration::from_millis(700);

/// A network namespace of ours. Dropping it ends its processes and removes it.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes the namespace of node `node` of this process's laboratory number `lab`.
    pub(crate) fn create(lab: u32, node: &str) -> Result<Namespace, LabError> {
        let name = format!("{PREFIX}-{}-{lab}-{node}", getpid());
        run(Command::new("ip").args(["netns", "add", &name]), "")?;
        Ok(Namespace { name })
    }

    /// Runs `ip -batch` in it.
    pub(crate) fn ip(&self, batch: &str) -> Result<(), LabError> {
        run(Command::new("ip").args(["-netns", &self.name, "-batch", "-"]), batch)
    }

    /// A command that runs in it.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Runs `work` on a thread in it. Sockets opened there stay there; threads spawned there are in it too.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        let path = self.path();
        let file = File::open(&path).map_err(LabError::system(path.display().to_string()))?;
        thread::scope(|scope| {
            let inside = scope.spawn(move || setns(file, CloneFlags::CLONE_NEWNET).map(|()| work()));
            match inside.join() {
                Ok(result) => result.map_err(LabError::system("setns")),
                // The closure's panic is the caller's.
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// The processes in it.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        processes_in(&self.path())
    }

    fn path(&self) -> PathBuf {
        Path::new(NAMES).join(&self.name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        end_processes(std::slice::from_ref(self));
        remove(&self.name);
    }
}

/// Asks every process in these namespaces to end, and after a while no longer asks.
pub(crate) fn end_processes(namespaces: &[Namespace]) {
    let running = || namespaces.iter().flat_map(Namespace::processes).collect::<Vec<_>>();
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let deadline = Instant::now() + GRACE;
        // A process that has ended in between is what we want.
        for pid in running() {
            let _ = kill(pid, signal);
        }
        while Instant::now() < deadline {
            if running().is_empty() {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Removes the namespaces of test processes that are gone without having cleaned up: killed, or out of power.
pub(crate) fn sweep() {
    for name in names() {
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').nth(1));
        let Some(owner) = owner.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        if !Path::new("/proc").join(owner.to_string()).exists() {
            for pid in processes_in(&Path::new(NAMES).join(&name)) {
                let _ = kill(pid, Signal::SIGKILL);
            }
            remove(&name);
        }
    }
}

/// The namespaces that laboratories of this process have made and not removed.
pub(crate) fn left_behind() -> Vec<String> {
    let ours = format!("{PREFIX}-{}-", getpid());
    names().filter(|name| name.starts_with(&ours)).collect()
}

/// Runs a command to its end with `input`; what it said on standard error is the error.
pub(crate) fn run(command: &mut Command, input: &str) -> Result<(), LabError> {
    let line = format!("{command:?}").replace('"', "");
    let failed = |said| LabError::Command { command: line, said };
    match feed(command, input) {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(failed(if said.is_empty() { output.status.to_string() } else { said }))
        }
        Err(cause) => Err(failed(cause.to_string())),
    }
}

fn feed(command: &mut Command, input: &str) -> io::Result<std::process::Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that fails early has closed its end; its own words say why.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}

fn names() -> impl Iterator<Item = String> {
    let entries = fs::read_dir(NAMES).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

fn remove(name: &str) {
    if let Err(error) = run(Command::new("ip").args(["netns", "del", name]), "") {
        // Also reached while a test unwinds: there is nobody to return an error to.
        eprintln!("lab: {error}");
    }
}

/// The processes whose main thread is in the namespace; never this one, whose threads merely visit.
fn processes_in(namespace: &Path) -> Vec<Pid> {
    let Ok(wanted) = fs::metadata(namespace).map(|meta| (meta.dev(), meta.ino())) else { return Vec::new() };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw));
    pids.filter(|pid| *pid != getpid())
        .filter(|pid| {
            fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|meta| (meta.dev(), meta.ino()) == wanted)
        })
        .collect()
}
