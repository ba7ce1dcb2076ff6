//! Hellos: what this node says of itself, and whether a peer's will do.

use super::{from_millis, millis, printable};
use crate::proto::{self, frame::Body};
use crate::settings::{OLDEST_MAJOR, Settings, VERSION};
use gslb_types::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Settings compared by name; a peer that names more is compared by its first ones only.
const MOST_SETTINGS: usize = 64;

/// This node's hello.
pub(crate) fn hello(me: &NodeId, boot: u64, number: u64, settings: &Settings) -> Body {
    let named = |(name, hash): &(String, u64)| proto::Setting { name: name.clone(), hash: *hash };
    Body::Hello(proto::Hello {
        major_min: OLDEST_MAJOR,
        major_max: VERSION.0,
        minor: VERSION.1,
        site: me.site.as_str().to_owned(),
        node: me.node.as_str().to_owned(),
        boot,
        number,
        software: settings.software.clone(),
        group: settings.group.clone(),
        settings: settings.must_match.iter().map(named).collect(),
        config_hash: settings.config_hash,
        keepalive_ms: millis(settings.keepalive),
        metrics_interval_ms: millis(settings.metrics_interval),
        rtt_interval_ms: millis(settings.rtt_interval),
    })
}

/// What a peer's hello says, once it will do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PeerHello {
    pub(crate) boot: u64,
    pub(crate) number: u64,
    pub(crate) software: String,
    pub(crate) config_hash: u64,
    /// Names of the settings that differ.
    pub(crate) mismatches: Vec<String>,
    /// Whether it knows links, relays and persistence sessions: since 1.1. The minor is that of its newest major.
    pub(crate) knows_relays: bool,
    /// How long the peer waits for a word; `None` if it does not say.
    pub(crate) keepalive: Option<Duration>,
}

/// Why a connection never became a session. Its words are told to the other end, and stand in the peer's status at both.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// Somebody speaks in another's name (threat T7).
    #[error("the hello names {hello}, the certificate {certificate}")]
    WrongIdentity { hello: String, certificate: NodeId },
    #[error("the hello names group '{theirs}', ours is '{ours}'")]
    OtherGroup { theirs: String, ours: String },
    #[error("the hello speaks protocol {from} to {to}, this node {OLDEST_MAJOR} to {}", VERSION.0)]
    OtherProtocol { from: u32, to: u32 },
    /// Two processes claim one identity; the later one has it (faults I-52).
    #[error("duplicate identity: a process started later has taken this node's place")]
    Displaced,
    #[error("the first frame is no hello")]
    NoHello,
    #[error("no hello within {0:?}")]
    HelloTimeout(Duration),
    #[error("too many connections at once")]
    TooMany,
    /// It broke the protocol a short while ago (threat T8).
    #[error("in quarantine for breaking the protocol")]
    Quarantine,
}

/// Whether a hello will do for a session with the node that the certificate names.
pub(crate) fn check_hello(
    hello: &proto::Hello,
    certificate: &NodeId,
    settings: &Settings,
) -> Result<PeerHello, Refusal> {
    let named = format!("{}/{}", hello.site, hello.node);
    if hello.major_max < OLDEST_MAJOR || hello.major_min > VERSION.0 || hello.major_min > hello.major_max {
        return Err(Refusal::OtherProtocol { from: hello.major_min, to: hello.major_max });
    }
    if named != certificate.to_string() {
        return Err(Refusal::WrongIdentity { hello: printable(&named), certificate: certificate.clone() });
    }
    if hello.group != settings.group {
        let theirs = printable(&hello.group);
        return Err(Refusal::OtherGroup { theirs, ours: settings.group.clone() });
    }
    Ok(PeerHello {
        boot: hello.boot,
        number: hello.number,
        software: printable(&hello.software),
        config_hash: hello.config_hash,
        mismatches: mismatches(&hello.settings, &settings.must_match),
        knows_relays: hello.major_max > 1 || hello.minor >= 1,
        keepalive: (hello.keepalive_ms != 0).then(|| from_millis(hello.keepalive_ms)),
    })
}

