//! Persistence sessions: which service the clients of a network were sent to, and when that was last used (behaviour 6).
//!
//! Every node has those of the whole group. Of two uses of one session the newer counts, wherever it came from, so that all
//! nodes end with the same ones. A session that nobody uses for the idle timeout is gone.
//!
//! Beyond the cap room is made by whoever has told the most: its session unused for longest goes. So a peer that tells millions
//! pushes out what it told itself, and never a session that was used later (threat T8).

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
    /// The same by who told their last use, the one unused for longest first. No set is empty.
    by_use: BTreeMap<Teller, BTreeSet<(Timestamp, SessionKey)>>,
    /// Those that went since the last [`Persistence::take_gone`]. A session that went and came again is among them.
    gone: Vec<SessionKey>,
}

/// Who says that a session was used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Teller {
    /// This node: the client was its own.
    Own,
    /// Another, by its place in the configuration.
    Peer(u16),
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Use {
    service: ServiceName,
    at: Timestamp,
    teller: Teller,
    /// Whether peers were told what this node was told: once is enough.
    is_told_on: bool,
}

impl Persistence {
    /// An empty table.
    pub fn new(cap: usize, idle_timeout: Duration) -> Self {
        Persistence {
            cap,
            idle_timeout,
            sessions: BTreeMap::new(),
            by_use: BTreeMap::new(),
            gone: Vec::new(),
        }
    }

    /// Notes that a session was used. Returns whether it is news: a use that is older than the one known, or too old to count,
    /// changes nothing. Of two of one moment the lower service name stays, so that all nodes choose the same.
    pub fn used(&mut self, now: Timestamp, session: &KnownSession, teller: Teller) -> bool {
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
        if self.sessions.len() >= self.cap && !self.make_room(at, teller) {
            return false;
        }
        let service = session.service.clone();
        self.sessions.insert(session.key, Use { service, at, teller, is_told_on: false });
        self.by_use.entry(teller).or_default().insert((at, session.key));
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

    /// The sessions that went, if they have not come again, for whoever keeps a copy.
    pub(crate) fn take_gone(&mut self) -> impl Iterator<Item = SessionKey> + '_ {
        let gone = std::mem::take(&mut self.gone);
        gone.into_iter().filter(|key| !self.sessions.contains_key(key))
    }

    /// The sessions whose last use this one told, but for those that an earlier call has returned: however often it comes and goes,
    /// each use is told on once (threat T8).
    pub fn to_tell_on(&mut self, teller: Teller) -> Vec<SessionKey> {
        let keys = self.by_use.get(&teller).into_iter().flatten().map(|(_, key)| *key);
        let first_time = |key: &SessionKey| {
            let used = self.sessions.get_mut(key);
            used.is_some_and(|used| !std::mem::replace(&mut used.is_told_on, true))
        };
        keys.filter(first_time).collect()
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
        self.longest_unused().map(|(at, _)| at + self.idle_timeout)
    }

