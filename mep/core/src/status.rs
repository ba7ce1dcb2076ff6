//! What can be told about a peer: for `/v1/peers`, `gslb-dns peers` and metrics.

use crate::carrier::Over;
use gslb_types::{NodeId, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

/// Where a peer stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PeerState {
    /// No session, and none was ever established since this node started.
    Connecting,
    /// A session stands: its hello has come, and words keep coming.
    Up,
    /// The session stands, but nothing was heard for half the keepalive, or the peer has not heard this node for as long. No
    /// answer changes for it; the next word makes it up again.
    Suspect,
    /// There was a session; there is none.
    Down,
}

impl PeerState {
    /// The word for it in API and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            PeerState::Connecting => "connecting",
            PeerState::Up => "up",
            PeerState::Suspect => "suspect",
            PeerState::Down => "down",
        }
    }

    /// Whether a session stands.
    pub const fn has_session(self) -> bool {
        match self {
            PeerState::Up | PeerState::Suspect => true,
            PeerState::Connecting | PeerState::Down => false,
        }
    }
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
    /// Why it is in this state, for an operator: the reason of the last transition, or of the last refusal since.
    pub reason: String,
    /// Why the last attempt at a session came to nothing; `None` once one was established.
    pub last_attempt: Option<String>,
    /// When its last frame came, in any session.
    pub last_word: Option<Timestamp>,
    /// How long ago it last heard this node, as it said in its last frame. Much more than the pause between our frames means
    /// that our words are lost on the way.
    pub hears_us: Option<Duration>,
    /// Round trip to it, as its transport measures it.
    pub path_rtt: Option<Duration>,
    /// Sessions established since this node started.
    pub sessions: u64,
    /// Transitions from up to down since this node started.
    pub downs: u64,
    /// Connections and hellos of it that were turned away since this node started.
    pub refusals: u64,
    /// Snapshots started anew in a session because it read too slowly for the outbox.
    pub resyncs: u64,
    /// How long its snapshot took in this session; `None` until it is complete.
    pub snapshot_in: Option<Duration>,
    /// How long ours took to be sent in this session; `None` until it is complete.
    pub snapshot_out: Option<Duration>,
    /// Drawn anew at every start of the peer's process.
    pub boot: Option<u64>,
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
    /// Frames or parts of frames that were not allowed, and skipped.
    pub violations: u64,
    /// Frames that were not understood wholly, as those of a newer version; the unknown parts were skipped.
    pub unknown: u64,
    /// What its session runs over.
    pub over: Option<Over>,
    /// What it last said of its own links: its row of the matrix of who hears whom.
    pub links: Lent<Vec<LinkStatus>>,
    /// When it said so.
    pub links_at: Option<Timestamp>,
    /// Who relays its site while no node of that site is heard directly.
    pub relay: Option<NodeId>,
    /// Rows of other sites relayed to it.
    pub relayed_rows_out: u64,
    /// Rows of other sites relayed by it.
    pub relayed_rows_in: u64,
    /// Its last changes of state, oldest first.
    pub transitions: Lent<VecDeque<Transition>>,
    /// Transitions to down since this node started, by the kind of their reason.
    pub downs_by_reason: BTreeMap<&'static str, u64>,
    /// All transitions since this node started, by the state they led to and the kind of their reason.
    pub turns: BTreeMap<(PeerState, &'static str), u64>,
    /// Since when one peer alone has claimed to hear its site, which this node does not hear and all others say they do not
    /// hear either; `None` if that is not so. What the relay says counts all the same: it may be right.
    pub contested: Option<Timestamp>,
    /// How often this peer was the one.
    pub contests: u64,
    /// LDNS it asked for that were not looked at, because too many waited already (threat T8).
    pub asks_dropped: u64,
    /// LDNS that it was not asked for, because too many waited already.
    pub wants_dropped: u64,
    /// Rows it told with an RTT that nobody can have.
    pub implausible_rows: u64,
    /// Whether most of what it told in this session is implausible: an operator should look at it (threat T8).
    pub implausible: bool,
}

/// A list of which a copy costs nothing until either is changed: a status is copied many times a second, and in a large group
/// these lists would be nearly all of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lent<T>(Arc<T>);

impl<T> From<T> for Lent<T> {
    fn from(list: T) -> Self {
        Lent(Arc::new(list))
    }
}

impl<T> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

/// A link of a peer, as the peer sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkStatus {
    /// The other end.
    pub peer: NodeId,
    /// Where it stands.
    pub state: PeerState,
    /// How long ago the peer last heard it; `None` if never.
    pub word_age: Option<Duration>,
}

/// A change of state of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transition {
    /// Rises over all peers of this node, so that a reader notices what it missed.
    pub number: u64,
    /// When.
    pub at: Timestamp,
    /// From which state.
    pub from: PeerState,
    /// To which.
    pub to: PeerState,
    /// Why, for an operator.
    pub reason: String,
    /// The word for the kind of reason.
    pub kind: &'static str,
}

/// Transitions kept for each peer.
pub const MOST_TRANSITIONS: usize = 32;

impl PeerStatus {
    /// A peer nobody has spoken to yet.
    pub(crate) fn new(peer: NodeId, address: SocketAddr) -> Self {
        PeerStatus {
            peer,
            address,
            state: PeerState::Connecting,
            since: Timestamp::ZERO,
            reason: "not tried yet".to_owned(),
            last_attempt: None,
            last_word: None,
            hears_us: None,
            path_rtt: None,
            sessions: 0,
            downs: 0,
            refusals: 0,
            resyncs: 0,
            snapshot_in: None,
            snapshot_out: None,
            boot: None,
            sent_seq: 0,
            received_seq: 0,
            frames_out: 0,
            frames_in: 0,
            bytes_out: 0,
            bytes_in: 0,
            rows_out: 0,
            rows_in: 0,
            outbox: 0,
            version: None,
            config_hash: None,
            mismatches: Vec::new(),
            certificate_expires: None,
            violations: 0,
            unknown: 0,
            over: None,
            links: Lent::default(),
            links_at: None,
            relay: None,
            relayed_rows_out: 0,
            relayed_rows_in: 0,
            transitions: Lent::default(),
            downs_by_reason: BTreeMap::new(),
            turns: BTreeMap::new(),
            contested: None,
            contests: 0,
            asks_dropped: 0,
            wants_dropped: 0,
            implausible_rows: 0,
            implausible: false,
        }
    }
}

/// What was turned away before it could be told apart by peer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Strangers {
    /// Connections with a valid certificate of a node that is not in the configuration, or that names this node itself.
    pub unknown_nodes: u64,
    /// Connections turned away by the carrier: another CA, expired, no node name.
    pub refused: u64,
    /// Whom and why, the last time.
    pub last: Option<(SocketAddr, String)>,
}
