//! `/v1/peers`: the other nodes of the group.

use super::matrix::{Matrix, matrix};
use super::{Identity, View, hex, identity, micros, millis};
use gslb_core::{Over, PeerStatus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The other nodes of the group, and who else tried to take part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Peers {
    /// In the order of the configuration.
    pub peers: Vec<Peer>,
    /// Who hears whom.
    pub matrix: Matrix,
    /// By what this node is known to them.
    pub identity: Identity,
    /// Who was turned away before it could be told apart by peer.
    pub strangers: Strangers,
}

/// A peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Peer {
    /// SITE/NODE.
    pub peer: String,
    /// Its site.
    pub site: String,
    /// Where it is dialled.
    pub address: SocketAddr,
    /// `connecting` (never had a session), `up`, `suspect` (the session stands, and words are late), or `down`.
    pub state: String,
    /// How long it has been so.
    pub state_age_ms: u64,
    /// Why.
    pub reason: String,
    /// Why the last attempt at a session came to nothing.
    pub last_attempt: Option<String>,
    /// How long ago its last word came.
    pub last_word_age_ms: Option<u64>,
    /// How long ago it last heard this node, as it said in its last word.
    pub hears_us_age_ms: Option<u64>,
    /// Round trip to it.
    pub rtt_us: Option<u64>,
    /// What its session runs over: `quic` or `grpc`.
    pub over: Option<String>,
    /// Who relays its site while this node hears no node of that site.
    pub relay: Option<String>,
    /// For how long that relay alone has claimed to hear the site, while all others say that they do not.
    pub contested_age_ms: Option<u64>,
    /// How often this peer was such a relay.
    pub contests: u64,
    /// Sessions since this node started.
    pub sessions: u64,
    /// How often it went down.
    pub downs: u64,
    /// The same by the kind of reason.
    pub downs_by_reason: BTreeMap<String, u64>,
    /// Its last changes of state, oldest first.
    pub transitions: Vec<Transition>,
    /// Connections and hellos of it that were turned away.
    pub refusals: u64,
    /// Snapshots started anew because it read too slowly.
    pub resyncs: u64,
    /// How long its snapshot took in this session.
    pub snapshot_in_ms: Option<u64>,
    /// How long ours took.
    pub snapshot_out_ms: Option<u64>,
    /// Drawn anew at every start of its process.
    pub boot: Option<String>,
    /// Sequence number of the last frame sent in this session.
    pub sent_seq: u64,
    /// And of the last one received.
    pub received_seq: u64,
    /// Frames sent since this node started.
    pub frames_out: u64,
    /// Frames received.
    pub frames_in: u64,
    /// Bytes of frames sent.
    pub bytes_out: u64,
    /// Bytes of frames received.
    pub bytes_in: u64,
    /// RTT rows sent.
    pub rows_out: u64,
    /// RTT rows received.
    pub rows_in: u64,
    /// Rows of other sites that this node relayed to it.
    pub relayed_rows_out: u64,
    /// Rows of other sites that it relayed to this node.
    pub relayed_rows_in: u64,
    /// Keys that changed and that it has not been told yet.
    pub outbox: usize,
    /// Its software version.
    pub version: Option<String>,
    /// Hash over its must-match settings.
    pub config_hash: Option<String>,
    /// The must-match settings in which it differs from this node.
    pub mismatches: Vec<String>,
    /// Expiry of its certificate, seconds since the Unix epoch.
    pub certificate_expires: Option<i64>,
    /// Seconds until then; negative afterwards.
    pub certificate_expires_in_s: Option<i64>,
    /// Frames or parts of frames that were not allowed, and skipped.
    pub violations: u64,
    /// LDNS it asked for that were not looked at, because too many waited.
    pub asks_dropped: u64,
    /// LDNS it was not asked for, because too many waited.
    pub wants_dropped: u64,
    /// Frames not understood wholly, as those of a newer version.
    pub unknown: u64,
    /// Rows it told with an RTT that nobody can have.
    pub implausible_rows: u64,
    /// Whether most of what it told in this session is such.
    pub implausible: bool,
}

