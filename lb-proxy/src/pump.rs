//! Bytes both ways between a client and a service: TCP virtual servers and tunnels.

use crate::alarm::Alarm;
use crate::client::Wire;
use crate::listen::Place;
use crate::service::{Meter, ServiceStream};
use crate::transaction::Transaction;
use bytes::Bytes;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Bytes moved at a time. Larger pieces save system calls until the caches are full.
const PIECE: usize = 64 * 1024;

thread_local! {
    /// Where bytes stay between a read and the write that follows at once. Only what the receiver does not take gets memory
    /// of its own, so a connection that rests has none.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; PIECE]);
}

/// A client and a service that talk through the proxy.
pub(crate) struct Pump {
    pub(crate) client: Wire,
    /// What was read of the client already.
    pub(crate) from_client: Bytes,
    pub(crate) service: ServiceStream,
    /// The same of the service.
    pub(crate) from_service: Bytes,
    pub(crate) meter: Arc<Meter>,
    pub(crate) transaction: Transaction,
    pub(crate) place: Place,
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Both sides said what they had to.
    Done,
    /// A side broke off, was silent for too long, or is to go: both get a reset.
    Broken,
}

/// Carries bytes until both sides have ended. The end of one side is passed on and the other goes on (half-close).
pub(crate) async fn pump(pump: Pump) {
    let Pump { mut client, from_client, mut service, from_service, meter, mut transaction, place } = pump;
    let (mut up, mut down) = (Direction::new(from_client), Direction::new(from_service));
    let idle = place.settings.timeouts.idle;
    let (mut alarm, mut killed) = (Alarm::new(idle), pin!(place.kill.cancelled()));
    let (mut seen, mut since) = (meter.bytes(), Instant::now());
    let end = poll_fn(|cx| {
        meter.driven_by(cx.waker());
        let ways = (up.poll(cx, &mut client, &mut service), down.poll(cx, &mut service, &mut client));
        match ways {
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => return Poll::Ready(End::Done),
            (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => return Poll::Ready(End::Broken),
            _ => (),
        }
        if meter.bytes() != seen {
            (seen, since) = (meter.bytes(), Instant::now());
            transaction.report(since);
        }
        if meter.is_cut() || killed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(End::Broken);
        }
        loop {
            let next = transaction.owes().map_or(since + idle, |at| at.min(since + idle));
            alarm.by(next);
            if alarm.poll(cx).is_pending() {
                return Poll::Pending;
            }
            let now = Instant::now();
            if since + idle <= now {
                place.vserver.counters.timed_out.add();
                return Poll::Ready(End::Broken);
            }
            transaction.report(now);
        }
    });
    if end.await == End::Broken {
        client.reset_on_close();
        service.reset_on_close();
    }
}

/// One way of the two.
struct Direction {
    /// Read, and not yet written.
    pending: Bytes,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing is held back by the receiver's stream.
    Idle,
    /// Something was written that its stream may hold back (TLS).
    Unflushed,
    /// The sender has ended; that is to be passed on.
    Ending,
    /// And is.
    Ended,
}

impl Direction {
    fn new(pending: Bytes) -> Self {
        Direction { pending, state: State::Idle }
    }

    /// Moves what can be moved. Ready when the end was passed on.
    fn poll<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        loop {
            while !self.pending.is_empty() {
                let written = ready!(Pin::new(&mut *to).poll_write(cx, &self.pending))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.state = State::Unflushed;
                let _ = self.pending.split_to(written.min(self.pending.len()));
            }
            self.pending = Bytes::new(); // gives the memory back
            match self.state {
                State::Idle | State::Unflushed => match self.poll_piece(cx, from, to)? {
                    Poll::Ready(0) => self.state = State::Ending,
                    Poll::Ready(_) => self.state = State::Unflushed,
                    Poll::Pending => {
                        if self.state == State::Unflushed {
                            ready!(Pin::new(&mut *to).poll_flush(cx))?;
                            self.state = State::Idle;
                        }
                        return Poll::Pending;
                    }
                },
                State::Ending => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    self.state = State::Ended;
                }
                State::Ended => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Reads a piece and writes it at once; what is not taken becomes pending. Zero means the end.
    fn poll_piece<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Poll<io::Result<usize>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut piece = ReadBuf::new(scratch);
            ready!(Pin::new(from).poll_read(cx, &mut piece))?;
            let read = piece.filled();
            if read.is_empty() {
                return Poll::Ready(Ok(0));
            }
            let written = match Pin::new(to).poll_write(cx, read)? {
                Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(written) => written,
                Poll::Pending => 0,
            };
            if let Some(rest) = read.get(written..)
                && !rest.is_empty()
            {
                self.pending = Bytes::copy_from_slice(rest);
            }
            Poll::Ready(Ok(read.len()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter, duplex};

    /// TLS may take bytes and keep them; nobody else will ask it to write them out.
    #[tokio::test]
    async fn what_a_stream_holds_back_is_flushed_as_soon_as_nothing_more_comes() {
        let ((mut client, mut from), (to, mut service)) = (duplex(64), duplex(64));
        let (mut to, mut way) = (BufWriter::new(to), Direction::new(Bytes::from_static(b"first ")));
        client.write_all(b"second").await.unwrap();
        let carried = tokio::spawn(async move { poll_fn(|cx| way.poll(cx, &mut from, &mut to)).await });
        let mut came = [0; 12];
        let flushed = tokio::time::timeout(std::time::Duration::from_secs(20), service.read_exact(&mut came));
        flushed.await.expect("it is held back").unwrap();
        assert_eq!(&came, b"first second");
        client.shutdown().await.unwrap();
        assert_eq!(service.read(&mut came).await.unwrap(), 0, "the end is passed on");
        carried.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn what_the_receiver_does_not_take_waits_and_holds_the_sender_back() {
        let ((mut client, mut from), (mut to, mut service)) = (duplex(1000), duplex(10));
        let mut way = Direction::new(Bytes::new());
        client.write_all(&[b'y'; 300]).await.unwrap();
        let mut cx = Context::from_waker(futures_util::task::noop_waker_ref());
        assert!(way.poll(&mut cx, &mut from, &mut to).is_pending());
        assert_eq!(way.pending.len(), 290);
        client.write_all(b"more").await.unwrap();
        assert!(way.poll(&mut cx, &mut from, &mut to).is_pending());
        assert_eq!(way.pending.len(), 290, "nothing more is read");
        let mut came = [0; 10];
        service.read_exact(&mut came).await.unwrap();
        assert!(way.poll(&mut cx, &mut from, &mut to).is_pending());
        assert_eq!(way.pending.len(), 280);
    }
}
