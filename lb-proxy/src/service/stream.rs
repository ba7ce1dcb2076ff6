//! The socket to a service under hyper's HTTP client.

use super::meter::{Binding, Meter};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A TCP stream that counts, and that binds a request to its socket only with the request's first byte.
///
/// A service may close a connection that waits for reuse at any time. As long as no byte of the new request is written, the
/// service can't have seen it, so the stream does not tell hyper that the socket is dead: it marks itself stale and holds still
/// until its driver gives it another socket, to the same service or to another. The bytes of a request do not depend on the
/// service, so hyper need not know. Thus nothing that hyper has taken apart must be put together again for a second try.
#[derive(Debug)]
pub(crate) struct ServiceStream {
    socket: TcpStream,
    meter: Arc<Meter>,
}

impl ServiceStream {
    pub(crate) fn new(socket: TcpStream, meter: Arc<Meter>) -> Self {
        ServiceStream { socket, meter }
    }

    /// Closing it will tell the service that something went wrong, rather than that all was said.
    pub(crate) fn reset_on_close(&self) {
        let _ = self.socket.set_zero_linger(); // without it the close is merely a polite one
    }

    /// The state of the binding, after taking a replacement that was left.
    fn binding(&mut self) -> Binding {
        let binding = self.meter.binding();
        if binding == Binding::Unbound
            && let Some(socket) = self.meter.take_replacement()
        {
            self.socket = socket;
        }
        binding
    }

    /// Ready if there is anything to read, be it the end. Readiness noted earlier may be old, so a byte is really read.
    fn poll_spoken(&self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.socket.poll_read_ready(cx).is_pending() {
                return Poll::Pending;
            }
            match self.socket.try_read(&mut [0; 1]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                Ok(_) | Err(_) => return Poll::Ready(()),
            }
        }
    }

    fn stale<T>(&self) -> Poll<io::Result<T>> {
        self.meter.bind(Binding::Stale);
        Poll::Pending
    }

    /// Notes what a write of the request came to.
    fn wrote(&self, binding: Binding, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(bytes)) => {
                self.meter.count(*bytes);
                if binding == Binding::Unbound {
                    self.meter.bind(Binding::Settled);
                }
            }
            Poll::Ready(Err(_)) if binding == Binding::Unbound => return self.stale(),
            Poll::Ready(Err(_)) | Poll::Pending => (),
        }
        written
    }
}

impl AsyncRead for ServiceStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.binding() {
            Binding::Stale => return Poll::Pending,
            // The end, an error or words that nobody asked for: each means that this socket is not to be used.
            Binding::Unbound => {
                return match self.poll_spoken(cx) {
                    Poll::Ready(()) => self.stale(),
                    Poll::Pending => Poll::Pending,
                };
            }
            Binding::Settled => (),
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buf);
        let bytes = buf.filled().len() - before;
        if bytes > 0 {
            self.meter.count(bytes);
        }
        read
    }
}

impl AsyncWrite for ServiceStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let binding = self.binding();
        if binding == Binding::Stale {
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.wrote(binding, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let binding = self.binding();
        if binding == Binding::Stale {
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.wrote(binding, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // a socket holds nothing back
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
