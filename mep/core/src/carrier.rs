//! What passes between the pure session machines and the crate that carries frames.
//!
//! A carrier moves whole frames over authenticated connections and knows nothing of what is in them.

use bytes::Bytes;
use gslb_types::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// The largest frame either side accepts, in bytes. A peer that sends a longer one is cut off.
pub const MAX_FRAME: usize = 256 * 1024;

/// Frames that may be on their way to a peer, sent and not acknowledged. A carrier's queue must hold as many. A quarter of
/// them is kept for keepalives and acknowledgements, which wait for nothing.
pub const MAX_IN_FLIGHT_FRAMES: usize = 128;

/// Bytes that may be on their way to a peer, sent and not acknowledged; enough for 5 MB/s at 200 ms. Beyond it changes wait
/// in the outbox, newest values only. A carrier's queue must hold this and one [`MAX_FRAME`] more.
pub const MAX_IN_FLIGHT_BYTES: usize = 1024 * 1024;

/// Names one connection among all this process has had; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConnId(pub u64);

/// What a connection runs over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// QUIC on UDP.
    Quic,
    /// gRPC in TLS on TCP: the same frames as messages of one stream both ways.
    Grpc,
}

impl Over {
    /// The word for it in API and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Over::Quic => "quic",
            Over::Grpc => "grpc",
        }
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a carrier reports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CarrierEvent {
    /// A connection stands, and the certificate of the other end names this node. The other end may still refuse ours
    /// (TLS 1.3): the peer is up only when its hello has come.
    Connected {
        /// The connection.
        conn: ConnId,
        /// Site and node in the SAN of the peer's certificate.
        peer: NodeId,
        /// Whether this end dialled.
        dialled: bool,
        /// The address of the other end.
        address: SocketAddr,
        /// Expiry of the peer's certificate, seconds since the Unix epoch.
        certificate_expires: i64,
        /// What it runs over.
        over: Over,
    },
    /// A whole frame.
    Received {
        /// The connection.
        conn: ConnId,
        /// The frame's bytes.
        frame: Bytes,
    },
    /// The path's current round trip, reported now and then.
    PathRtt {
        /// The connection.
        conn: ConnId,
        /// Smoothed round trip.
        rtt: Duration,
    },
    /// The connection will be closed before long, since a certificate it was made with expires. A new one may take its place
    /// without a gap. May be said again.
    Ageing {
        /// The connection.
        conn: ConnId,
        /// Whether this end has another certificate by now and can make the new one. Otherwise the peer may.
        renew: bool,
    },
    /// The connection is gone, whoever ended it.
    Closed {
        /// The connection.
        conn: ConnId,
        /// Why, in words for an operator.
        reason: String,
    },
    /// A dial that was asked for came to nothing.
    DialFailed {
        /// The peer that was dialled.
        peer: NodeId,
        /// What it was dialled over.
        over: Over,
        /// Why, in words for an operator: unreachable, refused, certificate.
        reason: String,
    },
    /// Somebody was turned away before becoming a connection: unknown CA, expired, no node name in the certificate.
    Refused {
        /// Where it came from.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
}

/// What a carrier is told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CarrierCommand {
    /// Connect to this peer; its certificate must name it.
    Dial {
        /// Whom.
        peer: NodeId,
        /// Where.
        address: SocketAddr,
        /// Over what.
        over: Over,
    },
    /// Send a frame. The carrier's queue is bounded; when it is full the connection is closed as too slow.
    Send {
        /// The connection.
        conn: ConnId,
        /// The frame's bytes, at most [`MAX_FRAME`].
        frame: Bytes,
    },
    /// Send what is queued, then close.
    Close {
        /// The connection.
        conn: ConnId,
        /// Told to the other end.
        reason: String,
    },
}
