//! Commands by the rules of the Monitoring Plugins: exit code, first line, performance data.
//!
//! A command is somebody's script: it runs without a shell, as a user of few rights, with an environment that is written
//! down, within limits of its own, and no longer than its check. At the end the whole process group is killed, so that
//! nothing it started is left behind, but for what made itself a session of its own.

mod order;
mod process;
mod spawn;
mod verdict;

use super::{Fault, Run, failed};
use gslb_types::{Rtt, UserCheck};
use order::Order;
use probes_core::wire::CheckOutcome;
use process::Ended;
use spawn::Spawner;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Semaphore;
use verdict::Verdict;

/// Runs commands, some at once and no more.
pub(crate) struct Commands {
    slots: Arc<Semaphore>,
    spawner: Spawner,
}

impl Commands {
    pub(super) fn new(at_once: usize) -> Self {
        Commands {
            slots: Arc::new(Semaphore::new(at_once.min(Semaphore::MAX_PERMITS))),
            spawner: Spawner::default(),
        }
    }
}

impl Run<'_> {
    /// From the start of the command to its end.
    pub(super) async fn user(self, check: &UserCheck, source: Option<IpAddr>) -> Result<CheckOutcome, Fault> {
        let commands = &self.tools.commands;
        let order = Order::of(check, self.target, source, self.limit.length());
        // In this order: a program whose start hangs keeps none of the turns that others wait for.
        let turn = commands.spawner.turn(&order, self.limit).await.map_err(Fault::Ours)?;
        let Ok(slot) = self.limit.wait(commands.slots.acquire()).await else {
            return Err(Fault::Ours(self.limit.missing("no turn among the commands that run")));
        };
        let started = commands.spawner.start(order, turn, self.limit).await.map_err(Fault::Ours)?;
        let ended = process::watch(started, self.limit).await.map_err(Fault::Ours)?;
        drop(slot);
        match ended {
            Ended::ByItself { status, took, output } => judged(check, verdict::of(status, &output), took),
            Ended::Killed => failed(self.limit.missing("no verdict")),
        }
    }
}

fn judged(check: &UserCheck, verdict: Verdict, took: Rtt) -> Result<CheckOutcome, Fault> {
    if !verdict.passes {
        return failed(verdict.words);
    }
    let (load, words) = loaded(check, &verdict);
    let Some(label) = &check.perf_label else {
        return Ok(CheckOutcome::Reported { response_time: took, words, load });
    };
    match verdict::time_of(&verdict.performance, label) {
        Some(response_time) => Ok(CheckOutcome::Reported { response_time, words, load }),
        // It passed all the same; what it took is no substitute, as it may be something else altogether.
        None => failed(format!("no time labelled '{label}' in its performance data; {}", verdict.words)),
    }
}

/// The load, and the words with the complaint that there is none. A service that works does so whether or not a number is told
/// with it: its load is unknown.
fn loaded(check: &UserCheck, verdict: &Verdict) -> (Option<u64>, String) {
    let words = verdict.words.clone();
    let Some(label) = &check.load_label else { return (None, words) };
    match verdict::load_of(&verdict.performance, label) {
        Some(load) => (Some(load), words),
        None => (None, format!("{words}; no load labelled '{label}' in its performance data")),
    }
}
