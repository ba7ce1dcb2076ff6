//! QUIC: one endpoint, one bidirectional stream per connection, opened by the dialler.

mod accept;
mod dial;
mod link;
mod runtime;
mod words;

pub(crate) use accept::admit;
pub(crate) use dial::dial;

use crate::carrier::{BindError, Limits, Settings};
use crate::identity::Current;
use crate::link::Why;
use crate::quic::runtime::HeldRuntime;
use crate::tasks::Tasks;
use quinn::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
use quinn::{Endpoint, EndpointConfig, IdleTimeout, TransportConfig, VarInt};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The application protocol in TLS. Its number changes when frames are cut from the stream in another way; what is in them
/// has versions of its own.
const ALPN: &[u8] = b"gslb-mep/1";

/// A path may carry no more than this (RFC 9000 section 14), and many don't carry much more. Larger packets are found out
/// later, and given up when they vanish (faults I-53).
const SMALLEST_PACKET: u16 = 1200;

/// What the peer may have under way: a round trip of 100 ms at 80 Mbit/s, four of the largest frames.
const WINDOW: u32 = 1024 * 1024;

/// Handshakes that wait to be looked at. Looking is quick, so few wait.
const WAITING_HANDSHAKES: usize = 256;

/// Bytes that may wait with each, and with all of them.
const WAITING_BYTES: (u64, u64) = (16 * 1024, 1024 * 1024);

/// Codes of the application close; the reason beside them is for people.
mod code {
    use crate::link::Why;
    use quinn::VarInt;

    pub(super) const fn of(why: Why) -> VarInt {
        match why {
            Why::Closed => VarInt::from_u32(0),
            Why::Protocol => VarInt::from_u32(1),
            Why::Refused => VarInt::from_u32(2),
            Why::Slow => VarInt::from_u32(3),
        }
    }
}

/// The endpoint, and the tasks quinn runs for it.
pub(crate) fn bind(settings: &Settings) -> Result<(Endpoint, Tasks), BindError> {
    let failed = |error| BindError::Listen(settings.listen, error);
    let transport = Arc::new(transport(&settings.limits));
    let server =
        server(&settings.identity.current(), &transport).map_err(|e| BindError::Setup(e.to_string()))?;
    let socket = UdpSocket::bind(settings.listen).map_err(failed)?;
    let tasks = Tasks::default();
    let runtime = HeldRuntime(tasks.clone());
    let endpoint =
        Endpoint::new(EndpointConfig::default(), Some(server), socket, Arc::new(runtime)).map_err(failed)?;
    Ok((endpoint, tasks))
}

/// Ends the endpoint and lets the last packets leave. Afterwards the socket is closed, and its port free.
pub(crate) async fn close(endpoint: Endpoint, tasks: Tasks, reason: &str, linger: Duration) {
    endpoint.close(code::of(Why::Closed), reason.as_bytes());
    let _ = timeout(linger, endpoint.wait_idle()).await; // whoever does not answer notices by himself
    drop(endpoint);
    tasks.end().await;
}

/// No keep-alive of QUIC's own: the session's heartbeat says more, and silence must mean a silent session (faults I-44).
pub(crate) fn transport(limits: &Limits) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(IdleTimeout::try_from(limits.idle).ok())
        .keep_alive_interval(None)
        .initial_mtu(SMALLEST_PACKET)
        .min_mtu(SMALLEST_PACKET)
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW));
    transport
}

/// Made for each handshake, from the identity in force.
fn server(
    identity: &Current,
    transport: &Arc<TransportConfig>,
) -> Result<quinn::ServerConfig, NoInitialCipherSuite> {
    let tls = QuicServerConfig::try_from(identity.server(ALPN))?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
    config
        .transport_config(transport.clone())
        .max_incoming(WAITING_HANDSHAKES)
        .incoming_buffer_size(WAITING_BYTES.0)
        .incoming_buffer_size_total(WAITING_BYTES.1);
    Ok(config)
}

fn client(
    identity: &Current,
    transport: &Arc<TransportConfig>,
) -> Result<quinn::ClientConfig, NoInitialCipherSuite> {
    let tls = QuicClientConfig::try_from(identity.client(ALPN))?;
    let mut config = quinn::ClientConfig::new(Arc::new(tls));
    config.transport_config(transport.clone());
    Ok(config)
}
