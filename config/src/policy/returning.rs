//! When clients are sent on to a backup although something here is up, and when they come back.

use super::NEEDS_TRAFFIC;
use super::model::{Failback, Spillover};
use crate::lb::rate;
use crate::reader::Table;
use gslb_types::LbMethod;
use std::time::Duration;

/// Whether an operator brings clients back.
const FAILBACK: [(&str, bool); 2] = [("auto", false), ("manual", true)];

const DAY: Duration = Duration::from_secs(86_400);

pub(super) fn failback(t: &Table<'_>) -> Failback {
    let delay = t.duration("failback_delay", Duration::ZERO..=DAY);
    match (t.word("failback", &FAILBACK), delay.is_zero()) {
        (true, true) => Failback::Manual,
        (true, false) => {
            t.refuse("failback_delay", "nothing comes back by itself with failback = \"manual\"");
            Failback::Manual
        }
        (false, true) => Failback::AtOnce,
        (false, false) => Failback::After(delay),
    }
}

pub(super) fn spillover(t: &Table<'_>, is_fed: impl Fn(LbMethod) -> bool) -> Option<Spillover> {
    let keys = [
        ("spillover_connections", Some(LbMethod::LeastConnections)),
        ("spillover_bandwidth", Some(LbMethod::LeastBandwidth)),
        ("spillover_health", None),
    ];
    let given = keys.iter().filter(|(key, _)| t.gives(key));
    for (key, metric) in given.clone() {
        if !t.gives("backup_vserver") {
            t.refuse(key, "needs a `backup_vserver` to send clients on to");
        }
        if metric.is_some_and(|metric| !is_fed(metric)) {
            t.refuse(key, NEEDS_TRAFFIC);
        }
    }
    let spillover = Spillover {
        connections: t.item("spillover_connections").and_then(|i| i.number(1..=u64::from(u32::MAX))),
        bandwidth: t.item("spillover_bandwidth").and_then(|i| rate(&i)),
        health: t.item("spillover_health").and_then(|i| i.number(1..=100)),
        back_at: t.number("spillover_return", 1..=100),
    };
    given.count().gt(&0).then_some(spillover)
}
