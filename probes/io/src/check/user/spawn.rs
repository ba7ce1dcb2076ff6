//! Starting commands: threads of their own do it.
//!
//! Such a thread has given up the right to gain privileges, and the capabilities that would be handed on, before it starts
//! anything: both are a thread's own, and what it starts inherits them. So nobody has to run code between fork and exec.
//!
//! A start may hang: a program on a disk that does not answer, a user that is looked up in a directory that is down. One such
//! program keeps one thread, and no check of another program waits for it.

use super::super::limit::Limit;
use super::order::{Accounts, Order, pid_of};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Threads that start commands at most, and so programs that may hang before others have to wait. A start takes a
/// millisecond.
const THREADS: usize = 16;

/// Programs whose starts are told apart. A configuration has some dozens.
const PROGRAMS: usize = 1024;

/// Between two looks after processes that are dying.
const DEATH: Duration = Duration::from_millis(50);

/// A command that runs, as the leader of a process group of its own. Dropped, it is killed with all its group.
pub(super) struct Started {
    child: Option<Child>,
    /// When it was started.
    pub(super) at: Instant,
    /// Where it is buried if it does not die at once.
    grave: mpsc::Sender<Child>,
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
            let _ = self.grave.send(child);
        }
    }
}

/// A command to start, for one of the threads.
struct Job {
    order: Order,
    tell: oneshot::Sender<Result<Started, String>>,
    grave: mpsc::Sender<Child>,
    /// Given back once it is started, or has failed to be, however long that takes.
    turns: [OwnedSemaphorePermit; 2],
}

/// The threads, from the first command on. They end once this and all they have started are gone.
pub(super) struct Spawner {
    shared: Arc<Shared>,
    threads: Arc<Semaphore>,
    programs: Mutex<HashMap<(String, String), Arc<Semaphore>>>,
    grave: Mutex<Option<mpsc::Sender<Child>>>,
}

/// What the threads share.
#[derive(Default)]
struct Shared {
    accounts: Accounts,
    /// Ways to threads that wait for a job.
    idle: Mutex<Vec<mpsc::Sender<Errand>>>,
}

/// A job, and the way to the thread that does it: where it waits for the next. So a thread holds no way to itself while it
/// waits, and ends when nobody can send it anything.
struct Errand {
    job: Job,
    way: mpsc::Sender<Errand>,
}

impl Default for Spawner {
    fn default() -> Self {
        Spawner {
            shared: Arc::default(),
            threads: Arc::new(Semaphore::new(THREADS)),
            programs: Mutex::default(),
            grave: Mutex::default(),
        }
    }
}

/// The right to start a program: one start of it at a time.
pub(super) struct Turn(OwnedSemaphorePermit);

impl Spawner {
    /// Waits until no other start of the same program is under way.
    pub(super) async fn turn(&self, order: &Order, limit: Limit) -> Result<Turn, String> {
        let program = {
            let mut programs = lock(&self.programs);
            if programs.len() >= PROGRAMS {
                programs.retain(|_, program| program.available_permits() == 0);
            }
            Arc::clone(programs.entry(order.program()).or_insert_with(|| Arc::new(Semaphore::new(1))))
        };
        match limit.wait(program.acquire_owned()).await {
            Ok(Ok(turn)) => Ok(Turn(turn)),
            _ => Err(limit.missing(&format!("no turn to start {}", order.program().0))),
        }
    }

    /// Starts a command, and waits no longer than its check may take.
    pub(super) async fn start(&self, order: Order, turn: Turn, limit: Limit) -> Result<Started, String> {
        let (program, _) = order.program();
        let Ok(Ok(thread)) = limit.wait(Arc::clone(&self.threads).acquire_owned()).await else {
            return Err(limit.missing("no thread to start commands"));
        };
        let (tell, started) = oneshot::channel();
        self.send(Job { order, tell, grave: self.grave()?, turns: [turn.0, thread] })?;
        match limit.wait(started).await {
            Ok(started) => started.map_err(|_| "the thread that starts commands has ended".to_owned())?,
            Err(_) => Err(limit.missing(&format!("{program} is not started"))),
        }
    }

    /// To a thread that waits, or to a new one.
    fn send(&self, job: Job) -> Result<(), String> {
        let idle = lock(&self.shared.idle).pop();
        let way = match idle {
            Some(way) => way,
            None => self.thread()?,
        };
        let errand = Errand { job, way: way.clone() };
        way.send(errand).map_err(|_| "the thread that starts commands has ended".to_owned())
    }

    fn thread(&self) -> Result<mpsc::Sender<Errand>, String> {
        let (way, errands) = mpsc::channel::<Errand>();
        let shared = Arc::downgrade(&self.shared);
        let thread = thread::Builder::new().name("user-monitors".to_owned());
        let spawned = thread.spawn(move || {
            let humble = humble();
            while let Ok(Errand { job, way }) = errands.recv() {
                let Some(shared) = shared.upgrade() else { return };
                let turns = job.done(&humble, &shared.accounts);
                lock(&shared.idle).push(way);
                drop(turns);
            }
        });
        spawned.map_err(|e| format!("no thread to start commands: {e}"))?;
        Ok(way)
    }

    /// The way to the thread that waits for the dying; one that has ended is followed by another.
    fn grave(&self) -> Result<mpsc::Sender<Child>, String> {
        let mut grave = lock(&self.grave);
        if let Some(grave) = &*grave {
            return Ok(grave.clone());
        }
        let (sender, dying) = mpsc::channel();
        let thread = thread::Builder::new().name("user-monitors-end".to_owned());
        thread.spawn(move || bury(&dying)).map_err(|e| format!("no thread to end commands: {e}"))?;
        Ok(grave.insert(sender).clone())
    }
}

impl Job {
    fn done(self, humble: &Result<(), String>, accounts: &Accounts) -> [OwnedSemaphorePermit; 2] {
        let at = Instant::now();
        let started = humble.clone().and_then(|()| self.order.start(accounts));
        let grave = self.grave;
        // A check that is gone has nobody to watch its command: what is not taken is killed.
        let _ = self.tell.send(started.map(|child| Started { child: Some(child), at, grave }));
        self.turns
    }
}

/// Waits for killed processes, whose end may take its time, as when one waits for a disk that does not answer.
fn bury(dead: &mpsc::Receiver<Child>) {
    let mut dying: Vec<Child> = Vec::new();
    loop {
        let child = match dying.is_empty() {
            true => dead.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => dead.recv_timeout(DEATH),
        };
        dying.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        match child {
            Ok(child) => dying.push(child),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if dying.is_empty() => return,
            Err(RecvTimeoutError::Disconnected) => thread::sleep(DEATH),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives up, for this thread and what it starts, the right to gain privileges, and capabilities that outlive exec.
fn humble() -> Result<(), String> {
    rustix::thread::set_no_new_privs(true)
        .map_err(|e| format!("commands can't be kept from gaining privileges: {e}"))?;
    // A kernel without ambient capabilities has none to hand on.
    let _ = rustix::thread::clear_ambient_capability_set();
    Ok(())
}
