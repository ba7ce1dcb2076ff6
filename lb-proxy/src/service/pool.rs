//! Connections to one service that wait for reuse.

use super::connection::ServiceConnection;
use futures_util::task::noop_waker_ref;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;
use tokio::time::Instant;

/// The connection used last is used next, so that those not needed grow old and are closed.
pub(super) struct Pool {
    /// Oldest first.
    waiting: Mutex<VecDeque<Box<ServiceConnection>>>,
    cap: usize,
}

impl Pool {
    pub(super) fn new(cap: usize) -> Self {
        Pool { waiting: Mutex::default(), cap }
    }

    /// One that can be used; those that were cut a moment ago can not.
    pub(super) fn take(&self) -> Option<Box<ServiceConnection>> {
        loop {
            let taken = self.lock().pop_back()?;
            if !taken.meter.is_cut() {
                return Some(taken);
            }
        }
    }

    /// Beyond the cap the oldest makes room.
    pub(super) fn put(&self, mut connection: Box<ServiceConnection>) {
        connection.idle_since = Instant::now();
        let mut waiting = self.lock();
        waiting.push_back(connection);
        let surplus = if waiting.len() > self.cap { waiting.pop_front() } else { None };
        drop(waiting);
        drop(surplus); // closes a socket: not under the lock
    }

    pub(super) fn sweep(&self, idle: Duration) {
        let mut waiting = self.lock();
        let mut dead = Vec::new();
        let mut cx = Context::from_waker(noop_waker_ref());
        for mut connection in std::mem::take(&mut *waiting) {
            if connection.idle_since.elapsed() >= idle || connection.is_dead(&mut cx) {
                dead.push(connection);
            } else {
                waiting.push_back(connection);
            }
        }
        drop(waiting);
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Box<ServiceConnection>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("waiting", &self.len()).field("cap", &self.cap).finish()
    }
}
