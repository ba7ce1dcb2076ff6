//! One HTTP connection of a client, from its first byte to its end.

use super::activity::Activity;
use super::drive::{End, drive};
use super::peek::peek;
use super::stream::{ClientStream, Wire};
use super::streams::Streams;
use crate::http::{Front, Reply};
use crate::listen::Place;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The largest head of a request. Apache takes 8 KiB a line, nginx 32 KiB in all.
const HEAD: usize = 32 * 1024;

/// What waits to be written to one client, and what is read ahead of a service.
const BUFFER: usize = 64 * 1024;

/// HTTP/2: requests at once on one connection, as RFC 9113 section 6.5.2 has it at least.
const STREAMS: u32 = 100;

/// HTTP/2: what a client may send ahead of the service, for each request and for all of them together.
const WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;

/// How long, and for how many bytes, a client is listened to that has its answer already.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 1024 * 1024;

/// Serves the requests of one client until it leaves, rests for too long, or the proxy stops.
///
/// Each stage is a future of its own on the heap, so that a client that says nothing costs no more than the first.
pub(crate) async fn converse(mut wire: Wire, peer: SocketAddr, local: SocketAddr, place: Place) {
    let settings = place.settings.clone();
    let first = async {
        wire.readable().await?;
        peek(&mut wire).await
    };
    let first = tokio::select! {
        first = tokio::time::timeout(settings.timeouts.request_header, first) => first,
        () = place.stop.cancelled() => return,
    };
    let (read, is_h2) = match first {
        Ok(Ok(Some(first))) => first,
        Ok(Ok(None) | Err(_)) => return,
        Err(_) => return place.vserver.counters.timed_out.add(),
    };
    let kill = place.kill.clone();
    let is_tls = matches!(wire, Wire::Tls(_));
    let activity = Activity::new(is_h2);
    let stream = TokioIo::new(ClientStream::new(wire, read, activity.clone()));
    let front = Arc::new(Front::new(place, peer.ip(), local, is_tls, activity));
    if is_h2 {
        Box::pin(http2(stream, front)).await;
    } else if let Some(wire) = Box::pin(http1(stream, front)).await {
        let lingering = Box::pin(linger(wire));
        tokio::select! {
            () = lingering => {}
            () = kill.cancelled() => {}
        }
    }
}

/// HTTP/1.1. Returns the wire if the client may still be sending what nobody will read.
async fn http1(stream: TokioIo<ClientStream>, front: Arc<Front>) -> Option<Wire> {
    let shared = front.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let front = front.clone();
        async move { Ok::<Response<Reply>, Infallible>(front.answer(request).await) }
    });
    let mut http = http1::Builder::new();
    http.max_buf_size(BUFFER).max_header_size(HEAD);
    let mut connection = http.serve_connection(stream, service).with_upgrades();
    let end = drive(Pin::new(&mut connection), |c| c.graceful_shutdown(), &shared).await;
    let lingers = end == End::Failed || shared.activity.is_cut_short();
    connection.into_parts().filter(|_| lingers).map(|parts| parts.io.into_inner().into_wire())
}

/// HTTP/2.
async fn http2(stream: TokioIo<ClientStream>, front: Arc<Front>) {
    let (shared, streams) = (front.clone(), Streams::new(&front.place));
    let service = service_fn(move |request: Request<Incoming>| {
        let front = front.clone();
        async move { Ok::<Response<Reply>, Infallible>(front.answer(request).await) }
    });
    let mut http = http2::Builder::new(streams);
    http.timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(BUFFER)
        .max_header_list_size(HEAD as u32);
    let connection = pin!(http.serve_connection(stream, service));
    drive(connection, |c| c.graceful_shutdown(), &shared).await;
}

/// Reads what a client still sends although it has its answer. A socket closed with bytes unread is reset, and a reset takes
/// the answer away from a client that has not read it yet (RFC 9112 section 9.6).
async fn linger(mut wire: Wire) {
    let mut buffer = [0; 4096];
    let mut left = LINGER_BYTES;
    let drain = async {
        let _ = wire.shutdown().await;
        while left > 0 {
            match wire.read(&mut buffer).await {
                Ok(bytes) if bytes > 0 => left = left.saturating_sub(bytes),
                Ok(_) | Err(_) => break,
            }
        }
    };
    let _ = tokio::time::timeout(LINGER, drain).await;
}
