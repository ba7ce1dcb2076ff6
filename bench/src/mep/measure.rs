//! The two measurements: changes of a table that both ends know, and a table told whole.

use crate::end::{self, End};
use crate::table::Table;
use crate::wire;
use gslb_types::NodeId;
use mep_core::carrier::Over;
use mep_io::pki::Authority;
use mep_io::{GroupName, Identity};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The group both ends are of.
pub(crate) const GROUP: &str = "bench";

/// Far above what anything takes here; reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(120);

/// From one look at an end to the next.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// How changes are made.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// From one batch to the next.
    pub(crate) interval: Duration,
    /// How many.
    pub(crate) batches: u32,
}

/// What some updates have cost.
pub(crate) struct Measurement {
    updates: u64,
    bytes: u64,
    pub(crate) sender: Duration,
    pub(crate) receiver: Duration,
    pub(crate) took: Duration,
}

impl Measurement {
    /// Bytes on the wire both ways for each row told, whatever else was said meanwhile included.
    pub(crate) fn bytes_per_update(&self) -> f64 {
        self.bytes as f64 / self.updates as f64
    }

    /// CPU time for each row told, in microseconds.
    pub(crate) fn micros_per_update(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.updates as f64
    }
}

/// Changes parts of a table, each so many percent of it, batch by batch.
pub(crate) fn changes(over: Over, rows: u32, rates: &[u32], plan: Plan) -> Result<Vec<Measurement>, String> {
    let pair = Pair::synced(over, rows, plan.interval)?;
    rates.iter().map(|rate| pair.changes(*rate, plan)).collect()
}

/// Tells a whole table to an end that knows nothing.
pub(crate) fn sync(over: Over, rows: u32) -> Result<Measurement, String> {
    let before = wire::loopback_bytes()?;
    let pair = Pair::synced(over, rows, Duration::from_secs(5))?;
    let seen = &pair.receiver.seen;
    let (Some(up), Some(synced)) = (seen.up(), seen.synced()) else {
        return Err("the session was lost in the middle of the sync".to_owned());
    };
    Ok(Measurement {
        updates: pair.rows,
        bytes: wire::loopback_bytes()? - before,
        sender: wire::cpu_time(pair.sender.thread)?,
        receiver: wire::cpu_time(pair.receiver.thread)?,
        took: synced - up,
    })
}

struct Pair {
    sender: End,
    receiver: End,
    rows: u64,
}

impl Pair {
    /// Two ends of which the second has been told all that the first one knows.
    fn synced(over: Over, rows: u32, rtt_interval: Duration) -> Result<Self, String> {
        if !wire::is_ours_alone()? {
            return Err("something else uses this loopback: run bench/mep_exchange".to_owned());
        }
        let group: GroupName = GROUP.parse().map_err(|error| format!("{error}"))?;
        let authority = Authority::new(&group).map_err(|error| error.to_string())?;
        let end = |me: &str, peer: &str, table: Table| {
            let (me, peer) = (node(me)?, node(peer)?);
            let pem = authority.issue(&me).map_err(|error| error.to_string())?;
            let identity = Identity::from_pem(&pem, &group, &me).map_err(|error| error.to_string())?;
            End::bind(end::Plan { me, identity: Arc::new(identity), peer, over, rtt_interval, table })
        };
        let table = Table::new(rows);
        let rows = table.len() as u64;
        let (mut sender, mut receiver) = (end("a/1", "b/1", table)?, end("b/1", "a/1", Table::new(0))?);
        receiver.meet(sender.address);
        sender.meet(receiver.address);
        let pair = Pair { sender, receiver, rows };
        pair.wait("the whole table", || pair.receiver.seen.synced().is_some() && pair.told() >= rows)?;
        if pair.receiver.seen.is_over_another_carrier() {
            return Err(format!("the session does not stand over {}", over.as_str()));
        }
        Ok(pair)
    }

    fn changes(&self, percent: u32, plan: Plan) -> Result<Measurement, String> {
        let count = usize::try_from(self.rows * u64::from(percent) / 100).unwrap_or(usize::MAX).max(1);
        // Whatever the batch before has left behind is over by then.
        std::thread::sleep(plan.interval);
        let (start, told) = (Instant::now(), self.told());
        let bytes = wire::loopback_bytes()?;
        let (sender, receiver) = (wire::cpu_time(self.sender.thread)?, wire::cpu_time(self.receiver.thread)?);
        for batch in 1..=plan.batches {
            self.sender.change(count)?;
            let wanted = told + u64::from(batch) * count as u64;
            self.wait("a batch of changes", || self.told() >= wanted)?;
            std::thread::sleep((plan.interval * batch).saturating_sub(start.elapsed()));
        }
        Ok(Measurement {
            updates: self.told() - told,
            bytes: wire::loopback_bytes()? - bytes,
            sender: wire::cpu_time(self.sender.thread)? - sender,
            receiver: wire::cpu_time(self.receiver.thread)? - receiver,
            took: start.elapsed(),
        })
    }

    /// Rows the second end has taken.
    fn told(&self) -> u64 {
        self.receiver.seen.rows.load(Ordering::Relaxed)
    }

    fn wait(&self, what: &str, done: impl Fn() -> bool) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        while !done() {
            if Instant::now() > end {
                return Err(format!("{what} did not come within {PATIENCE:?}: {} rows did", self.told()));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

fn node(name: &str) -> Result<NodeId, String> {
    name.parse().map_err(|error| format!("{name}: {error}"))
}
