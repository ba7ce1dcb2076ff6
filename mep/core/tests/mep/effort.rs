//! How much work a peer can buy (threat T8): counted in look-ups, since those are what answers cost.

use crate::group::Group;
use crate::net::{address, ldns, ms, secs, settings};
use crate::refusals::Nothing;
use gslb_types::{Ldns, Reach, Rtt, SiteName};
use mep_core::proto::{self, frame::Body, relayed::What};
use mep_core::{KnownLdns, KnownSession, Output, PeerState, SessionKey, Settings, Values};
use std::cell::Cell;
use std::time::Duration;

/// Look-ups that one peer may cause in one turn: 16 steps of about a chunk.
const A_TURN: usize = 16 * 1_000;

/// Counts what is looked up. Every site has a value of every LDNS that has an entry.
#[derive(Default)]
struct Counting {
    looks: Cell<usize>,
    /// How often a site was looked up.
    sites: Cell<usize>,
    has_entries: bool,
}

impl Counting {
    fn look(&self, of: Ldns) -> Option<KnownLdns> {
        self.looks.set(self.looks.get() + 1);
        let reach = Reach::Known(Rtt::from_micros(27_000));
        let (seen, age) = (Duration::ZERO, Duration::ZERO);
        let known = KnownLdns { ldns: of, address: of.address(), seen, reach, kind: None, age };
        self.has_entries.then_some(known)
    }

    fn taken(&self) -> (usize, usize) {
        (self.looks.take(), self.sites.take())
    }
}

impl Values for Counting {
    fn known(&self, ldns: Ldns) -> Option<KnownLdns> {
        self.look(ldns)
    }

    fn known_after(&self, _: Option<Ldns>, _: usize) -> Vec<KnownLdns> {
        Vec::new()
    }

    fn column(&self, _: &SiteName, ldns: Ldns) -> Option<KnownLdns> {
        self.look(ldns)
    }

    fn columns(&self, _: &SiteName, ldns: &[Ldns]) -> Vec<KnownLdns> {
        self.sites.set(self.sites.get() + 1);
        ldns.iter().filter_map(|ldns| self.look(*ldns)).collect()
    }

    fn session(&self, _: &SessionKey) -> Option<KnownSession> {
        self.looks.set(self.looks.get() + 1);
        None
    }
}

const SITES: usize = 19;

fn site(n: usize) -> String {
    format!("s{n:02}")
}

/// A group of 21 sites: fra has all others relayed.
fn group() -> Group {
    let nodes: Vec<String> = (0..SITES).map(|n| format!("{}/1", site(n))).collect();
    let mut names: Vec<&str> = nodes.iter().map(String::as_str).collect();
    names.extend(["fra/1", "par/1"]);
    let mut group = Group::of(&names);
    for name in names.iter().filter(|name| **name != "par/1") {
        group.meet(name);
    }
    let sites = (0..SITES).map(site).collect();
    group.take("fra/1", Body::RelayRequest(proto::RelayRequest { sites }));
    group.wait(secs(5), &Nothing);
    group.acknowledge("fra/1");
    assert_eq!(group.status("fra/1").violations, 0);
    group
}

fn wanted(from: u32, count: u32) -> Body {
    let v4 = (from..from + count).map(|n| 0x0A00_0001 + n).collect();
    Body::Wanted(proto::Wanted { v4, v6: bytes::Bytes::new() })
}

#[test]
fn ldns_without_an_entry_cost_one_look_each_however_much_is_relayed() {
    let mut group = group();
    let values = Counting::default();
    group.take("fra/1", wanted(0, 2_000));
    group.turn(&values);
    let (first, sites) = values.taken();
    assert_eq!((first, sites), (1_000 / (1 + SITES), 0), "no column is looked at");
    let mut turns = 1;
    while group.status("fra/1").outbox > 0 {
        group.now = group.mep.poll_timeout().unwrap();
        group.turn(&values);
        turns += 1;
        assert!(values.looks.get() <= 1_000);
        values.sites.get();
        if turns % 10 == 0 {
            group.acknowledge("fra/1");
        }
        assert!(turns < 1_000);
        values.looks.set(0);
    }
    println!("2,000 LDNS without an entry: {turns} turns of {first} looks");
}

