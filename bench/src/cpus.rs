//! Which CPU does what.

use crate::Failure;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// One CPU for the server that is measured, one for everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// The servers that are measured, in turn.
    pub server: usize,
    /// The load, and the other nodes of the group.
    pub load: usize,
}

impl Cpus {
    /// The first two that this process may use.
    pub fn choose() -> Result<Self, Failure> {
        let set =
            sched_getaffinity(Pid::from_raw(0)).map_err(|e| Failure::system("CPU affinity")(e.into()))?;
        let usable: Vec<usize> = (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu) == Ok(true)).collect();
        match usable.as_slice() {
            [server, load, ..] => Ok(Cpus { server: *server, load: *load }),
            fewer => Err(Failure::Cpus(fewer.len())),
        }
    }
}

/// Keeps this thread, and the processes that it starts from now on, on one CPU.
pub fn pin(cpu: usize) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    let pinned = set.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    pinned.map_err(|e| Failure::system(format!("pin to CPU {cpu}"))(e.into()))
}
