//! Starting commands: a thread of its own does it.
//!
//! That thread has given up the right to gain privileges, and the capabilities that would be handed on, before it starts
//! anything: both are a thread's own, and what it starts inherits them. So nobody has to run code between fork and exec.

use gslb_types::UserCheck;
use nix::unistd::{User, geteuid};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit, setpriority_process};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, Once, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Where programs that a script names are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How nice a command is to DNS: above 0, so that a script that computes does not slow down answers.
const NICE: i32 = 10;

/// Descriptors a command may have open.
const DESCRIPTORS: u64 = 256;

/// Bytes of memory a command may fill: enough for a script of any language.
const MEMORY: u64 = 512 << 20;

/// Whether want of limits has been said.
static COMPLAINED: Once = Once::new();

/// Between two looks after processes that are dying.
const DEATH: Duration = Duration::from_millis(50);

/// A command to start.
pub(super) struct Order {
    argv: Vec<String>,
    environment: Vec<(&'static str, String)>,
    run_as: String,
    limit: Duration,
}

impl Order {
    pub(super) fn of(check: &UserCheck, target: SocketAddr, source: Option<IpAddr>, limit: Duration) -> Self {
        let (address, port) = (target.ip().to_string(), target.port().to_string());
        let filled = |arg: &String| arg.replace("{address}", &address).replace("{port}", &port);
        let mut environment = vec![
            ("PATH", PATH.to_owned()),
            ("LC_ALL", "C".to_owned()),
            ("HOME", "/".to_owned()),
            ("GSLB_TIMEOUT", limit.as_secs_f64().to_string()),
        ];
        environment.extend(source.map(|source| ("GSLB_SOURCE", source.to_string())));
        let argv = check.command.iter().map(filled).collect();
        environment.extend([("GSLB_ADDRESS", address.clone()), ("GSLB_PORT", port.clone())]);
        Order { argv, environment, run_as: check.run_as.clone(), limit }
    }

    fn command(&self) -> Result<Command, String> {
        let Some((program, args)) = self.argv.split_first() else { return Err("no command".to_owned()) };
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(self.environment.iter().map(|(k, v)| (k, v))).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        if geteuid().is_root() {
            let user = match User::from_name(&self.run_as) {
                Ok(Some(user)) => user,
                Ok(None) => return Err(format!("there is no user '{}' to run the command", self.run_as)),
                Err(e) => return Err(format!("user '{}': {}", self.run_as, e.desc().to_lowercase())),
            };
            // Changing the user takes the supplementary groups and all capabilities as well.
            command.gid(user.gid.as_raw()).uid(user.uid.as_raw());
        }
        Ok(command)
    }

