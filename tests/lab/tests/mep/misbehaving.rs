//! A peer with a good certificate that breaks every rule (threat T8).

use crate::Test;
use crate::peer::{Ended, Peer, Session, at};
use crate::sites::{LDNS, NAME, Settings, config, map, ms, seconds};
use lab::Lab;
use lab::gslb::{Group, Transport, dig, eventually};
use mep_core::proto::{self, frame::Body};
use mep_io::Pem;
use mep_io::pki::Authority;
use prost::Message;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fs;
use std::net::SocketAddr;
use std::time::Instant;

pub(crate) const TESTS: &[Test] =
    &[("of_200000_fuzzed_frames_none_costs_a_panic_or_memory_or_moves_another_sites_column", fuzzed)];

const FRAMES: u64 = 200_000;

/// Peers to send them: each is left alone after a thousand violations.
const IDENTITIES: u32 = 60;

/// LDNS that the table holds at most.
const CAP: u64 = 20_000;

/// What the nodes may grow by: a full table, and queues.
const GROWTH: u64 = CAP * 600 + (32 << 20);

fn fuzzed() {
    let _busy = crate::busy();
    // Near, since what may be under way is bounded.
    let lab = map("misbehaving").link("fra", "iad", ms(1)).up().expect("up");
    let settings = Settings { more: "[ldns]\ncap = 20000", ..Settings::new().mep("keepalive = \"5s\"") };
    let others: String = (2..=IDENTITIES)
        .map(|n| format!("[[nodes]]\nname = \"iad/{n}\"\nmep = \"198.18.2.{n}:4353\"\n"))
        .collect();
    let mut group =
        Group::prepare("lab", &(config(&settings) + &others), &["fra/1", "sin/1"]).expect("certificates");
    let ours = Authority::new(&"lab".parse().expect("a name")).expect("a CA");
    for id in ["fra/1", "sin/1"] {
        write_pem(&group, &ours, id);
    }
    group.start_nodes(&lab, &[("fra/1", "fra"), ("sin/1", "sin")], &[]).expect("two nodes");
    eventually("fra and sin hear each other", seconds(30), || {
        (group.node("fra/1").peer("sin/1")["state"] == "up").then_some(())
    });
    let ask = |ldns: &str| dig(&lab, ldns, lab.v4("fra").into(), NAME, "A", Transport::Udp);
    eventually("RTTs are known", seconds(30), || {
        LDNS.iter().all(|ldns| ask(ldns).is_ok()).then_some(())?;
        (column(&group, &lab, "fra")?.len() == 3 && column(&group, &lab, "sin")?.len() == 3).then_some(())
    });
    let before = (column(&group, &lab, "fra"), column(&group, &lab, "sin"), group.node("fra/1").resident());

    let pems: Vec<(String, Pem)> = (1..=IDENTITIES)
        .map(|n| format!("iad/{n}"))
        .map(|id| (id.clone(), ours.issue(&id.parse().expect("an id")).expect("a certificate")))
        .collect();
    let address = SocketAddr::new(lab.v4("fra").into(), 4353);
    let begun = Instant::now();
    let (sent, used, ends) = at(&lab, "iad", async || {
        let mut rng = Pcg64Mcg::seed_from_u64(8);
        let (mut sent, mut used, mut ends) = (0, 0, Vec::new());
        for (id, pem) in &pems {
            if sent >= FRAMES {
                break;
            }
            used += 1;
            let mut peer = Peer::start(pem, id);
            // Until it is left alone for good.
            loop {
                let hello = peer.hello();
                let (Ended::DialFailed(reason) | Ended::Closed(reason)) =
                    match peer.session("fra/1", address, hello).await {
                        Ok(session) => match fuzz(&mut peer, session, &mut rng, &mut sent).await {
                            Some(ended) => ended,
                            None => break,
                        },
                        Err(ended) => ended,
                    };
                let is_over = reason.contains("quarantine");
                ends.push(reason);
                if is_over {
                    break;
                }
            }
        }
        (sent, used, ends)
    });
    let took = begun.elapsed();
    let peers = group.node("fra/1").peers().expect("an answer");
    let sum =
        |key: &str| peers.iter().filter(|p| p["site"] == "iad").filter_map(|p| p[key].as_u64()).sum::<u64>();
    let (violations, unknown, rows_in) = (sum("violations"), sum("unknown"), sum("rows_in"));
    let kept_out = ends.iter().filter(|reason| reason.contains("quarantine")).count();
    let grown = ["fra/1", "sin/1"].map(|node| group.node(node).resident().saturating_sub(before.2) >> 20);
    let (rows, cap) = (group.node("fra/1").metric("gslb_ldns_rows"), CAP as f64);
    println!(
        "T8: {sent} fuzzed frames in {took:.1?} by {used} peers, {kept_out} of them kept out in the end; {violations} violations, \
         {unknown} not understood, {rows_in} rows in; fra/1 and sin/1 grew by {grown:?} MiB; {rows:?} LDNS; first ends: {:?}",
        &ends[..ends.len().min(3)]
    );
    assert_eq!(sent, FRAMES);
    for node in ["fra/1", "sin/1"] {
        let node = group.node(node);
        assert_eq!(node.get("/ready").expect("it runs").status, 200);
        assert!(!node.log().contains("panick"), "{}", node.log_tail());
        assert!(node.resident() <= before.2 + GROWTH, "{} MiB", node.resident() >> 20);
    }
    assert!(rows.is_some_and(|rows| rows <= cap));
    assert!(violations > FRAMES / 20 && rows_in > FRAMES / 10, "{violations} violations, {rows_in} rows");
    assert_eq!(group.node("fra/1").peer("sin/1")["downs"], 0, "the honest session has stood all along");

    // Only their own column has moved: the others are measured as before, and their services are up.
    let after =
        (column(&group, &lab, "fra").expect("an answer"), column(&group, &lab, "sin").expect("an answer"));
    println!("T8: columns of fra and sin before {:?} {:?}, after {after:?}", before.0, before.1);
    for (before, after) in [(before.0.expect("known"), after.0), (before.1.expect("known"), after.1)] {
        assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(&after) {
            assert!(before.abs_diff(*after) <= 6_000, "{before} us to {after} us");
        }
    }
    let services =
        group.node("fra/1").get("/v1/services").and_then(|answer| answer.json()).expect("services");
    let state = |name: &str| {
        let list = services["services"].as_array().cloned().unwrap_or_default();
        list.into_iter().find(|service| service["service"] == name).unwrap_or_default()["state"].clone()
    };
    assert_eq!((state("web-fra"), state("web-sin")), ("up".into(), "up".into()), "{services}");
    assert!(LDNS.iter().all(|ldns| ask(ldns).is_ok()));
}

