//! gRPC in TLS on TCP, for paths that drop UDP: one connection per pair, one call, a stream of frames each way.
//!
//! The service is that of `proto/carrier.proto`; a message is a frame's bytes as they are. HTTP/2 is the h2 crate's and
//! messages and statuses are tonic's, without tonic's own server and channel (docs/adr/0010).

mod accept;
mod dial;
mod link;
mod messages;
mod socket;
mod words;

pub(crate) use accept::admit;
pub(crate) use dial::dial;
pub(crate) use socket::{Listener, listen};

use h2::Reason;
use http::HeaderMap;
use tonic::{Code, Status};

/// The application protocol in TLS that gRPC is known by.
const ALPN: &[u8] = b"h2";

/// The one method. The version in its name changes when frames are carried in another way; what is in them has versions of
/// its own.
const METHOD: &str = "/gslb.mep.carrier.v1.Carrier/Exchange";

const CONTENT_TYPE: &str = "application/grpc";

/// What the peer may have under way, as over QUIC.
const WINDOW: u32 = 1024 * 1024;

/// What may wait below the outbox, so that its bound is the one that counts.
const SEND_BUFFER: usize = 256 * 1024;

/// Of a peer's headers. Ours take some hundred bytes, a reason three times its own length.
const HEADERS: u32 = 8 * 1024;

/// What h2 lets a peer's very small data frames cost before it hangs up: as many keepalives as an outbox holds.
const SMALL_FRAMES: usize = 1024 * 1024;

/// A connection goes with the one call on it, so nothing needs to be kept of streams that ended.
const FORMER_STREAMS: usize = 2;

fn server() -> h2::server::Builder {
    let mut http = h2::server::Builder::new();
    http.max_concurrent_streams(1)
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buffer_size(SEND_BUFFER)
        .max_header_list_size(HEADERS)
        .max_concurrent_reset_streams(FORMER_STREAMS)
        .data_frame_budget(SMALL_FRAMES);
    http
}

fn client() -> h2::client::Builder {
    let mut http = h2::client::Builder::new();
    http.enable_push(false)
        .max_concurrent_streams(0)
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buffer_size(SEND_BUFFER)
        .max_header_list_size(HEADERS)
        .max_concurrent_reset_streams(FORMER_STREAMS)
        .data_frame_budget(SMALL_FRAMES);
    http
}

/// The end of a stream and its reason, as headers after the last message.
fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    if status.add_header(&mut trailers).is_err() {
        trailers.insert("grpc-status", http::HeaderValue::from_static("2")); // unknown: the reason is no header
    }
    trailers
}

/// What such headers say. Details are not ours, and tonic would trust them to be well formed.
fn status(mut headers: HeaderMap) -> Option<Status> {
    headers.remove("grpc-status-details-bin");
    Status::from_header_map(&headers)
}

/// How an end is put for machines.
mod code {
    use super::{Code, Reason};
    use crate::link::Why;

    /// As a status, where the stream can still be ended in order.
    pub(super) const fn of(why: Why) -> Code {
        match why {
            Why::Closed => Code::Unavailable,
            Why::Protocol => Code::InvalidArgument,
            Why::Refused => Code::PermissionDenied,
            Why::Slow => Code::ResourceExhausted,
        }
    }

    /// As a reset, where it can't: it passes what the peer does not take.
    pub(super) const fn reset(why: Why) -> Reason {
        match why {
            Why::Closed => Reason::CANCEL,
            Why::Protocol => Reason::PROTOCOL_ERROR,
            Why::Refused => Reason::REFUSED_STREAM,
            Why::Slow => Reason::ENHANCE_YOUR_CALM,
        }
    }
}