    fn start(&self) -> Result<Child, String> {
        let program = self.argv.first().map_or("", String::as_str);
        let child = self.command()?.spawn();
        let child = child.map_err(|e| format!("{program} can't be run: {}", super::super::words(&e)))?;
        if let Some(pid) = pid_of(&child) {
            restrict(pid, self.limit);
        }
        Ok(child)
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Limits of a process that runs already, for a moment without them. What can't be had is done without, and said once: of
/// a process of another user that takes CAP_SYS_RESOURCE.
fn restrict(pid: Pid, limit: Duration) {
    let most = |n: u64| Rlimit { current: Some(n), maximum: Some(n) };
    for (resource, most) in [
        (Resource::Core, most(0)),
        (Resource::Nofile, most(DESCRIPTORS)),
        (Resource::Data, most(MEMORY)),
        (Resource::Cpu, most(limit.as_secs().saturating_add(2))),
    ] {
        match prlimit(Some(pid), resource, most) {
            // It may have ended by now.
            Ok(_) | Err(Errno::SRCH) => {}
            Err(error) => COMPLAINED.call_once(|| {
                tracing::warn!(%error, "commands of monitors run without limits of memory, descriptors and CPU");
            }),
        }
    }
    let _ = setpriority_process(Some(pid), NICE);
}

/// A command that runs, as the leader of a process group of its own. Dropped, it is killed with all its group.
pub(super) struct Started {
    child: Option<Child>,
    /// When it was started.
    pub(super) at: Instant,
    /// Where it is buried if it does not die at once.
    grave: mpsc::Sender<Job>,
}

impl Started {
    /// Its process, and its process group.
    pub(super) fn pid(&self) -> Option<Pid> {
        self.child.as_ref().and_then(pid_of)
    }

    /// What it writes: as it was meant, and as complaints.
    pub(super) fn outputs(&mut self) -> [Option<OwnedFd>; 2] {
        let child = self.child.as_mut();
        child.map_or([None, None], |c| [c.stdout.take().map(Into::into), c.stderr.take().map(Into::into)])
    }

    /// Kills what is left of the group. The leader has not been waited for: until then nobody else can have its number.
    pub(super) fn kill(&self) {
        if let Some(pid) = self.pid() {
            // None of it may be left.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }

    /// How it ended, if it has.
    pub(super) fn buried(mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().ok().flatten();
        if status.is_some() {
            self.child = None;
        }
        status
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.kill();
        if let Some(child) = self.child.take() {
            // Without the thread it stays a zombie until the node ends.
            let _ = self.grave.send(Job::Bury(child));
        }
    }
}

enum Job {
    Start(Order, mpsc::Sender<Job>, oneshot::Sender<Result<Started, String>>),
    /// Nothing but a look after the dying.
    Look,
    /// A killed process, whose end may take its time, as when it waits for a disk that does not answer.
    Bury(Child),
}

/// The thread, from the first command on. It ends once this and all it has started are gone.
#[derive(Default)]
pub(super) struct Spawner(Mutex<Option<mpsc::Sender<Job>>>);

impl Spawner {
    pub(super) async fn start(&self, order: Order) -> Result<Started, String> {
        let (tell, started) = oneshot::channel();
        self.send(order, tell)?;
        started.await.map_err(|_| "the thread that starts commands has ended".to_owned())?
    }

    fn send(&self, order: Order, tell: oneshot::Sender<Result<Started, String>>) -> Result<(), String> {
        let mut thread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has ended is followed by another.
        let jobs = match thread.take().filter(|jobs| jobs.send(Job::Look).is_ok()) {
            Some(jobs) => jobs,
            None => {
                let (jobs, taken) = mpsc::channel();
                let spawned = thread::Builder::new().name("user-monitors".to_owned());
                let spawned = spawned.spawn(move || work(&taken));
                spawned.map_err(|e| format!("no thread to start commands: {e}"))?;
                jobs
            }
        };
        let sent = jobs.send(Job::Start(order, jobs.clone(), tell));
        *thread = Some(jobs);
        sent.map_err(|_| "the thread that starts commands has ended".to_owned())
    }
}

fn work(jobs: &mpsc::Receiver<Job>) {
    let humble = humble();
    let mut dying: Vec<Child> = Vec::new();
    loop {
        let job = match dying.is_empty() {
            true => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => jobs.recv_timeout(DEATH),
        };
        dying.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        match job {
            Ok(Job::Bury(child)) => dying.push(child),
            Ok(Job::Start(order, grave, tell)) => {
                let at = Instant::now();
                let started = humble.clone().and_then(|()| order.start());
                // A check that is gone has nobody to watch its command: what is not taken is killed.
                let _ = tell.send(started.map(|child| Started { child: Some(child), at, grave }));
            }
            Ok(Job::Look) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Gives up, for this thread and what it starts, the right to gain privileges, and capabilities that outlive exec.
fn humble() -> Result<(), String> {
    rustix::thread::set_no_new_privs(true)
        .map_err(|e| format!("commands can't be kept from gaining privileges: {e}"))?;
    // A kernel without ambient capabilities has none to hand on.
    let _ = rustix::thread::clear_ambient_capability_set();
    Ok(())
}