/// Names that are missing at one end or have different hashes.
fn mismatches(theirs: &[proto::Setting], ours: &[(String, u64)]) -> Vec<String> {
    let theirs: BTreeMap<String, u64> =
        theirs.iter().take(MOST_SETTINGS).map(|s| (printable(&s.name), s.hash)).collect();
    let ours: BTreeMap<&str, u64> = ours.iter().map(|(name, hash)| (name.as_str(), *hash)).collect();
    let differing = ours.iter().filter(|(name, hash)| theirs.get(**name) != Some(*hash));
    let missing = theirs.keys().filter(|name| !ours.contains_key(name.as_str()));
    differing.map(|(name, _)| (*name).to_owned()).chain(missing.cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            peers: Vec::new(),
            group: "g".to_owned(),
            software: "0.1.0".to_owned(),
            keepalive: Duration::from_secs(10),
            metrics_interval: Duration::from_secs(1),
            rtt_interval: Duration::from_secs(5),
            must_match: vec![("domains".to_owned(), 1), ("rtt_tolerance".to_owned(), 5)],
            config_hash: 9,
            masks: gslb_types::LdnsMasks::default(),
            outbox_cap: 1000,
            sessions_interval: Duration::from_secs(5),
            sessions_cap: 1000,
            quic_retry: Duration::from_secs(60),
        }
    }

    fn node(text: &str) -> NodeId {
        text.parse().unwrap()
    }

    fn ours() -> proto::Hello {
        let Body::Hello(hello) = hello(&node("fra/1"), 7, 3, &settings()) else { panic!("a hello") };
        hello
    }

    fn checked(hello: &proto::Hello) -> Result<PeerHello, Refusal> {
        check_hello(hello, &node("fra/1"), &settings())
    }

    #[test]
    fn our_own_hello_will_do() {
        let expected = PeerHello {
            boot: 7,
            number: 3,
            software: "0.1.0".to_owned(),
            config_hash: 9,
            mismatches: vec![],
            knows_relays: true,
            keepalive: Some(Duration::from_secs(10)),
        };
        assert_eq!(checked(&ours()), Ok(expected));
    }

    #[test]
    fn a_hello_in_anothers_name_is_refused() {
        let refusal = checked(&proto::Hello { site: "par".to_owned(), ..ours() }).unwrap_err();
        assert_eq!(refusal.to_string(), "the hello names par/1, the certificate fra/1");
    }

    #[test]
    fn another_group_is_refused() {
        let refusal = checked(&proto::Hello { group: "h\n".to_owned(), ..ours() }).unwrap_err();
        assert_eq!(refusal.to_string(), "the hello names group 'h', ours is 'g'");
    }

    #[test]
    fn majors_must_overlap_and_minors_need_not_be_equal() {
        let speaking = |major_min, major_max, minor| proto::Hello { major_min, major_max, minor, ..ours() };
        for (hello, will_do) in [
            (speaking(1, 1, 99), true),
            (speaking(1, 3, 0), true),
            (speaking(0, 1, 0), true),
            (speaking(2, 3, 0), false),
            (speaking(0, 0, 0), false),
            (speaking(3, 1, 0), false),
        ] {
            assert_eq!(checked(&hello).is_ok(), will_do, "{hello:?}");
        }
        for (hello, knows) in
            [(speaking(1, 1, 0), false), (speaking(1, 1, 1), true), (speaking(1, 2, 0), true)]
        {
            assert_eq!(checked(&hello).unwrap().knows_relays, knows, "{hello:?}");
        }
        let refusal = checked(&speaking(2, 3, 0)).unwrap_err();
        assert_eq!(refusal.to_string(), "the hello speaks protocol 2 to 3, this node 1 to 1");
    }

    #[test]
    fn settings_that_differ_or_are_missing_are_named() {
        let setting = |name: &str, hash| proto::Setting { name: name.to_owned(), hash };
        let settings = vec![setting("rtt_tolerance", 50), setting("sites", 1)];
        let hello = checked(&proto::Hello { settings, ..ours() }).unwrap();
        assert_eq!(hello.mismatches, ["domains", "rtt_tolerance", "sites"]);
    }
}
