//! Persistence sessions as queries look them up: where the clients of a network were sent to last.
//!
//! The node task writes, as [`Persistence`](crate::persistence::Persistence) says, which knows those of the whole group. A
//! reader holds a shard's lock for the copy of one session and no longer.

use dashmap::DashMap;
use foldhash::fast::FixedState;
use gslb_types::Timestamp;
use mep_core::SessionKey;

/// A session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Session {
    /// Where its clients go (index into the configuration's services).
    pub service: usize,
    /// When it was last used, at any node.
    pub used: Timestamp,
}

/// All of them.
pub struct SessionTable(DashMap<SessionKey, Session, FixedState>);

impl SessionTable {
    /// None yet. The seed is random in production (threat T12) and fixed in the simulator.
    pub fn new(seed: u64) -> Self {
        SessionTable(DashMap::with_hasher(FixedState::with_seed(seed)))
    }

    /// A copy of the session of a network.
    pub fn get(&self, key: &SessionKey) -> Option<Session> {
        self.0.get(key).map(|session| *session)
    }

    /// Notes where the clients of a network go.
    pub fn write(&self, key: SessionKey, session: Session) {
        self.0.insert(key, session);
    }

    /// Forgets a session.
    pub fn remove(&self, key: &SessionKey) {
        self.0.remove(key);
    }

    /// All of them, copied: for the start of a node task only.
    pub(crate) fn all(&self) -> Vec<(SessionKey, Session)> {
        self.0.iter().map(|entry| (*entry.key(), *entry.value())).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
