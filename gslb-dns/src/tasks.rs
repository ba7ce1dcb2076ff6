//! The tasks of a node, by name: one that ends before it is told to is a fault that ends the process (faults I-57).
//!
//! A process that goes on without its prober or its carrier looks healthy and is not; one that ends is started again.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use tokio::sync::oneshot;
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

    /// Starts a thread. The runtime's own threads for what blocks are 512 at most, which many UDP threads on many addresses
    /// exceed: the sockets of those beyond would take queries and answer none.
    pub(crate) fn spawn_thread(
        &mut self,
        name: &'static str,
        thread: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let (end, ended) = oneshot::channel();
        let run = move || {
            // Nobody waits for it once the runtime is gone.
            let _ = end.send(catch_unwind(AssertUnwindSafe(thread)));
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        let handle = self.set.spawn(async {
            if let Ok(Err(panic)) = ended.await {
                resume_unwind(panic);
            }
        });
        self.note(name, &handle);
        Ok(())
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
    use std::sync::{Arc, Barrier};
    use std::time::Duration;

    #[tokio::test]
    async fn who_ended_and_how_is_told() {
        let mut tasks = Tasks::default();
        tasks.spawn("the carrier", async { panic!("on purpose") });
        assert_eq!(tasks.ended().await.as_deref(), Some("the carrier failed with a panic"));
        tasks.spawn_thread("a UDP thread", || {}).unwrap();
        assert_eq!(tasks.ended().await.as_deref(), Some("a UDP thread ended"));
        tasks.spawn_thread("a UDP thread", || panic!("on purpose")).unwrap();
        assert_eq!(tasks.ended().await.as_deref(), Some("a UDP thread failed with a panic"));
        assert_eq!(tasks.ended().await, None);
    }

    #[tokio::test]
    async fn six_hundred_threads_run_at_once() {
        const THREADS: usize = 600;
        let (mut tasks, all) = (Tasks::default(), Arc::new(Barrier::new(THREADS)));
        for _ in 0..THREADS {
            let all = all.clone();
            let wait = move || {
                all.wait();
            };
            tasks.spawn_thread("a UDP thread", wait).unwrap();
        }
        let ended = async { while tasks.ended().await.is_some() {} };
        assert!(tokio::time::timeout(Duration::from_secs(60), ended).await.is_ok());
    }
}