/// Says fuzzed things until all are said, or the session ends.
async fn fuzz(peer: &mut Peer, mut session: Session, rng: &mut Pcg64Mcg, sent: &mut u64) -> Option<Ended> {
    while *sent < FRAMES {
        if let Err(ended) = peer.send(&mut session, &body(rng)).await {
            return Some(ended);
        }
        *sent += 1;
    }
    None
}

/// A site's RTTs to the three LDNS in microseconds, as fra/1 has them.
fn column(group: &Group<'_>, lab: &Lab, site: &str) -> Option<Vec<u64>> {
    let rtt = |ldns: &&str| {
        let row = group.node("fra/1").get(&format!("/v1/ldns/{}", lab.v4(ldns))).ok()?.json().ok()?;
        let cells = row["sites"].as_array()?.clone();
        cells.into_iter().find(|cell| cell["site"] == site)?["rtt_us"].as_u64()
    };
    Some(LDNS.iter().filter_map(rtt).collect())
}

/// A certificate of this CA for a node, in place of the one that was made for it.
pub(crate) fn write_pem(group: &Group<'_>, authority: &Authority, id: &str) {
    let pem = authority.issue(&id.parse().expect("an id")).expect("a certificate");
    let stem = group.folder().join("pki").join(id.replace('/', "-"));
    fs::write(group.folder().join("pki/ca.crt"), authority.certificate()).expect("written");
    fs::write(stem.with_extension("crt"), &pem.certificate).expect("written");
    fs::write(stem.with_extension("key"), &pem.key).expect("written");
}

