//! Work that takes a core for a while: apart from the runtime's threads, one at a time.
//!
//! So whoever asks for pages of a large table gets one core at most, and the rest stay with DNS (reliability R7).

use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::{self, JoinError};

/// Whose turn it is.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Semaphore>);

impl Turns {
    /// Nobody's.
    pub(crate) fn new() -> Self {
        Turns(Arc::new(Semaphore::new(1)))
    }

    /// Does the work when its turn has come. Nothing breaks work off that has begun, so the turn is the work's: it lasts until
    /// the work ends, also when nobody waits for the outcome any longer.
    pub(crate) async fn take<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        // The semaphore is never closed; were it, work without its turn would be no harm.
        let turn = self.0.clone().acquire_owned().await;
        let working = task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        working.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A client that asks and goes, again and again, gets no more than one core.
    #[tokio::test]
    async fn work_that_nobody_waits_for_keeps_its_turn_until_it_ends() {
        let turns = Turns::new();
        let (begins, begun) = mpsc::channel();
        let (finish, finishes) = mpsc::channel::<()>();
        let asking = turns.clone();
        let asked = tokio::spawn(async move {
            let work = move || {
                let _ = begins.send(());
                finishes.recv()
            };
            asking.take(work).await
        });
        let begun = task::spawn_blocking(move || begun.recv()).await;
        assert_eq!(begun.unwrap(), Ok(()));
        asked.abort();
        assert!(asked.await.unwrap_err().is_cancelled());
        assert_eq!(turns.0.available_permits(), 0, "the work goes on");
        let mut next = tokio::spawn(async move { turns.take(|| 7).await.unwrap() });
        tokio::select! {
            _ = &mut next => panic!("two at a time"),
            () = task::yield_now() => {}
        }
        finish.send(()).unwrap();
        assert_eq!(next.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn work_that_fails_gives_its_turn_back() {
        let turns = Turns::new();
        assert!(turns.take(|| panic!("planted")).await.is_err());
        assert_eq!(turns.take(|| 7).await.unwrap(), 7);
    }
}
