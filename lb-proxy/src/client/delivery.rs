//! A response on its way to a client who may not take it.
//!
//! Whoever writes to a client that takes nothing asks nobody for more, so the body of the response is not looked at any more,
//! and can't end by itself: not at its drain's deadline, nor when its time is up. So the task that writes looks here.

use crate::service::Meter;
use futures_util::task::AtomicWaker;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// One of a client connection of HTTP/1.1, one for each request of HTTP/2.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    /// Of the connection to the service, while a body comes from it.
    from: Mutex<Option<Arc<Meter>>>,
    /// Pieces of the body that were taken.
    pieces: AtomicU64,
    is_given_up: AtomicBool,
    task: AtomicWaker,
}

/// Why a response is broken off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Broken {
    /// Its service's drain is over.
    Cut,
    /// The client has taken nothing for too long.
    GivenUp,
}

impl Delivery {
    /// A body comes from this connection.
    pub(crate) fn begins(&self, from: &Arc<Meter>) {
        *self.lock() = Some(from.clone());
    }

    pub(crate) fn ended(&self) {
        *self.lock() = None;
    }

    /// Another piece of the body was taken.
    pub(crate) fn moved(&self) {
        self.pieces.fetch_add(1, Relaxed);
    }

    pub(super) fn pieces(&self) -> u64 {
        self.pieces.load(Relaxed)
    }

    /// It is to be broken off.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Relaxed);
        self.task.wake();
    }

    /// Ready when it is to be broken off.
    pub(super) fn poll_broken(&self, cx: &mut Context<'_>) -> Poll<Broken> {
        self.task.register(cx.waker());
        if self.is_given_up.load(Relaxed) {
            return Poll::Ready(Broken::GivenUp);
        }
        match &*self.lock() {
            Some(from) if from.is_cut_for(cx.waker()) => Poll::Ready(Broken::Cut),
            Some(_) | None => Poll::Pending,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Meter>>> {
        self.from.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
