//! Persistence sessions: which service the clients of a network were sent to, and when that was last used (behaviour 6).
//!
//! Every node has those of the whole group. Of two uses of one session the newer counts, wherever it came from, so that all
//! nodes end with the same ones. A session that nobody uses for the idle timeout is gone; beyond the cap the one unused for
//! longest goes first.

use gslb_types::{ServiceName, Timestamp};
use mep_core::{KnownSession, SessionKey};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

/// How long a session lives without use (behaviour 6).
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// The sessions.
#[derive(Debug)]
pub struct Persistence {
    cap: usize,
    idle_timeout: Duration,
    sessions: BTreeMap<SessionKey, Use>,
    /// The same, the one unused for longest first.
    by_use: BTreeSet<(Timestamp, SessionKey)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Use {
    service: ServiceName,
    at: Timestamp,
}

impl Persistence {
    /// An empty table.
    pub fn new(cap: usize, idle_timeout: Duration) -> Self {
        Persistence { cap, idle_timeout, sessions: BTreeMap::new(), by_use: BTreeSet::new() }
    }

    /// Notes that a session was used. Returns whether it is news: a use that is older than the one known, or too old to count,
    /// changes nothing. Of two of one moment the lower service name stays, so that all nodes choose the same.
    pub fn used(&mut self, now: Timestamp, session: &KnownSession) -> bool {
        let at = now.before(session.idle);
        if self.cap == 0 || session.idle >= self.idle_timeout {
            return false;
        }
        if let Some(known) = self.sessions.get(&session.key) {
            if (known.at, &session.service) < (at, &known.service) || known.at < at {
                self.remove(session.key);
            } else {
                return false;
            }
        }
        while self.sessions.len() >= self.cap {
            match self.by_use.first().copied() {
                Some((oldest, key)) if oldest <= at => self.remove(key),
                Some(_) | None => return false,
            }
        }
        self.sessions.insert(session.key, Use { service: session.service.clone(), at });
        self.by_use.insert((at, session.key));
        true
    }

    /// A session that still counts.
    pub fn get(&self, now: Timestamp, key: &SessionKey) -> Option<KnownSession> {
        self.known(now, key, self.sessions.get(key)?)
    }

    /// The sessions after `after` in the order of their keys, at most `limit`.
    pub fn after(&self, now: Timestamp, after: Option<&SessionKey>, limit: usize) -> Vec<KnownSession> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let all = self.sessions.range((from, Bound::Unbounded));
        all.filter_map(|(key, used)| self.known(now, key, used)).take(limit).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// When [`Persistence::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.by_use.first().map(|(at, _)| *at + self.idle_timeout)
    }

    /// Forgets what nobody used for the idle timeout.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        while let Some((at, key)) = self.by_use.first().copied()
            && at + self.idle_timeout <= now
        {
            self.remove(key);
        }
    }

    fn known(&self, now: Timestamp, key: &SessionKey, used: &Use) -> Option<KnownSession> {
        let idle = now.since(used.at);
        (idle < self.idle_timeout).then(|| KnownSession { key: *key, service: used.service.clone(), idle })
    }

    fn remove(&mut self, key: SessionKey) {
        if let Some(used) = self.sessions.remove(&key) {
            self.by_use.remove(&(used.at, key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    fn session(n: u8, service: &str, idle: u64) -> KnownSession {
        let key = SessionKey { persistence: 7, client: [192, 0, 2, n].into(), prefix: 32 };
        KnownSession { key, service: ServiceName::new(service).unwrap(), idle: Duration::from_secs(idle) }
    }

    fn service(table: &Persistence, now: u64, n: u8) -> Option<String> {
        table.get(at(now), &session(n, "x", 0).key).map(|known| known.service.to_string())
    }

    fn table(cap: usize) -> Persistence {
        Persistence::new(cap, IDLE_TIMEOUT)
    }

    #[test]
    fn the_newest_use_wins_in_whatever_order_they_come() {
        let uses = [(100, "a", 0), (105, "b", 20), (110, "c", 5), (111, "d", 7)];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let mut t = table(9);
            for (now, name, idle) in order.map(|n| uses[n]) {
                t.used(at(now), &session(1, name, idle));
            }
            // Used at 100, 85, 105 and 104.
            assert_eq!((service(&t, 111, 1).as_deref(), t.len()), (Some("c"), 1));
        }
    }

    #[test]
    fn two_uses_of_one_moment_come_to_the_same_everywhere() {
        for names in [["a", "b"], ["b", "a"]] {
            let mut t = table(9);
            for name in names {
                t.used(at(50), &session(1, name, 0));
            }
            assert_eq!(service(&t, 50, 1).as_deref(), Some("a"));
        }
    }

    #[test]
    fn what_is_told_back_is_no_news() {
        let mut t = table(9);
        assert!(t.used(at(50), &session(1, "a", 0)));
        let told = t.get(at(55), &session(1, "a", 0).key).unwrap();
        assert_eq!((told.idle, t.used(at(55), &told)), (Duration::from_secs(5), false));
        assert!(t.used(at(56), &session(1, "a", 0)));
    }

    #[test]
    fn an_idle_session_is_gone_exactly_after_its_timeout() {
        let mut t = table(9);
        t.used(at(50), &session(1, "a", 0));
        assert_eq!(t.poll_timeout(), Some(at(170)));
        t.handle_timeout(at(169));
        assert_eq!((service(&t, 169, 1).as_deref(), service(&t, 170, 1)), (Some("a"), None));
        t.handle_timeout(at(170));
        assert!(t.is_empty() && !t.used(at(200), &session(1, "a", 120)));
    }

    #[test]
    fn beyond_the_cap_the_one_unused_for_longest_goes() {
        let mut t = table(2);
        t.used(at(10), &session(1, "a", 0));
        t.used(at(11), &session(2, "a", 0));
        t.used(at(12), &session(1, "a", 0));
        assert!(t.used(at(13), &session(3, "a", 0)));
        assert_eq!([1, 2, 3].map(|n| service(&t, 13, n).is_some()), [true, false, true]);
        assert!(!t.used(at(13), &session(4, "a", 9)), "older than all that are there");
        assert_eq!(t.len(), 2);
    }

    #[test]
    fn pages_go_on_where_the_one_before_ended() {
        let mut t = table(99);
        for n in 0..10 {
            t.used(at(10), &session(n, "a", 0));
        }
        let first = t.after(at(10), None, 4);
        let rest = t.after(at(10), first.last().map(|s| &s.key), 99);
        let clients: Vec<_> = first.iter().chain(&rest).map(|s| s.key.client).collect();
        assert_eq!(clients, (0..10).map(|n| std::net::IpAddr::from([192, 0, 2, n])).collect::<Vec<_>>());
    }
}
