//! The tasks of a node, by name: one that ends before it is told to is a fault that ends the process (faults I-57).
//!
//! A process that goes on without its prober or its carrier looks healthy and is not; one that ends is started again.

use std::collections::BTreeMap;
use std::future::Future;
use tokio::task::{AbortHandle, Id, JoinSet};

/// The tasks that run.
#[derive(Default)]
pub(crate) struct Tasks {
    set: JoinSet<()>,
    names: BTreeMap<Id, &'static str>,
}

impl Tasks {
    /// Starts a task on the runtime.
    pub(crate) fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.set.spawn(task);
        self.note(name, &handle);
    }

    /// Starts a thread.
    pub(crate) fn spawn_blocking(&mut self, name: &'static str, thread: impl FnOnce() + Send + 'static) {
        let handle = self.set.spawn_blocking(thread);
        self.note(name, &handle);
    }

    /// Waits until one ends, and says which and how; `None` when there is none left.
    pub(crate) async fn ended(&mut self) -> Option<String> {
        let ended = self.set.join_next_with_id().await?;
        let (id, how) = match ended {
            Ok((id, ())) => (id, "ended"),
            Err(error) if error.is_panic() => (error.id(), "failed with a panic"),
            Err(error) => (error.id(), "was ended"),
        };
        let name = self.names.remove(&id).unwrap_or("a task");
        Some(format!("{name} {how}"))
    }

    fn note(&mut self, name: &'static str, handle: &AbortHandle) {
        self.names.insert(handle.id(), name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_ended_and_how_is_told() {
        let mut tasks = Tasks::default();
        tasks.spawn("the carrier", async { panic!("on purpose") });
        assert_eq!(tasks.ended().await.as_deref(), Some("the carrier failed with a panic"));
        tasks.spawn_blocking("a UDP thread", || {});
        assert_eq!(tasks.ended().await.as_deref(), Some("a UDP thread ended"));
        assert_eq!(tasks.ended().await, None);
    }
}
