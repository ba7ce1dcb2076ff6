//! Persistence sessions in columns: those that have all but the client in common share it.

use super::{Allowance, Columns, Doubts, from_millis, millis, v4_column, v6_column};
use crate::proto::{self, frame::Body};
use crate::{KnownSession, SessionKey};
use gslb_types::ServiceName;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// The body that tells these sessions.
pub(crate) fn sessions(sessions: &[KnownSession]) -> Body {
    let mut groups: BTreeMap<Common<'_>, (Duration, Columns)> = BTreeMap::new();
    for session in sessions {
        let key = &session.key;
        let common =
            (key.persistence, &session.service, session.idle.as_secs(), key.client.is_ipv6(), key.prefix);
        let (longest, columns) = groups.entry(common).or_default();
        *longest = (*longest).max(session.idle);
        columns.push(key.client);
    }
    Body::Sessions(proto::Sessions { groups: groups.into_iter().map(pack).collect() })
}

/// Persistence id, service, seconds idle, whether IPv6, prefix.
type Common<'a> = (u32, &'a ServiceName, u64, bool, u8);

fn pack(
    ((persistence, service, _, is_v6, prefix), (longest, columns)): (Common<'_>, (Duration, Columns)),
) -> proto::SessionGroup {
    let prefix = u32::from(prefix);
    proto::SessionGroup {
        persistence,
        service: service.as_str().to_owned(),
        idle_ms: millis(longest),
        v4_prefix: if is_v6 { 0 } else { prefix },
        v4: columns.v4,
        v6_prefix: if is_v6 { prefix } else { 0 },
        v6: columns.v6.freeze(),
    }
}

/// The sessions of a body; those of no client, and with no service, are left out and counted.
pub(super) fn read_sessions(told: proto::Sessions, doubts: &mut Doubts) -> Vec<KnownSession> {
    let mut sessions = Vec::new();
    let mut allowance = Allowance::new();
    for group in told.groups {
        let (Some(v6), Ok(service)) = (v6_column(&group.v6), ServiceName::new(&group.service)) else {
            doubts.faults += 1;
            continue;
        };
        if !allowance.take(group.v4.len() + v6.len(), doubts) {
            break;
        }
        let idle = from_millis(group.idle_ms);
        let v4 = v4_column(&group.v4).map(|client| (client, group.v4_prefix));
        for (client, prefix) in v4.chain(v6.map(|client| (client, group.v6_prefix))) {
            match key(group.persistence, client, prefix) {
                Some(key) => sessions.push(KnownSession { key, service: service.clone(), idle }),
                None => doubts.faults += 1,
            }
        }
    }
    sessions
}

/// The key of a client's network, if that is one: within its family, its first address, and somebody's.
fn key(persistence: u32, client: IpAddr, prefix: u32) -> Option<SessionKey> {
    let key = SessionKey::new(persistence, client, u8::try_from(prefix).ok()?);
    (key.client == client && key.is_somebodys()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Word, body, decode};

    fn session(persistence: u32, client: &str, prefix: u8, idle_ms: u64) -> KnownSession {
        KnownSession {
            key: SessionKey::new(persistence, client.parse().unwrap(), prefix),
            service: ServiceName::new("web-ber").unwrap(),
            idle: Duration::from_millis(idle_ms),
        }
    }

    #[test]
    fn sessions_come_out_as_they_went_in() {
        let told = vec![
            session(1, "192.0.2.0", 24, 0),
            session(1, "192.0.2.128", 25, 0),
            session(1, "2001:db8::", 56, 0),
            session(7, "192.0.2.0", 24, 90_000),
        ];
        let read = decode(body(sessions(&told))).unwrap();
        assert_eq!(read.doubts, Doubts::default());
        let Some(Word::Sessions(mut read)) = read.word else { panic!("sessions went in") };
        read.sort_by_key(|session| session.key);
        assert_eq!(read, told);
    }

    #[test]
    fn idle_times_are_never_told_shorter_than_they_are() {
        let told = [session(1, "192.0.2.1", 32, 1_001), session(1, "192.0.2.2", 32, 1_998)];
        let Some(Word::Sessions(read)) = decode(body(sessions(&told))).unwrap().word else {
            panic!("sessions went in")
        };
        assert!(read.iter().all(|session| session.idle == Duration::from_millis(1_998)));
    }

    #[test]
    fn clients_that_are_none_are_left_out_and_counted() {
        let group = |v4_prefix, v4| proto::SessionGroup {
            service: "web".to_owned(),
            v4_prefix,
            v4,
            ..Default::default()
        };
        let groups = vec![
            group(0, vec![0xC000_0201]),
            group(33, vec![0xC000_0201]),
            group(24, vec![0xC000_0201, 0xC000_0200, 0]),
            proto::SessionGroup { service: "\u{1b}".to_owned(), ..group(32, vec![0xC000_0201]) },
            proto::SessionGroup { v6: vec![1; 15].into(), ..group(32, vec![]) },
        ];
        let mut doubts = Doubts::default();
        let read = read_sessions(proto::Sessions { groups }, &mut doubts);
        assert_eq!((read.len(), doubts.faults), (1, 6));
    }

    #[test]
    fn a_thousand_sessions_of_a_service_cost_less_than_five_bytes_each() {
        let told: Vec<KnownSession> = (0..1000_u32)
            .map(|n| session(1, &std::net::Ipv4Addr::from_bits(0x0A00_0000 + n).to_string(), 32, 0))
            .collect();
        let bytes = body(sessions(&told)).len();
        println!("{:.2} bytes a session", bytes as f64 / 1000.0);
        assert!(bytes <= 5_000, "{bytes}");
    }
}
