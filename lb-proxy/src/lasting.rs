//! Tasks that last as long as what they serve: one that ends before it is told to is a fault, and must not go unnoticed
//! (faults I-57). A listener whose task is gone would look healthy and accept nobody.

use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Where such faults are told.
#[derive(Clone, Debug)]
pub(crate) struct Faults(Arc<watch::Sender<Option<&'static str>>>);

impl Faults {
    pub(crate) fn none() -> Self {
        Faults(Arc::new(watch::Sender::new(None)))
    }

    /// Waits for the first fault: which task ended.
    pub(crate) async fn first(&self) -> &'static str {
        let mut told = self.0.subscribe();
        loop {
            if let Some(name) = *told.borrow_and_update() {
                return name;
            }
            if told.changed().await.is_err() {
                std::future::pending::<()>().await; // nobody is left who could tell
            }
        }
    }

    /// The same task; if it ends or panics before `stop` is cancelled, that is a fault.
    pub(crate) fn watch<T: Future<Output = ()>>(
        &self,
        name: &'static str,
        stop: CancellationToken,
        task: T,
    ) -> impl Future<Output = ()> + use<T> {
        let watched = Watched { name, stop, faults: self.clone() };
        async move {
            let _watched = watched;
            task.await;
        }
    }
}

/// Tells of the end when it is dropped, also while a panic unwinds.
struct Watched {
    name: &'static str,
    stop: CancellationToken,
    faults: Faults,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.stop.is_cancelled() {
            self.faults.0.send_replace(Some(self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn heard(faults: &Faults) -> Option<&'static str> {
        tokio::time::timeout(Duration::from_millis(50), faults.first()).await.ok()
    }

    #[tokio::test]
    async fn a_panic_and_an_early_end_are_told() {
        for task in [true, false] {
            let faults = Faults::none();
            let watched = faults.watch("a listener", CancellationToken::new(), async move {
                assert!(task, "on purpose");
            });
            assert_eq!(tokio::spawn(watched).await.is_ok(), task);
            assert_eq!(heard(&faults).await, Some("a listener"));
        }
    }

    #[tokio::test]
    async fn the_end_of_a_task_that_was_told_to_is_none() {
        let (faults, stop) = (Faults::none(), CancellationToken::new());
        stop.cancel();
        faults.watch("a listener", stop, async {}).await;
        assert_eq!(heard(&faults).await, None);
    }
}
