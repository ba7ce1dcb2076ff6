//! DNS over TCP (RFC 7766), and over TLS within it (RFC 7858): two-byte lengths, pipelining, reuse, half-close; our own
//! framing, because hickory-server's has no cap on connections and its accept loop spins when descriptors run out.

use super::registry::{Place, Registry};
use super::{Context, Noted};
use gslb_core::dns::{Transport, answer};
use gslb_core::{DnsCounters, Shared};
use socket2::{Domain, Protocol, Socket, Type};
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinError;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Connections the kernel holds until they are accepted.
const BACKLOG: i32 = 1024;

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How long accepting pauses when there is no descriptor left, instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Replies collected before they are written: enough to pipeline, little enough for thousands of connections.
const WRITE_AT: usize = 16 * 1024;

/// How much is read at once.
const READ: usize = 4096;

/// Binds and listens.
pub(crate) fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Accepts until `context.stop` is cancelled, with TLS if there is an acceptor for it. Connections are tasks of their own and
/// end with it.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    registry: Registry,
    context: Context,
) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            () = context.stop.cancelled() => break,
            Some(done) = connections.join_next(), if !connections.is_empty() => note(done, &context.shared.dns),
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    let (place, evicted) = registry.admit(from.ip().to_canonical());
                    let counters = &context.shared.dns;
                    counters.connections.fetch_add(1, Ordering::Relaxed);
                    counters.connections_evicted.fetch_add(u64::from(evicted), Ordering::Relaxed);
                    let connection = Connection {
                        stream,
                        source: from.ip().to_canonical(),
                        transport: Transport::Tcp,
                        idle: registry.limits().idle,
                        place,
                        context: context.clone(),
                    };
                    connections.spawn(connection.run(tls.clone()));
                }
                // Out of descriptors, or the client is gone already: neither may end the listener or spin.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    connections.shutdown().await;
}

/// A fault of ours in answering costs one connection and is counted (bar R3).
fn note(done: Result<(), JoinError>, counters: &DnsCounters) {
    if done.is_err_and(|error| error.is_panic()) {
        counters.panics.fetch_add(1, Ordering::Relaxed);
    }
}

struct Connection<S> {
    stream: S,
    source: IpAddr,
    transport: Transport,
    idle: Duration,
    place: Place,
    context: Context,
}

impl Connection<TcpStream> {
    async fn run(mut self, tls: Option<TlsAcceptor>) {
        let close = self.place.close.clone();
        let _open = Open::count(&self.context.shared, tls.is_some());
        let conversation = async {
            match tls {
                None => self.talk().await,
                Some(tls) => self.secure(&tls).await,
            }
        };
        tokio::select! {
            () = close.cancelled() => {}
            // How a stranger's connection ends is nobody's concern.
            _ = conversation => {}
        }
    }

    /// Shakes hands, and talks within.
    async fn secure(self, tls: &TlsAcceptor) -> io::Result<()> {
        let Connection { stream, source, idle, place, context, .. } = self;
        let stream = timeout(HANDSHAKE, tls.accept(stream)).await??;
        Connection { stream, source, transport: Transport::Tls, idle, place, context }.talk().await
    }
}

/// A connection among those counted as open, until it is dropped.
struct Open {
    shared: Arc<Shared>,
    tls: bool,
}

impl Open {
    fn count(shared: &Arc<Shared>, tls: bool) -> Self {
        let open = Open { shared: shared.clone(), tls };
        open.counter().fetch_add(1, Ordering::Relaxed);
        open
    }

