//! Starting commands: a thread of its own does it.
//!
//! That thread has given up the right to gain privileges, and the capabilities that would be handed on, before it starts
//! anything: both are a thread's own, and what it starts inherits them. So nobody has to run code between fork and exec.

use gslb_types::UserCheck;
use nix::unistd::{User, geteuid};
use rustix::process::{Pid, Resource, Rlimit, prlimit, setpriority_process};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
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

    fn start(&self) -> Result<Started, String> {
        let program = self.argv.first().map_or("", String::as_str);
        let child = self
            .command()?
            .spawn()
            .map_err(|e| format!("{program} can't be run: {}", super::super::words(&e)))?;
        let at = Instant::now();
        let started = Started { child, at };
        if let Some(pid) = started.pid() {
            restrict(pid, self.limit);
        }
        Ok(started)
    }
}

/// Limits of a process that runs already, for a moment without them. What can't be had is done without.
fn restrict(pid: Pid, limit: Duration) {
    let most = |n: u64| Rlimit { current: Some(n), maximum: Some(n) };
    for (resource, most) in [
        (Resource::Core, most(0)),
        (Resource::Nofile, most(DESCRIPTORS)),
        (Resource::Data, most(MEMORY)),
        (Resource::Cpu, most(limit.as_secs().saturating_add(2))),
    ] {
        let _ = prlimit(Some(pid), resource, most);
    }
    let _ = setpriority_process(Some(pid), NICE);
}

/// A command that runs, as the leader of a process group of its own. It is to be watched to its end.
pub(super) struct Started {
    pub(super) child: Child,
    /// When its program took over.
    pub(super) at: Instant,
}

impl Started {
    /// Its process, and its process group.
    pub(super) fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }
}

enum Job {
    Start(Order, oneshot::Sender<Result<Started, String>>),
    Bury(Child),
}

/// The thread, from the first command on until this is dropped.
#[derive(Default)]
pub(super) struct Spawner(Mutex<Option<mpsc::Sender<Job>>>);

impl Spawner {
    pub(super) async fn start(&self, order: Order) -> Result<Started, String> {
        let (tell, started) = oneshot::channel();
        self.send(Job::Start(order, tell))?;
        started.await.map_err(|_| "the thread that starts commands has ended".to_owned())?
    }

    /// Takes a killed process whose end has not come yet, as one may wait for a disk that does not answer.
    pub(super) fn bury(&self, child: Child) {
        // Without the thread it stays a zombie until the node ends.
        let _ = self.send(Job::Bury(child));
    }

    fn send(&self, job: Job) -> Result<(), String> {
        let mut thread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let job = match thread.as_ref().map(|jobs| jobs.send(job)) {
            Some(Ok(())) => return Ok(()),
            Some(Err(returned)) => returned.0,
            None => return Self::begin(&mut thread, None),
        };
        Self::begin(&mut thread, Some(job))
    }

    fn begin(thread: &mut Option<mpsc::Sender<Job>>, job: Option<Job>) -> Result<(), String> {
        let (jobs, taken) = mpsc::channel();
        let started = thread::Builder::new().name("user-monitors".to_owned()).spawn(move || work(&taken));
        started.map_err(|e| format!("no thread to start commands: {e}"))?;
        if let Some(job) = job {
            let _ = jobs.send(job);
        }
        *thread = Some(jobs);
        Ok(())
    }
}

fn work(jobs: &mpsc::Receiver<Job>) {
    let humble = humble();
    let mut dying: Vec<Child> = Vec::new();
    while let Ok(job) = jobs.recv() {
        dying.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        match job {
            Job::Bury(child) => dying.push(child),
            Job::Start(order, tell) => {
                let started = humble.clone().and_then(|()| order.start());
                // A check that is gone has nobody to watch its command.
                if let Err(Ok(mut started)) = tell.send(started) {
                    super::process::kill(&started);
                    if matches!(started.child.try_wait(), Ok(None)) {
                        dying.push(started.child);
                    }
                }
            }
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
