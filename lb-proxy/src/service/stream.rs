//! The socket to a service under hyper's HTTP client.

use super::meter::{Binding, Meter};
use socket2::SockRef;
use std::io;
use std::mem::MaybeUninit;
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

    /// Whether the kernel has the end, an error, or words that nobody asked for. The runtime may not know of them yet: it hears of
    /// its sockets when its tasks rest, and a busy one rests late.
    fn has_spoken(&self) -> bool {
        let peeked = SockRef::from(&self.socket).peek(&mut [MaybeUninit::uninit()]);
        !matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
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
        if binding == Binding::Unbound && self.has_spoken() {
            return self.stale();
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
        if binding == Binding::Unbound && self.has_spoken() {
            return self.stale();
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::task::noop_waker_ref;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    /// A socket that can be written to, and the service's end of it.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (near, (far, _)) = (near.unwrap(), far.unwrap());
        near.writable().await.unwrap();
        (near, far)
    }

    async fn unbound() -> (ServiceStream, Arc<Meter>, TcpStream) {
        let ((near, far), meter) = (pair().await, Arc::new(Meter::default()));
        meter.bind(Binding::Unbound);
        (ServiceStream::new(near, meter.clone()), meter, far)
    }

    fn write(stream: &mut ServiceStream, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(stream).poll_write(&mut Context::from_waker(noop_waker_ref()), bytes)
    }

    fn read(stream: &mut ServiceStream) -> Poll<io::Result<()>> {
        let mut space = [0; 16];
        Pin::new(stream).poll_read(&mut Context::from_waker(noop_waker_ref()), &mut ReadBuf::new(&mut space))
    }

    fn reset(far: TcpStream) {
        far.set_zero_linger().unwrap();
        drop(far);
    }

    /// The kernel knows of the reset, and the runtime does not yet: only the write finds it.
    #[tokio::test]
    async fn a_request_that_could_not_be_written_goes_to_the_next_socket_whole() {
        let (mut stream, meter, far) = unbound().await;
        reset(far);
        assert!(write(&mut stream, b"GET /").is_pending());
        assert_eq!((meter.binding(), meter.bytes()), (Binding::Stale, 0));
        assert!(
            write(&mut stream, b"GET /").is_pending() && read(&mut stream).is_pending(),
            "it holds still"
        );
        let (near, mut far) = pair().await;
        meter.replace(near);
        assert!(matches!(write(&mut stream, b"GET /"), Poll::Ready(Ok(5))));
        assert_eq!((meter.binding(), meter.bytes(), meter.segments()), (Binding::Settled, 5, 1));
        let mut came = [0; 5];
        far.read_exact(&mut came).await.unwrap();
        assert_eq!(&came, b"GET /");
    }

    /// The kernel knows of the end as soon as it has come, the runtime only after its next look: nothing is awaited here.
    #[tokio::test]
    async fn an_end_that_only_the_kernel_knows_of_makes_a_socket_stale_too() {
        for words in [&b""[..], b"HTTP/1.1 408 Request Timeout\r\n\r\n"] {
            let (mut stream, meter, far) = unbound().await;
            far.try_write(words).unwrap();
            drop(far);
            assert!(write(&mut stream, b"GET /").is_pending());
            assert_eq!((meter.binding(), meter.bytes()), (Binding::Stale, 0));
        }
    }

    #[tokio::test]
    async fn once_a_byte_is_written_errors_are_told() {
        let (mut stream, meter, far) = unbound().await;
        assert!(matches!(write(&mut stream, b"G"), Poll::Ready(Ok(1))));
        reset(far);
        assert!(matches!(write(&mut stream, b"ET"), Poll::Ready(Err(_))));
        assert_eq!(meter.binding(), Binding::Settled);
    }

    #[tokio::test]
    async fn an_end_and_words_that_nobody_asked_for_make_a_socket_stale_before_the_request_alone() {
        for words in [&b""[..], b"HTTP/1.1 408 Request Timeout\r\n\r\n"] {
            let (mut stream, meter, far) = unbound().await;
            assert!(read(&mut stream).is_pending());
            assert_eq!(meter.binding(), Binding::Unbound, "nothing has come yet");
            far.try_write(words).unwrap();
            drop(far);
            stream.socket.readable().await.unwrap();
            assert!(read(&mut stream).is_pending());
            assert_eq!((meter.binding(), meter.bytes()), (Binding::Stale, 0));
        }
        let (mut stream, meter, far) = unbound().await;
        meter.bind(Binding::Settled);
        far.try_write(b"HTTP/1.1").unwrap();
        stream.socket.readable().await.unwrap();
        assert!(matches!(read(&mut stream), Poll::Ready(Ok(()))));
        assert_eq!(meter.bytes(), 8);
    }
}