/// A change of a peer's state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Transition {
    /// Counts those of all peers since this node started.
    pub number: u64,
    /// The peer.
    pub peer: String,
    /// How long ago it was.
    pub age_ms: u64,
    /// The state before.
    pub from: String,
    /// The state after.
    pub to: String,
    /// The kind of reason, one of a few words.
    pub kind: String,
    /// The reason for people.
    pub reason: String,
}

/// Who was turned away before it could be told apart by peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Strangers {
    /// Connections with a certificate of the group that names no other node of the configuration.
    pub unknown_nodes: u64,
    /// Connections turned away at the handshake: another CA, expired, no node name.
    pub refused: u64,
    /// Whence the last one came.
    pub last_address: Option<SocketAddr>,
    /// Why it was turned away.
    pub last_reason: Option<String>,
}

pub(crate) fn peers(view: &View<'_>) -> Peers {
    let strangers = &view.published.strangers;
    Peers {
        peers: view.published.peers.iter().map(|status| peer(view, status)).collect(),
        matrix: matrix(view),
        identity: identity(view),
        strangers: Strangers {
            unknown_nodes: strangers.unknown_nodes,
            refused: strangers.refused,
            last_address: strangers.last.as_ref().map(|(address, _)| *address),
            last_reason: strangers.last.as_ref().map(|(_, reason)| reason.clone()),
        },
    }
}

fn peer(view: &View<'_>, status: &PeerStatus) -> Peer {
    Peer {
        peer: status.peer.to_string(),
        site: status.peer.site.to_string(),
        address: status.address,
        state: status.state.as_str().to_owned(),
        state_age_ms: view.age_ms(status.since),
        reason: status.reason.clone(),
        last_attempt: status.last_attempt.clone(),
        last_word_age_ms: status.last_word.map(|then| view.age_ms(then)),
        hears_us_age_ms: status.hears_us.map(millis),
        rtt_us: status.path_rtt.map(micros),
        over: status.over.map(|over| word(over).to_owned()),
        relay: status.relay.as_ref().map(ToString::to_string),
        contested_age_ms: status.contested.map(|since| view.age_ms(since)),
        contests: status.contests,
        sessions: status.sessions,
        downs: status.downs,
        downs_by_reason: status.downs_by_reason.iter().map(|(kind, n)| ((*kind).to_owned(), *n)).collect(),
        transitions: status.transitions.iter().map(|t| transition(view, status, t)).collect(),
        refusals: status.refusals,
        resyncs: status.resyncs,
        snapshot_in_ms: status.snapshot_in.map(millis),
        snapshot_out_ms: status.snapshot_out.map(millis),
        boot: status.boot.map(hex),
        sent_seq: status.sent_seq,
        received_seq: status.received_seq,
        frames_out: status.frames_out,
        frames_in: status.frames_in,
        bytes_out: status.bytes_out,
        bytes_in: status.bytes_in,
        rows_out: status.rows_out,
        rows_in: status.rows_in,
        relayed_rows_out: status.relayed_rows_out,
        relayed_rows_in: status.relayed_rows_in,
        outbox: status.outbox,
        version: status.version.clone(),
        config_hash: status.config_hash.map(hex),
        mismatches: status.mismatches.clone(),
        certificate_expires: status.certificate_expires,
        certificate_expires_in_s: status.certificate_expires.map(|at| at.saturating_sub(view.unix_time)),
        violations: status.violations,
        asks_dropped: status.asks_dropped,
        wants_dropped: status.wants_dropped,
        unknown: status.unknown,
        implausible_rows: status.implausible_rows,
        implausible: status.implausible,
    }
}

pub(crate) fn transition(view: &View<'_>, of: &PeerStatus, transition: &gslb_core::Transition) -> Transition {
    Transition {
        number: transition.number,
        peer: of.peer.to_string(),
        age_ms: view.age_ms(transition.at),
        from: transition.from.as_str().to_owned(),
        to: transition.to.as_str().to_owned(),
        kind: transition.kind.to_owned(),
        reason: transition.reason.clone(),
    }
}

/// The word for what a session runs over.
pub(crate) const fn word(over: Over) -> &'static str {
    match over {
        Over::Quic => "quic",
        Over::Grpc => "grpc",
    }
}