#[test]
fn answers_come_a_chunk_of_look_ups_at_a_time() {
    let mut group = group();
    let values = Counting { has_entries: true, ..Counting::default() };
    group.take("fra/1", wanted(0, 2_000));
    let (mut most, mut rows, mut relayed) = (0, 0, 0);
    let begin = group.now;
    while group.status("fra/1").outbox > 0 {
        let outputs = group.turn(&values);
        for body in group.told("fra/1", &outputs) {
            match body {
                Body::Rtts(told) => rows += told.groups[0].v4.len(),
                Body::Relayed(proto::Relayed { what: Some(What::Rtts(told)), .. }) => {
                    relayed += told.groups[0].v4.len();
                }
                _ => {}
            }
        }
        let (looks, sites) = values.taken();
        most = most.max(looks);
        assert!(sites <= SITES, "each site is looked up once, not {sites} times");
        group.now = group.mep.poll_timeout().unwrap();
        group.acknowledge("fra/1");
        group.take("fra/1", Body::Keepalive(proto::Keepalive {}));
    }
    println!(
        "2,000 answers of {} sites: at most {most} look-ups a turn, {:?}",
        SITES + 1,
        group.now.since(begin)
    );
    assert_eq!((rows, relayed, most), (2_000, 2_000 * SITES, 1_000));
}

#[test]
fn a_great_many_changes_that_are_none_are_skipped_a_few_chunks_a_turn() {
    let mut group = Group::with(Settings { sessions_cap: 100_000, ..settings(&["fra/1", "par/1"]) });
    group.meet("fra/1");
    group.wait(secs(1), &Nothing);
    let now = group.now;
    for n in 0..8_000 {
        // Five networks of each.
        for persistence in 0..5 {
            group.mep.note_session(now, SessionKey::new(persistence, address(n), 32));
        }
    }
    let values = Counting::default();
    let (mut most, mut all) = (0, 0);
    let end = now + secs(6);
    while let Some(at) = group.mep.poll_timeout().filter(|at| *at < end) {
        group.now = at;
        group.turn(&values);
        most = most.max(values.looks.get());
        all += values.looks.take();
    }
    println!("40,000 sessions that are gone: {all} look-ups, at most {most} a turn");
    assert_eq!((most, all), (A_TURN, 40_000));
    assert_eq!(group.status("fra/1").outbox, 0);
}

#[test]
fn a_peer_that_begins_relays_without_end_has_each_begun_ten_times_a_second() {
    let mut group = group();
    let (mut begun, begin) = (0, group.now);
    for n in 0..500 {
        let sites = if n % 2 == 0 { vec![] } else { vec![site(3)] };
        group.take("fra/1", Body::RelayRequest(proto::RelayRequest { sites }));
        let outputs = group.wait(ms(4), &Nothing);
        let is_begin =
            |body: &Body| matches!(body, Body::Relayed(proto::Relayed { what: Some(What::Begin(_)), .. }));
        begun += group.told("fra/1", &outputs).iter().filter(|body| is_begin(body)).count();
        group.acknowledge("fra/1");
    }
    println!("{begun} beginnings in {:?}", group.now.since(begin));
    assert!((15..=21).contains(&begun), "{begun}");
    assert_eq!(group.status("fra/1").state, PeerState::Up);
}

#[test]
fn what_waits_to_be_asked_for_is_bounded_and_what_is_dropped_is_counted() {
    let mut group = Group::of(&["fra/1", "par/1"]);
    group.meet("fra/1");
    group.wait(secs(1), &Nothing);
    let now = group.now;
    for n in 0..65_537 {
        group.mep.want(now, ldns(n));
    }
    assert_eq!((group.status("fra/1").outbox, group.status("fra/1").wants_dropped), (0, 65_537));
    for n in 0..2_500 {
        group.mep.want(now, ldns(n));
    }
    let outputs: Vec<Output> = group.wait(ms(50), &Nothing);
    let count = |body: &Body| match body {
        Body::Wanted(wanted) => wanted.v4.len(),
        _ => 0,
    };
    let asked: Vec<usize> = group.told("fra/1", &outputs).iter().map(count).filter(|n| *n > 0).collect();
    assert_eq!(asked, [1_000, 1_000, 500]);
    assert_eq!((group.status("fra/1").outbox, group.status("fra/1").wants_dropped), (0, 65_537));
}

/// Each is shorter than the longest frame, and would take tens of milliseconds and megabytes.
#[test]
fn a_frame_of_a_great_many_empty_parts_is_no_frame() {
    let mut group = Group::of(&["fra/1", "par/1"]);
    group.meet("fra/1");
    group.wait(secs(1), &Nothing);
    let groups = vec![proto::RttGroup::default(); 120_000];
    group.take("fra/1", Body::Rtts(proto::RttRows { groups }));
    let services = vec![proto::Service::default(); 120_000];
    group.take("fra/1", Body::Metrics(proto::SiteMetrics { age_ms: 0, services }));
    let outputs = group.turn(&Nothing);
    assert!(outputs.iter().all(|output| matches!(output, Output::Carrier(_))), "{outputs:?}");
    let status = group.status("fra/1");
    assert_eq!((status.violations, status.state), (2, PeerState::Up));
}
