//! A real node between versions: an older peer, a newer one, and one that speaks another major version (behaviour 8).

use crate::Test;
use crate::misbehaving::write_pem;
use crate::peer::{Ended, Peer, Session, at};
use crate::sites::{PATIENCE, Settings, config, eventually_says, map, ms};
use lab::gslb::{Group, eventually};
use mep_core::proto::{self, frame::Body};
use mep_io::pki::Authority;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::time::timeout;

pub(crate) const TESTS: &[Test] =
    &[("older_and_newer_minor_versions_have_sessions_and_a_newer_major_one_is_refused_by_name", versions)];

/// The last body of version 1.0.
const LAST_OF_1_0: u32 = 16;

/// Listens to a session for a while, and says a word now and then.
async fn listen(peer: &mut Peer, session: &mut Session, time: Duration) -> Option<Ended> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if let Ok(Err(ended)) = timeout(ms(300), peer.hear(session)).await {
            return Some(ended);
        }
        if let Err(ended) = peer.say(session, &Body::Keepalive(proto::Keepalive {})).await {
            return Some(ended);
        }
    }
    None
}

fn versions() {
    let lab = map("versions").up().expect("up");
    let settings = Settings::new().mep("keepalive = \"3s\"\nmetrics_interval = \"500ms\"");
    let mut group = Group::prepare("lab", &config(&settings), &["fra/1", "sin/1"]).expect("certificates");
    let ours = Authority::new(&"lab".parse().expect("a name")).expect("a CA");
    ["fra/1", "sin/1"].iter().for_each(|id| write_pem(&group, &ours, id));
    group.start_nodes(&lab, &[("fra/1", "fra"), ("sin/1", "sin")], &[]).expect("two nodes");
    let pem = ours.issue(&"iad/1".parse().expect("an id")).expect("a certificate");
    let address = SocketAddr::new(lab.v4("fra").into(), 4353);
    let fra = group.node("fra/1");

    for (minor, unknown_too) in [(0, false), (1, false), (9, true)] {
        let (ended, heard) = at(&lab, "iad", async || {
            let mut peer = Peer::start(&pem, "iad/1");
            let mut hello = peer.hello();
            (hello.minor, hello.boot) = (minor, u64::from(minor) + 1);
            let mut session = match peer.session("fra/1", address, hello).await {
                Ok(session) => session,
                Err(ended) => return (Some(ended), Vec::new()),
            };
            if unknown_too {
                // A body that nobody knows yet: field 99, a message of two octets.
                peer.send(&mut session, &[0x9a, 0x06, 2, 0x08, 1]).await.expect("sent");
            }
            let ended = listen(&mut peer, &mut session, ms(4000)).await;
            assert!(ended.is_some() || fra.peer("iad/1")["state"] == "up", "{}", fra.peer("iad/1"));
            (ended, session.heard().to_vec())
        });
        let newest = heard.iter().max().copied().unwrap_or_default();
        let status = fra.peer("iad/1");
        println!(
            "1.{minor} to a real node: {} frames, newest body {newest}; ended {ended:?}; {} not understood, {} violations",
            heard.len(),
            status["unknown"],
            status["violations"]
        );
        assert!(ended.is_none() && heard.len() > 5, "{status}");
        assert_eq!(newest > LAST_OF_1_0, minor >= 1, "what 1.0 does not know is told from 1.1 on: {heard:?}");
        assert_eq!(status["violations"], 0);
        assert_eq!(status["unknown"].as_u64(), Some(u64::from(unknown_too)));
    }

    // Nothing is left of the sessions before.
    eventually_says(fra, "iad/1", "down");
    let told = at(&lab, "iad", async || {
        let mut peer = Peer::start(&pem, "iad/1");
        let hello = proto::Hello { major_min: 2, major_max: 3, minor: 0, boot: 99, ..peer.hello() };
        let ended = match peer.session("fra/1", address, hello).await {
            Err(ended) => Some(ended),
            Ok(mut session) => listen(&mut peer, &mut session, ms(4000)).await,
        };
        match ended {
            Some(Ended::DialFailed(reason) | Ended::Closed(reason)) => reason,
            None => "nothing".to_owned(),
        }
    });
    println!("2.0 to a real node: told {told:?}");
    assert!(told.contains("protocol 2 to 3") && told.contains("1 to 1"), "{told}");
    eventually("fra/1 names the version", PATIENCE, || {
        fra.peer("iad/1")["last_attempt"]
            .as_str()
            .is_some_and(|why| why.contains("protocol 2 to 3"))
            .then_some(())
    });
    assert_eq!(fra.peer("sin/1")["downs"], 0);
}
