//! A timer that costs nothing while its deadline only moves away.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// One sleep for the life of a connection, moved only when it must ring earlier than it is set to.
///
/// A deadline that is put off with every request or read would cost the runtime's timer lock twice each time. This one rings
/// at the old time, its owner sees that nothing is due, and sets it again: one ring per timeout and connection at most.
#[derive(Debug)]
pub(crate) struct Alarm {
    sleep: Pin<Box<Sleep>>,
}

impl Alarm {
    pub(crate) fn new(after: Duration) -> Self {
        Alarm { sleep: Box::pin(tokio::time::sleep(after)) }
    }

    /// Rings at `deadline`, or before.
    pub(crate) fn by(&mut self, deadline: Instant) {
        if self.sleep.deadline() > deadline || self.sleep.is_elapsed() {
            self.sleep.as_mut().reset(deadline);
        }
    }

    /// Ready when it rings.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().poll(cx)
    }
}
