//! The body of a request on its way to the service.

use crate::client::{Activity, Running};
use crate::service::{Meter, Waiting};
use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

/// A client's body, passed on piece by piece as the service takes it.
pub(crate) struct Upload {
    incoming: Incoming,
    /// All of it was read. hyper's body knows that of itself only where its length was given.
    is_over: bool,
    meter: Option<Arc<Meter>>,
    gate: Option<Arc<Gate>>,
    /// Hears of it if not all is read.
    activity: Arc<Activity>,
    /// Until all is read, what comes from the client is this body, even if the answer is through already.
    running: Option<Running>,
}

/// Keeps the body back until the service says that it wants it (`Expect: 100-continue`).
///
/// hyper tells the client to go on as soon as somebody reads the body; so nobody reads it before the service has said so.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    is_open: AtomicBool,
    waiting: AtomicWaker,
}

impl Gate {
    pub(crate) fn open(&self) {
        self.is_open.store(true, Relaxed);
        self.waiting.wake();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Relaxed)
    }

    fn poll_open(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.waiting.register(cx.waker());
        if self.is_open() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Upload {
    pub(crate) fn new(incoming: Incoming, gate: Option<Arc<Gate>>, activity: &Arc<Activity>) -> Self {
        let is_over = incoming.is_end_stream();
        let running = (!is_over).then(|| activity.run());
        Upload { incoming, is_over, meter: None, gate, activity: activity.clone(), running }
    }

    /// From here on `meter` tells whom the body waits for.
    pub(crate) fn tells(&mut self, meter: &Arc<Meter>) {
        let waits = if self.is_over { Waiting::Nobody } else { Waiting::Service };
        meter.set_upload(waits);
        self.meter = (waits != Waiting::Nobody).then(|| meter.clone());
    }

    fn note(&self, waits: Waiting) {
        if let Some(meter) = &self.meter {
            meter.set_upload(waits);
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.is_over {
            self.activity.cut_short();
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(gate) = &self.gate
            && gate.poll_open(cx).is_pending()
        {
            return Poll::Pending;
        }
        let frame = Pin::new(&mut self.incoming).poll_frame(cx);
        self.is_over = self.incoming.is_end_stream()
            || match &frame {
                Poll::Ready(Some(Ok(frame))) => frame.is_trailers(),
                Poll::Ready(None) => true,
                Poll::Ready(Some(Err(_))) | Poll::Pending => false,
            };
        self.note(match &frame {
            _ if self.is_over => Waiting::Nobody,
            Poll::Pending => Waiting::Client,
            Poll::Ready(Some(Err(_))) => Waiting::Broken,
            Poll::Ready(_) => Waiting::Service,
        });
        if self.is_over {
            self.running = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
