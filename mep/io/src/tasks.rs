//! Tasks that libraries start and would let go of, held so that they end when the carrier says so. Whoever lets go of them
//! can't know when a socket is closed: a connection that is being closed lingers for seconds (faults I-71).

use std::future::Future;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// The tasks that are held together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    running: TaskTracker,
    given_up: CancellationToken,
}

impl Tasks {
    /// Starts one.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let given_up = self.given_up.clone();
        self.running.spawn(async move {
            tokio::select! {
                () = given_up.cancelled() => (),
                () = task => (),
            }
        });
    }

    /// Starts one that ends with the guard, too.
    pub(crate) fn spawn_guarded(&self, task: impl Future<Output = ()> + Send + 'static) -> DropGuard {
        let given_up = self.given_up.child_token();
        let guard = given_up.clone().drop_guard();
        self.running.spawn(async move {
            tokio::select! {
                () = given_up.cancelled() => (),
                () = task => (),
            }
        });
        guard
    }

    /// Ends them, finished or not; their sockets are closed afterwards.
    pub(crate) async fn end(self) {
        self.given_up.cancel();
        self.running.close();
        self.running.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn all_end_when_told_and_a_guarded_one_with_its_guard() {
        let tasks = Tasks::default();
        let hold = |sender: oneshot::Sender<()>| async move {
            let _held = sender;
            pending::<()>().await;
        };
        let ((a, mut a_gone), (b, b_gone)) = (oneshot::channel(), oneshot::channel());
        tasks.spawn(hold(a));
        drop(tasks.spawn_guarded(hold(b)));
        assert!(b_gone.await.is_err());
        assert!(a_gone.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        tasks.end().await;
        assert!(a_gone.await.is_err());
    }
}
