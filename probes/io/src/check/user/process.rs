//! A command's life: what it writes, when it ends, and that it does.

use super::super::limit::{Limit, Passed};
use super::spawn::Started;
use crate::stamp::rtt;
use gslb_types::Rtt;
use rustix::process::{PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::time::Instant;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::Receiver;

/// Bytes of a command's output that are kept; the rest is read and thrown away. And those that are read at once, before it is
/// another's turn: a command that writes without end must not keep the thread.
const OUTPUT: usize = 64 * 1024;

/// How a command ended.
pub(super) enum Ended {
    /// It exited, or something else killed it.
    ByItself { status: ExitStatus, took: Rtt, output: Vec<u8> },
    /// Its time was over.
    Killed,
}

/// Watches a command until it ends or its time is over, and then kills what is left of it. Dropped before, it does so too.
pub(super) async fn watch(mut started: Started, limit: Limit) -> Result<Ended, String> {
    let unfit = |e: io::Error| format!("the command can't be watched: {e}");
    let pid = started.pid().ok_or("the command has no process")?;
    let end = pidfd_open(pid, PidfdFlags::NONBLOCK).map_err(|e| unfit(e.into()))?;
    #[allow(
        deprecated,
        reason = "its successor is unsafe for what is no owner of its descriptor; this is one"
    )]
    let end = AsyncFd::new(end).map_err(unfit)?;
    let [stdout, stderr] = started.outputs().map(Output::of);
    let (mut stdout, mut stderr) = (stdout.map_err(unfit)?, stderr.map_err(unfit)?);
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
    let took = rtt(started.at, Instant::now());
    // First of all: what it started might go on to write.
    started.kill();
    stdout.drain();
    stderr.drain();
    if is_over {
        return Ok(Ended::Killed);
    }
    let status = started.buried().ok_or("the command's end can't be read")?;
    let output = if stdout.kept.is_empty() { stderr.kept } else { stdout.kept };
    Ok(Ended::ByItself { status, took, output })
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
            tokio::task::yield_now().await;
        }
    }

    /// Reads what there is, and no more than [`OUTPUT`] of it.
    fn drain(&mut self) {
        let (mut buf, mut read) = ([0; 4096], 0);
        while read < OUTPUT
            && let Some(pipe) = &self.pipe
        {
            match pipe.try_read(&mut buf) {
                Ok(0) => self.pipe = None,
                Ok(len) => {
                    read += len;
                    let room = OUTPUT.saturating_sub(self.kept.len());
                    self.kept.extend_from_slice(buf.get(..len.min(room)).unwrap_or_default());
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }
}