/// Octets of a body: nine of ten are allowed, whatever they say; the others broken at random places.
fn body(rng: &mut Pcg64Mcg) -> Vec<u8> {
    let mut octets = proto::Frame { body: Some(said(rng)), ..Default::default() }.encode_to_vec();
    if !rng.next_u32().is_multiple_of(10) {
        return octets;
    }
    match rng.next_u32() % 4 {
        0 => octets.truncate(rng.next_u32() as usize % octets.len().max(1)),
        1 => octets = (0..rng.next_u32() % 300).map(|_| rng.next_u32() as u8 | 0x10).collect(),
        _ => {
            for _ in 0..=rng.next_u32() % 4 {
                let at = rng.next_u32() as usize % octets.len().max(1);
                if let Some(octet) = octets.get_mut(at) {
                    *octet = rng.next_u32() as u8;
                }
            }
        }
    }
    octets
}

fn said(rng: &mut Pcg64Mcg) -> Body {
    let mut number = |below: u32| rng.next_u32() % below.max(1);
    match number(10) {
        0 => Body::SnapshotBegin(proto::SnapshotBegin {}),
        1 => Body::SnapshotEnd(proto::SnapshotEnd {}),
        2 => Body::Keepalive(proto::Keepalive {}),
        3 => Body::Wanted(proto::Wanted {
            v4: (0..number(20)).map(|_| address(number(u32::MAX))).collect(),
            v6: vec![7; if number(40) == 0 { 7 } else { 32 }].into(),
        }),
        4 | 5 => Body::Metrics(proto::SiteMetrics {
            age_ms: [0, 900, u32::MAX][number(3) as usize],
            services: (0..number(5))
                .map(|_| {
                    let is_wild = number(40) == 0;
                    let states = if is_wild { 9 } else { 4 };
                    proto::Service {
                        // Its own, those of others, and none at all.
                        name: ["web-iad", "web-fra", "web-sin", "", "\u{1b}[2J"]
                            [number(if is_wild { 5 } else { 3 }) as usize]
                            .to_owned(),
                        state: 1 + number(states).cast_signed() - i32::from(is_wild) * 3,
                        response_time_us: Some(1 + number(if is_wild { u32::MAX - 1 } else { 9_000_000 })),
                        active: Some(u64::MAX - u64::from(number(3))),
                        ..Default::default()
                    }
                })
                .collect(),
        }),
        6 => Body::Sightings(proto::Sightings {
            groups: vec![proto::SightingGroup {
                age_ms: [0, 900, u32::MAX][number(3) as usize],
                fresh: number(2) == 1,
                v4: (0..number(30)).map(|_| address(number(u32::MAX))).collect(),
                v6: vec![0x20; if number(40) == 0 { 5 } else { 48 }].into(),
            }],
        }),
        _ => {
            let v4: Vec<u32> = (0..number(30)).map(|_| address(number(u32::MAX))).collect();
            // Mostly what a peer may say; now and then an RTT of 0 or of hours, and more RTTs than LDNS.
            let is_wild = number(40) == 0;
            let rtt = |number: &mut dyn FnMut(u32) -> u32| match is_wild {
                true => number(u32::MAX) >> number(32),
                false => 1 + (number(300_000) >> number(18)),
            };
            let count = v4.len() + usize::from(number(40) == 0);
            let reach = if is_wild { number(6).cast_signed() } else { 1 + number(3).cast_signed() };
            let count = if reach == 1 || is_wild { count } else { 0 };
            let v4_rtt_us = (0..count).map(|_| rtt(&mut number)).collect();
            let kind = number(4).cast_signed();
            Body::Rtts(proto::RttRows {
                groups: vec![proto::RttGroup {
                    reach,
                    kind,
                    age_ms: [0, 900, u32::MAX][number(3) as usize],
                    v4,
                    v4_rtt_us,
                    v6: vec![].into(),
                    v6_rtt_us: vec![],
                }],
            })
        }
    }
}

/// The three LDNS more often than anybody else.
fn address(random: u32) -> u32 {
    match random % 4 {
        0 => 0xc612_0401 + (((random >> 8) % 3) << 8),
        // Nothing reserved, nor multicast.
        _ => 0x0b00_0000 + random % 0x6000_0000,
    }
}