    /// Forgets what nobody used for the idle timeout.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        while let Some((at, key)) = self.longest_unused()
            && at + self.idle_timeout <= now
        {
            self.remove(key);
        }
    }

    fn known(&self, now: Timestamp, key: &SessionKey, used: &Use) -> Option<KnownSession> {
        let idle = now.since(used.at);
        (idle < self.idle_timeout).then(|| KnownSession { key: *key, service: used.service.clone(), idle })
    }

    fn longest_unused(&self) -> Option<(Timestamp, SessionKey)> {
        self.by_use.values().filter_map(|uses| uses.first().copied()).min()
    }

    /// Removes a session that was not used after `at`: of the teller that has the most, or of this one.
    fn make_room(&mut self, at: Timestamp, teller: Teller) -> bool {
        let count = |teller: &Teller| self.by_use.get(teller).map_or(0, BTreeSet::len);
        // Of several with as many, a peer and not this node.
        let largest = self.by_use.keys().max_by_key(|other| count(other)).copied();
        let largest = largest.filter(|other| count(other) > count(&teller));
        let first = |teller: Teller| self.by_use.get(&teller).and_then(BTreeSet::first).copied();
        let victims = largest.into_iter().chain([teller]).filter_map(first);
        let victim = victims.filter(|(used, _)| *used <= at).map(|(_, key)| key).next();
        victim.map(|key| self.remove(key)).is_some()
    }

    fn remove(&mut self, key: SessionKey) {
        self.gone.push(key);
        if let Some(used) = self.sessions.remove(&key)
            && let Some(uses) = self.by_use.get_mut(&used.teller)
        {
            uses.remove(&(used.at, key));
            if uses.is_empty() {
                self.by_use.remove(&used.teller);
            }
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

    impl Persistence {
        fn own(&mut self, now: u64, session: &KnownSession) -> bool {
            self.used(at(now), session, Teller::Own)
        }
    }

    #[test]
    fn the_newest_use_wins_in_whatever_order_they_come() {
        let uses = [(100, "a", 0), (105, "b", 20), (110, "c", 5), (111, "d", 7)];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let mut t = table(9);
            for (now, name, idle) in order.map(|n| uses[n]) {
                t.own(now, &session(1, name, idle));
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
                t.own(50, &session(1, name, 0));
            }
            assert_eq!(service(&t, 50, 1).as_deref(), Some("a"));
        }
    }

    #[test]
    fn what_is_told_back_is_no_news() {
        let mut t = table(9);
        assert!(t.own(50, &session(1, "a", 0)));
        let told = t.get(at(55), &session(1, "a", 0).key).unwrap();
        assert_eq!((told.idle, t.own(55, &told)), (Duration::from_secs(5), false));
        assert!(t.own(56, &session(1, "a", 0)));
    }

    #[test]
    fn each_use_that_a_peer_told_is_told_on_once() {
        let mut t = table(9);
        let key = |n| session(n, "a", 0).key;
        t.used(at(50), &session(1, "a", 0), Teller::Peer(1));
        t.used(at(50), &session(2, "a", 0), Teller::Peer(2));
        t.own(50, &session(3, "a", 0));
        assert_eq!(t.to_tell_on(Teller::Peer(1)), [key(1)]);
        assert_eq!(t.to_tell_on(Teller::Peer(1)), []);
        t.used(at(60), &session(1, "b", 0), Teller::Peer(1));
        t.used(at(61), &session(4, "b", 0), Teller::Peer(1));
        assert_eq!(t.to_tell_on(Teller::Peer(1)), [key(1), key(4)]);
    }

    #[test]
    fn an_idle_session_is_gone_exactly_after_its_timeout() {
        let mut t = table(9);
        t.own(50, &session(1, "a", 0));
        assert_eq!(t.poll_timeout(), Some(at(170)));
        t.handle_timeout(at(169));
        assert_eq!((service(&t, 169, 1).as_deref(), service(&t, 170, 1)), (Some("a"), None));
        t.handle_timeout(at(170));
        assert!(t.is_empty() && !t.own(200, &session(1, "a", 120)));
    }

    #[test]
    fn beyond_the_cap_the_one_unused_for_longest_goes() {
        let mut t = table(2);
        t.own(10, &session(1, "a", 0));
        t.own(11, &session(2, "a", 0));
        t.own(12, &session(1, "a", 0));
        assert!(t.own(13, &session(3, "a", 0)));
        assert_eq!([1, 2, 3].map(|n| service(&t, 13, n).is_some()), [true, false, true]);
        assert!(!t.own(13, &session(4, "a", 9)), "older than all that are there");
        assert_eq!(t.len(), 2);
    }

    #[test]
    fn pages_go_on_where_the_one_before_ended() {
        let mut t = table(99);
        for n in 0..10 {
            t.own(10, &session(n, "a", 0));
        }
        let first = t.after(at(10), None, 4);
        let rest = t.after(at(10), first.last().map(|s| &s.key), 99);
        let clients: Vec<_> = first.iter().chain(&rest).map(|s| s.key.client).collect();
        assert_eq!(clients, (0..10).map(|n| std::net::IpAddr::from([192, 0, 2, n])).collect::<Vec<_>>());
    }

    /// The n-th of many clients.
    fn client(n: u32, idle: u64) -> KnownSession {
        let key = SessionKey { persistence: 7, client: std::net::Ipv4Addr::from_bits(n).into(), prefix: 32 };
        KnownSession { key, service: ServiceName::new("a").unwrap(), idle: Duration::from_secs(idle) }
    }

    fn has(t: &Persistence, now: u64, clients: std::ops::Range<u32>) -> usize {
        clients.filter(|n| t.get(at(now), &client(*n, 0).key).is_some()).count()
    }

    /// Threat T8: sessions of this node's clients and of an honest peer stay, however much another tells.
    #[test]
    fn a_peer_that_tells_a_million_sessions_pushes_out_only_its_own() {
        const CAP: usize = 10_000;
        let mut t = table(CAP);
        for n in 0..3000 {
            t.used(at(10), &client(n, 0), Teller::Own);
            t.used(at(10), &client(10_000 + n, 0), Teller::Peer(1));
        }
        for n in 0..1_000_000 {
            assert!(t.used(at(11), &client(100_000 + n, 0), Teller::Peer(2)));
            assert!(t.len() <= CAP && t.by_use.values().map(BTreeSet::len).sum::<usize>() == t.len());
        }
        let kept = (has(&t, 11, 0..3000), has(&t, 11, 10_000..13_000));
        println!(
            "T8: after 1,000,000 sessions of a peer: {} kept, of ours and another's {kept:?} of 3000",
            t.len()
        );
        assert_eq!((t.len(), kept), (CAP, (3000, 3000)));
        assert!(t.used(at(12), &client(5000, 0), Teller::Own), "there is room for our own at its cost");
        assert_eq!((t.len(), has(&t, 12, 0..5001)), (CAP, 3001));
    }

    #[test]
    fn nobody_keeps_more_than_its_part_from_one_who_needs_it() {
        let mut t = table(100);
        for n in 0..100 {
            t.used(at(10), &client(n, 0), Teller::Own);
        }
        for n in 100..1000 {
            t.used(at(11), &client(n, 0), Teller::Peer(1));
        }
        assert_eq!((has(&t, 11, 0..100), t.len()), (50, 100));
    }

    #[test]
    fn a_use_pushes_out_no_later_one_whoever_tells_it() {
        let mut t = table(10);
        for n in 0..10 {
            t.used(at(100), &client(n, 0), Teller::Own);
        }
        assert!(!t.used(at(100), &client(50, 1), Teller::Peer(1)));
        assert!(t.used(at(100), &client(50, 0), Teller::Peer(1)));
        assert_eq!((has(&t, 100, 0..10), t.len()), (9, 10));
    }
}
