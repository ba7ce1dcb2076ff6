//! A command's life: what it writes, when it ends, and that it does.

use super::super::limit::{Limit, Passed};
use super::spawn::{Spawner, Started};
use crate::stamp::rtt;
use gslb_types::Rtt;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;

/// Bytes of a command's output that are kept; the rest is read and thrown away.
const OUTPUT: usize = 64 * 1024;

/// How long the end of a killed process is waited for.
const DEATH: Duration = Duration::from_secs(1);

/// How a command ended.
pub(super) enum Ended {
    /// It exited, or something else killed it.
    ByItself { status: ExitStatus, took: Rtt, output: Vec<u8> },
    /// Its time was over.
    Killed { status: ExitStatus, took: Rtt, output: Vec<u8> },
}

/// Watches a command until it ends or its time is over. Dropped before, it kills the command.
pub(super) async fn watch(started: Started, limit: Limit, spawner: &Spawner) -> Result<Ended, String> {
    let mut group = Group { started: Some(started), spawner };
    let Some(started) = group.started.as_mut() else { return Err("no command".to_owned()) };
    let unfit = |e: io::Error| format!("the command can't be watched: {e}");
    let pid = started.pid().ok_or("the command has no process")?;
    let end = pidfd_open(pid, PidfdFlags::NONBLOCK).map_err(|e| unfit(e.into()))?;
    #[allow(
        deprecated,
        reason = "its successor is unsafe for what is no owner of its descriptor; this is one"
    )]
    let end = AsyncFd::new(end).map_err(unfit)?;
    let mut stdout = Output::of(started.child.stdout.take().map(OwnedFd::from)).map_err(unfit)?;
    let mut stderr = Output::of(started.child.stderr.take().map(OwnedFd::from)).map_err(unfit)?;
    let at = started.at;
    let exited = async {
        tokio::select! {
            biased;
            ready = end.readable() => ready.map(drop),
            // Never ends: both are read for as long as it runs.
            () = async { tokio::join!(stdout.read(), stderr.read()); } => Ok(()),
        }
    };
    let is_over = match limit.wait(exited).await {
        Ok(exited) => exited.map(|()| false).map_err(unfit)?,
        Err(Passed) => true,
    };
    let took = rtt(at, Instant::now());
    stdout.drain();
    stderr.drain();
    let output = if stdout.kept.is_empty() { stderr.kept } else { stdout.kept };
    let status = group.end(&end).await?;
    Ok(match is_over {
        false => Ended::ByItself { status, took, output },
        true => Ended::Killed { status, took, output },
    })
}

/// Kills all of a command's process group. To be called before its leader is waited for: until then nobody else can have
/// the number.
pub(super) fn kill(started: &Started) {
    if let Some(pid) = started.pid() {
        kill_group(pid);
    }
}

fn kill_group(pid: Pid) {
    // None of it may be left.
    let _ = kill_process_group(pid, Signal::KILL);
}

/// A running command, killed when this is dropped.
struct Group<'s> {
    started: Option<Started>,
    spawner: &'s Spawner,
}

impl Group<'_> {
    /// Kills what is left of it, and waits for its leader.
    async fn end(mut self, end: &AsyncFd<OwnedFd>) -> Result<ExitStatus, String> {
        if let Some(started) = &self.started {
            kill(started);
        }
        let _ = timeout(DEATH, end.readable()).await;
        let Some(mut started) = self.started.take() else { return Err("no command".to_owned()) };
        match started.child.try_wait() {
            Ok(Some(status)) => Ok(status),
            Ok(None) => {
                self.spawner.bury(started.child);
                Err("the command was killed and does not end".to_owned())
            }
            Err(e) => Err(format!("the command's end can't be read: {e}")),
        }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if let Some(mut started) = self.started.take() {
            kill(&started);
            if matches!(started.child.try_wait(), Ok(None)) {
                self.spawner.bury(started.child);
            }
        }
    }
}

/// What a command writes.
struct Output {
    pipe: Option<Receiver>,
    kept: Vec<u8>,
}

impl Output {
    fn of(pipe: Option<OwnedFd>) -> io::Result<Self> {
        Ok(Output { pipe: pipe.map(Receiver::from_owned_fd).transpose()?, kept: Vec::new() })
    }

    /// Reads for ever: what is written, and then nothing.
    async fn read(&mut self) {
        loop {
            match &self.pipe {
                Some(pipe) if pipe.readable().await.is_ok() => self.drain(),
                Some(_) | None => std::future::pending().await,
            }
        }
    }

    /// Reads what there is.
    fn drain(&mut self) {
        let mut buf = [0; 4096];
        while let Some(pipe) = &self.pipe {
            match pipe.try_read(&mut buf) {
                Ok(0) => self.pipe = None,
                Ok(len) => {
                    let room = OUTPUT.saturating_sub(self.kept.len());
                    self.kept.extend_from_slice(buf.get(..len.min(room)).unwrap_or_default());
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }
}
