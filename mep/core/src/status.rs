//! What can be told about a peer: for `/v1/peers`, `gslb-dns peers` and metrics.

use gslb_types::{NodeId, Timestamp};
use std::net::SocketAddr;
use std::time::Duration;

/// Where a peer stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerState {
    /// No session, and none was ever established since this node started.
    Connecting,
    /// A session stands: its hello has come, and words keep coming.
    Up,
    /// There was a session; there is none.
    Down,
}

/// All that is known of one peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerStatus {
    /// Who.
    pub peer: NodeId,
    /// Where it is dialled.
    pub address: SocketAddr,
    /// Where it stands.
    pub state: PeerState,
    /// Since when.
    pub since: Timestamp,
    /// Why it is in this state: the reason of the last transition, for an operator.
    pub reason: String,
    /// When its last frame came, in any session.
    pub last_word: Option<Timestamp>,
    /// Round trip to it, as its transport measures it.
    pub path_rtt: Option<Duration>,
    /// Sessions established since this node started.
    pub sessions: u64,
    /// Transitions from up to down since this node started.
    pub downs: u64,
    /// Sequence number of the last frame sent and received in the session.
    pub sent_seq: u64,
    /// See `sent_seq`.
    pub received_seq: u64,
    /// Frames sent to it since this node started.
    pub frames_out: u64,
    /// Frames received from it.
    pub frames_in: u64,
    /// Bytes of frames sent.
    pub bytes_out: u64,
    /// Bytes of frames received.
    pub bytes_in: u64,
    /// RTT rows sent.
    pub rows_out: u64,
    /// RTT rows received.
    pub rows_in: u64,
    /// Keys waiting to be sent.
    pub outbox: usize,
    /// Its software version.
    pub version: Option<String>,
    /// Hash over its must-match settings.
    pub config_hash: Option<u64>,
    /// Names of the must-match settings that differ from ours.
    pub mismatches: Vec<String>,
    /// Expiry of its certificate, seconds since the Unix epoch.
    pub certificate_expires: Option<i64>,
    /// Frames or parts of frames that were not understood or not allowed, and skipped.
    pub violations: u64,
}
