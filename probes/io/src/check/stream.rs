//! A TCP connection that knows when its bytes left and came.

use super::MOST;
use crate::receive::{ask_for_stamps, packet};
use crate::stamp::rtt;
use gslb_types::Rtt;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// When bytes left and came. Shared with whoever wraps the connection, and out of its sight.
#[derive(Clone, Default)]
pub(super) struct Times(Arc<Mutex<Stamps>>);

#[derive(Default)]
struct Stamps {
    sent: Option<Instant>,
    came: Option<Instant>,
}

impl Times {
    /// The next bytes that leave begin the span.
    pub(super) fn begin(&self) {
        self.with(|stamps| stamps.sent = None);
    }

    /// It began then, whatever is sent.
    pub(super) fn began(&self, at: Instant) {
        self.with(|stamps| stamps.sent = Some(at));
    }

    /// When it began.
    pub(super) fn sent(&self) -> Option<Instant> {
        self.with(|stamps| stamps.sent)
    }

    /// When the last bytes came that were read, by the kernel's stamp.
    pub(super) fn came(&self) -> Instant {
        self.with(|stamps| stamps.came).unwrap_or_else(Instant::now)
    }

    /// Whether the last bytes came before the span began: no answer to what was sent then.
    pub(super) fn is_early(&self) -> bool {
        self.with(|stamps| stamps.sent.zip(stamps.came).is_some_and(|(sent, came)| came < sent))
    }

    /// From the beginning to the last bytes that came.
    pub(super) fn span(&self) -> Rtt {
        self.span_to(self.came())
    }

    /// From the beginning to then.
    pub(super) fn span_to(&self, came: Instant) -> Rtt {
        rtt(self.sent().unwrap_or(came), came)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Stamps) -> T) -> T {
        // A stamp is written whole or not at all.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The connection.
pub(super) struct Stamped {
    stream: TcpStream,
    times: Times,
}

impl Stamped {
    pub(super) fn new(stream: TcpStream) -> Self {
        ask_for_stamps(&stream);
        // Not to hold back what fits one segment.
        let _ = stream.set_nodelay(true);
        Stamped { stream, times: Times::default() }
    }

    pub(super) fn times(&self) -> Times {
        self.times.clone()
    }

    /// Takes in what has come so far, without waiting: what is there before a question is no answer to it. Asked of the
    /// system itself, as the runtime may not know yet of what has just come. No more than [`MOST`]: the rest of one that
    /// talks on and on is told by its stamps.
    pub(super) fn waiting(&self) -> Vec<u8> {
        let mut early = Vec::new();
        let mut buf = [0; 4096];
        while early.len() < MOST
            && let Ok(read) = packet(&self.stream, &mut buf)
            && read.len > 0
        {
            early.extend_from_slice(buf.get(..read.len).unwrap_or_default());
        }
        early
    }
}

impl AsyncRead for Stamped {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            let unfilled = buf.initialize_unfilled();
            match self.stream.try_io(Interest::READABLE, || packet(&self.stream, unfilled)) {
                Ok(read) => {
                    if read.len > 0 {
                        self.times.with(|stamps| stamps.came = Some(read.came));
                    }
                    buf.advance(read.len);
                    return Poll::Ready(Ok(()));
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.times.with(|stamps| stamps.sent.get_or_insert_with(Instant::now).to_owned());
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Duration;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn what_came_before_a_question_is_told_from_what_answers_it() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut stream, mut server) = (Stamped::new(stream), listener.accept().unwrap().0);
        let times = stream.times();
        assert_eq!(stream.waiting(), b"");
        server.write_all(b"hello").unwrap();
        // The runtime does not run meanwhile: nobody has told it that something came.
        let until = Instant::now() + Duration::from_secs(20);
        let mut early = Vec::new();
        while early != b"hello" {
            early.extend(stream.waiting());
            assert!(Instant::now() < until, "{early:?}");
        }
        assert_eq!(stream.waiting(), b"", "it is taken in");
        server.write_all(b"again").unwrap();
        stream.read_exact(&mut [0; 5]).await.unwrap();
        assert!(!times.is_early(), "nothing was asked yet");
        times.began(Instant::now());
        assert!(times.is_early());
        server.write_all(b"now").unwrap();
        stream.read_exact(&mut [0; 3]).await.unwrap();
        assert!(!times.is_early());
    }
}