    fn counter(&self) -> &AtomicU64 {
        if self.tls { &self.shared.dns.tls_open } else { &self.shared.dns.tcp_open }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.counter().fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn talk(&mut self) -> io::Result<()> {
        let mut input = Vec::new();
        let mut chunk = [0; READ];
        let mut deadline = tokio::time::Instant::now() + self.idle;
        loop {
            let read = tokio::time::timeout_at(deadline, self.stream.read(&mut chunk)).await??;
            let Some(got) = chunk.get(..read).filter(|got| !got.is_empty()) else { break };
            input.extend_from_slice(got);
            let (used, answered) = self.answer_all(&input).await?;
            input.drain(..used);
            if read == READ {
                // There is more to read. Without this a client that sends without end keeps a runtime thread busy for as
                // long as its sockets are ready, and others are not even accepted.
                tokio::task::yield_now().await;
            }
            if answered {
                // Only what deserves a reply counts as activity: a client that trickles bytes, or messages without
                // content, is idle (RFC 7766 section 6.2.3).
                self.place.queried();
                deadline = tokio::time::Instant::now() + self.idle;
            }
        }
        self.stream.shutdown().await
    }

    /// Answers every whole message of `input`. Returns how many bytes they took, and whether one got a reply.
    async fn answer_all(&mut self, input: &[u8]) -> io::Result<(usize, bool)> {
        let mut used = 0;
        let mut answered = false;
        let mut output = Vec::new();
        while let Some(message) = message(input.get(used..).unwrap_or_default()) {
            used += 2 + message.len();
            answered |= self.answer(message, &mut output);
            if output.len() >= WRITE_AT {
                self.write(&mut output).await?;
            }
        }
        self.write(&mut output).await?;
        Ok((used, answered))
    }

    /// Adds the reply to a message, if there is to be one.
    fn answer(&self, request: &[u8], output: &mut Vec<u8>) -> bool {
        let context = &self.context;
        let now = context.clock.now();
        let published = context.shared.published.load();
        REPLY.with_borrow_mut(|buffer| {
            let answered =
                answer(&context.shared, &published, request, self.source, self.transport, now, buffer);
            if let Some(ldns) = answered.sighting {
                context.sightings.send(Noted::Sighting(ldns));
            }
            if let Some((key, service)) = answered.session {
                context.sightings.send_session(&published, key, service);
            }
            if let (Some(reply), Ok(len)) = (buffer.get(..answered.len), u16::try_from(answered.len))
                && len > 0
            {
                output.extend_from_slice(&len.to_be_bytes());
                output.extend_from_slice(reply);
                return true;
            }
            false
        })
    }

    /// Writes what is collected. A client that does not read is cut off after the idle time.
    async fn write(&mut self, output: &mut Vec<u8>) -> io::Result<()> {
        if !output.is_empty() {
            let sent = async {
                self.stream.write_all(output).await?;
                self.stream.flush().await
            };
            timeout(self.idle, sent).await??;
            output.clear();
        }
        Ok(())
    }
}

/// The first whole message, without its length.
fn message(input: &[u8]) -> Option<&[u8]> {
    let (length, rest) = input.split_first_chunk::<2>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}

thread_local! {
    /// A reply buffer of each runtime thread, shared by its connections: one each would be 64 KiB a connection.
    static REPLY: RefCell<Vec<u8>> = RefCell::new(vec![0; usize::from(u16::MAX)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_that_fails_is_counted_and_one_that_ends_is_not() {
        let counters = DnsCounters::default();
        let mut connections = tokio::task::JoinSet::new();
        connections.spawn(async { panic!("on purpose") });
        connections.spawn(async {});
        while let Some(done) = connections.join_next().await {
            note(done, &counters);
        }
        assert_eq!(counters.read().panics, 1);
    }

    #[test]
    fn a_connection_counts_as_open_until_it_is_dropped() {
        let text =
            b"version = 1\n[[sites]]\nname = \"a\"\n[[nodes]]\nname = \"a/1\"\nmep = \"127.0.0.1:1\"\n";
        let read = &mut |_: &std::path::Path| Ok(text.to_vec());
        let config = Arc::new(config::load("gslb.toml".as_ref(), read, None).unwrap());
        let shared = Arc::new(Shared::new(&config, 1, gslb_types::Timestamp::ZERO));
        let open = || (shared.dns.read().tcp_open, shared.dns.read().tls_open);
        let plain = [Open::count(&shared, false), Open::count(&shared, false)];
        let secure = Open::count(&shared, true);
        assert_eq!(open(), (2, 1));
        drop(plain);
        assert_eq!(open(), (0, 1));
        drop(secure);
        assert_eq!(open(), (0, 0));
    }

    #[test]
    fn a_message_is_whole_or_absent() {
        assert_eq!(message(b""), None);
        assert_eq!(message(b"\0"), None);
        assert_eq!(message(b"\0\x03ab"), None);
        assert_eq!(message(b"\0\x03abcd"), Some(&b"abc"[..]));
        assert_eq!(message(b"\0\0rest"), Some(&b""[..]));
    }
}
