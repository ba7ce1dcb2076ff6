//! A node's shared state at one moment, with a bit of everything in it, and an API that answers from it.

use crate::http::Server;
use admin::{Identity, Info, State};
use config::Config;
use gslb_core::{
    BalancerView, Birth, Cell, Confirmed, FeedView, Hearing, History, Judge, LinkStatus, LocalState,
    LocalView, MemberView, MonitorStats, MonitorView, NoService, Node, NodeStats, Out, Over, PeerState,
    PeerStatus, ProberStats, Published, Seen, Shared, SourceHealth, SourceView, Strangers, Traffic,
    Transition,
};
use gslb_types::{LbMethod, Ldns, ProbeKind, Reach, Rtt, ServiceState, SiteIndex, Timestamp, Weight};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The seed of every hash.
const SEED: u64 = 7;

/// The moment everything is looked at.
pub(crate) const NOW: Timestamp = at(1000);

/// The same in seconds since the Unix epoch.
const UNIX_TIME: i64 = 1_800_000_000;
const DAY: i64 = 24 * 3600;

pub(crate) const fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn ms(millis: u32) -> Rtt {
    Rtt::from_micros(millis * 1000)
}

pub(crate) fn config() -> Arc<Config> {
    let text = include_bytes!("group.toml");
    Arc::new(config::load(Path::new("group.toml"), &mut |_| Ok(text.to_vec()), None).unwrap())
}

pub(crate) fn birth() -> Birth {
    Birth { seed: SEED, boot: 1, local: Vec::new(), coalesce: Duration::ZERO }
}

/// A state, and the clock it is looked at by.
pub(crate) struct Fixture {
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Arc<AtomicU64>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let config = config();
        let shared = Arc::new(Shared::new(&config, SEED, at(0)));
        drop(Node::new(config, shared.clone(), &birth(), at(0)));
        let published =
            shared.published.swap(Shared::new(&crate::fixture::config(), SEED, at(0)).published.load_full());
        let mut published = Arc::into_inner(published).unwrap();
        fill(&mut published);
        shared.published.store(Arc::new(published));
        fill_table(&shared);
        fill_counters(&shared);
        Fixture { shared, clock: Arc::new(AtomicU64::new(NOW.as_micros())) }
    }

    /// Publishes the peers as they are after a change.
    pub(crate) fn change(&self, change: impl FnOnce(&mut [PeerStatus])) {
        self.change_all(|published| change(&mut published.peers));
    }

    /// Publishes peers, sites and services as they are after a change.
    pub(crate) fn change_all(&self, change: impl FnOnce(&mut Published)) {
        let mut published =
            Arc::into_inner(Fixture::new().shared.published.swap(self.shared.published.load_full())).unwrap();
        let before = self.shared.published.load();
        published.peers = before.peers.clone();
        published.sites = before.sites.clone();
        published.services = before.services.clone();
        change(&mut published);
        self.shared.published.store(Arc::new(published));
    }

    pub(crate) fn state(&self) -> State {
        let clock = self.clock.clone();
        let info = Info {
            started: Timestamp::ZERO,
            dns: vec!["127.0.0.1:5301".parse().unwrap(), "[::1]:5301".parse().unwrap()],
            dns_tls: vec!["127.0.0.1:8531".parse().unwrap()],
            mep: Some("198.18.1.1:4353".parse().unwrap()),
            icmp_v4: Some("raw socket".to_owned()),
            icmp_v6: Some("not permitted".to_owned()),
        };
        let identity = || Identity {
            expires: Some(UNIX_TIME + 300 * DAY),
            loaded_age: Some(Duration::from_secs(900)),
            reloads: 1,
            error: Some((
                "pki/fra-1.key: certificate and key don't fit together".to_owned(),
                Duration::from_secs(30),
            )),
        };
        State::new(self.shared.clone(), move || Timestamp::from_micros(clock.load(Ordering::Relaxed)))
            .with_wall_clock(|| UNIX_TIME)
            .with_info(info)
            .with_identity(identity)
    }

    pub(crate) async fn serve(&self) -> Server {
        Server::start(self.state()).await
    }
}

fn fill(published: &mut Published) {
    published.generation = 4711;
    published.at = NOW.before(Duration::from_millis(400));
    services(published);
    for site in [1, 2] {
        let view = &mut published.sites[site];
        view.connected = site == 1;
        view.silent_since = None;
        let last_word = if site == 1 { at(999) } else { at(960) };
        view.confirmed = Some(Confirmed::new(at(500), last_word));
    }
    published.sites[1].speaker = Some("ams/1".parse().unwrap());
    published.sites[2].relayed_via = Some("ams/1".parse().unwrap());
    published.sharing = vec!["fra/1".parse().unwrap()];
    published.persistence = 9;
    let (name, error) = ("haproxy-fra".to_owned(), Some("no answer within 500ms".to_owned()));
    published.sources = vec![SourceView { name, answered: Some(at(998)), error, fetches: 400, failures: 3 }];
    let [ams, sin] = [0, 1].map(|peer| published.peers[peer].clone());
    published.peers = vec![up(ams), down(sin)];
    let from = "203.0.113.66:4353".parse().unwrap();
    published.strangers = Strangers {
        unknown_nodes: 1,
        refused: 2,
        last: Some((from, "certificate of another CA".to_owned())),
    };
    published.probing = ProberStats {
        ldns: 5,
        ours: 5,
        proven: 4,
        sent: [200, 31, 12],
        samples: [180, 30, 11],
        timeouts: 22,
        late: 1,
        over_budget: 3,
        icmp_permitted: Some(true),
        ..ProberStats::default()
    };
    published.monitoring = MonitorStats { checks: 600, passed: 400, failed: 200, ..MonitorStats::default() };
    published.node =
        NodeStats { samples_within_tolerance: 170, advertised: 51, withdrawn: 2, ..NodeStats::default() };
}

fn services(published: &mut Published) {
    let states = [
        ("web-fra", ServiceState::Up, "all monitors pass", Some(ms(3)), Judge::OwnMonitors),
        ("web-ams", ServiceState::Up, "said by ams/1", Some(ms(2)), Judge::SiteWord),
        ("web-sin", ServiceState::Up, "said by sin/1", None, Judge::SiteWord),
        ("two-fra", ServiceState::Up, "no monitor is bound", Some(ms(1)), Judge::NoMonitor),
        ("down-fra", ServiceState::Down, "monitor web: status 503", None, Judge::OwnMonitors),
        ("down-ams", ServiceState::Down, "said by ams/1", None, Judge::RemoteMonitors),
        ("new-sin", ServiceState::Learning, "no word from its site yet", None, Judge::SiteWord),
        ("off-fra", ServiceState::Disabled, "disabled in the configuration", None, Judge::Configuration),
        (
            "vip-fra",
            ServiceState::Up,
            "LB virtual server front-fra has a service that can take requests",
            Some(ms(1)),
            Judge::LbVserver,
        ),
    ];
    for (view, (name, state, reason, response_time, judge)) in published.services.iter_mut().zip(states) {
        view.state = state;
        view.since = at(name.len() as u64 * 100);
        view.reason = reason.to_owned();
        view.judge = judge;
        let runs = matches!(judge, Judge::OwnMonitors | Judge::RemoteMonitors | Judge::LbVserver);
        view.own = runs.then_some(state);
        view.response_time = response_time;
        view.last_good = name == "down-ams" || state == ServiceState::Up;
    }
    let config = published.config.clone();
    let was_good = |service: usize| published.services[service].last_good;
    let of = |vserver: &config::Vserver| vserver.bindings.iter().map(|b| was_good(b.service)).collect();
    published.last_good = config.vservers.iter().map(of).collect();
    let passed = Seen::Passed { response_time: Some(ms(5)), words: None };
    published.services[0].monitors = vec![
        monitor("web", "http", Some(true), std::slice::from_ref(&passed), Some(ms(5))),
        monitor("alive", "ping", None, &[], None),
    ];
    published.services[0].source = Some(FeedView {
        source: "haproxy-fra".to_owned(),
        hearing: Hearing::Heard(SourceHealth::Up),
        words: "UP".to_owned(),
        heard: Some(at(998)),
        error: Some("no answer within 500ms".to_owned()),
        active: Some(4),
        connections: None,
        bytes: Some(70_000),
        requests: Some(900),
        response_time: Some(ms(3)),
        load: None,
    });
    let failed = Seen::Failed("status 503, expected 2xx".into());
    let seen = [passed, failed.clone(), Seen::Unreported, failed];
    published.services[4].monitors = vec![monitor("web", "http", Some(false), &seen, Some(ms(9)))];
    published.services[8].traffic = Some(Traffic::of_local(&local().view));
    published.local = Arc::new(vec![Some(local()), None]);
}

/// A monitor that has seen this, a result every 5 s.
fn monitor(
    name: &str,
    kind: &'static str,
    passing: Option<bool>,
    seen: &[Seen],
    response_time: Option<Rtt>,
) -> MonitorView {
    let mut history = History::default();
    for (n, seen) in seen.iter().enumerate() {
        history.add(at(980 + n as u64 * 5), seen.clone());
    }
    MonitorView {
        name: name.to_owned(),
        kind,
        weight: Weight::ONE,
        measures: true,
        passing,
        since: at(985),
        in_a_row: seen.len().min(1) as u32,
        last: seen.last().map_or_else(|| "not checked yet".to_owned(), Seen::to_string),
        response_time,
        history,
    }
}

/// What the data plane shows: one service that takes requests, one that is down and drains.
fn local() -> LocalState {
    let member = |name: &str, weight| MemberView {
        name: name.parse().unwrap(),
        state: ServiceState::Up,
        out: None,
        weight: Weight::new(weight).unwrap(),
        enabled: true,
        drain_left: None,
        ramp_percent: 40,
        active: 3,
        response_time: Some(ms(1)),
        ttfb: Some(Rtt::from_micros(800)),
        load: Some(1_500),
        requests: 1200,
        bytes: 9_000_000,
        packets: 12_000,
        window_bytes: 70_000,
        window_packets: 900,
        bits_per_second: 40_000,
        n: Some(3_000),
        nw: Some(15_000_000),
    };
    let down = MemberView {
        state: ServiceState::Down,
        out: Some(Out::Down),
        drain_left: Some(Duration::from_secs(12)),
        ramp_percent: 100,
        active: 1,
        response_time: None,
        ttfb: None,
        n: None,
        nw: None,
        ..member("down-fra", 1)
    };
    let balancer = BalancerView {
        state: ServiceState::Up,
        reason: None,
        method: LbMethod::LeastResponseTimeMonitors,
        startup_left: 17,
        pointer: Some("two-fra".parse().unwrap()),
        sessions: 5,
        retired_active: 0,
        refused: vec![(NoService::AllFull, 4)],
        members: vec![member("two-fra", 2), down],
    };
    let view = LocalView {
        vserver: "front-fra".parse().unwrap(),
        connections: 6,
        max_connections: 20_000,
        balancer,
    };
    let reason = "LB virtual server front-fra has a service that can take requests".to_owned();
    LocalState { state: ServiceState::Up, reason, is_heard: true, view }
}

fn up(peer: PeerStatus) -> PeerStatus {
    PeerStatus {
        state: PeerState::Up,
        since: at(500),
        reason: "session established".to_owned(),
        last_attempt: None,
        last_word: Some(at(999)),
        hears_us: Some(Duration::from_millis(300)),
        path_rtt: Some(Duration::from_micros(7250)),
        sessions: 2,
        downs: 1,
        snapshot_in: Some(Duration::from_millis(80)),
        snapshot_out: Some(Duration::from_millis(95)),
        boot: Some(0xfeed_beef),
        sent_seq: 1200,
        received_seq: 1190,
        frames_out: 2400,
        frames_in: 2380,
        bytes_out: 123_456,
        bytes_in: 120_000,
        rows_out: 51,
        rows_in: 48,
        outbox: 1,
        version: Some("0.1.0".to_owned()),
        config_hash: Some(0x0123_4567_89ab_cdef),
        mismatches: vec!["rtt_tolerance".to_owned()],
        certificate_expires: Some(UNIX_TIME + 3 * DAY),
        over: Some(Over::Quic),
        links: vec![
            link("fra/1", PeerState::Up, Duration::from_millis(200)),
            link("sin/1", PeerState::Suspect, Duration::from_secs(6)),
        ]
        .into(),
        links_at: Some(at(998)),
        relayed_rows_in: 7,
        downs_by_reason: BTreeMap::from([("closed", 1)]),
        turns: BTreeMap::from([((PeerState::Up, "established"), 2), ((PeerState::Down, "closed"), 1)]),
        contests: 1,
        asks_dropped: 5,
        transitions: VecDeque::from([
            transition(1, at(20), (PeerState::Connecting, PeerState::Up), "up", "session established"),
            transition(3, at(480), (PeerState::Up, PeerState::Down), "closed", "connection closed: reset"),
            transition(4, at(500), (PeerState::Down, PeerState::Up), "up", "session established"),
        ])
        .into(),
        ..peer
    }
}

/// What a peer says of a link of its own.
pub(crate) fn link(peer: &str, state: PeerState, word_age: Duration) -> LinkStatus {
    LinkStatus { peer: peer.parse().unwrap(), state, word_age: Some(word_age) }
}

/// A change of a peer's state.
pub(crate) fn transition(
    number: u64,
    at: Timestamp,
    (from, to): (PeerState, PeerState),
    kind: &'static str,
    reason: &str,
) -> Transition {
    Transition { number, at, from, to, reason: reason.to_owned(), kind }
}

fn down(peer: PeerStatus) -> PeerStatus {
    PeerStatus {
        state: PeerState::Down,
        since: at(970),
        reason: "not heard for 10s".to_owned(),
        last_attempt: Some("timed out".to_owned()),
        last_word: Some(at(960)),
        sessions: 1,
        downs: 1,
        version: Some("0.1.0".to_owned()),
        certificate_expires: Some(UNIX_TIME + 90 * DAY),
        relay: Some("ams/1".parse().unwrap()),
        links: vec![link("fra/1", PeerState::Suspect, Duration::from_secs(5))].into(),
        links_at: Some(at(960)),
        downs_by_reason: BTreeMap::from([("silent", 1)]),
        turns: BTreeMap::from([
            ((PeerState::Up, "established"), 1),
            ((PeerState::Suspect, "quiet"), 1),
            ((PeerState::Down, "silent"), 1),
        ]),
        contested: Some(at(990)),
        transitions: VecDeque::from([
            transition(2, at(21), (PeerState::Connecting, PeerState::Up), "up", "session established"),
            transition(5, at(965), (PeerState::Up, PeerState::Suspect), "suspect", "not heard for 5s"),
            transition(6, at(970), (PeerState::Suspect, PeerState::Down), "silent", "not heard for 10s"),
        ])
        .into(),
        ..peer
    }
}

/// LDNS at known distances: see each.
fn fill_table(shared: &Shared) {
    let write = |last: u8, first_seen: u64, cells: [(Reach, Option<ProbeKind>, u64); 3]| {
        let ldns = Ldns::exact([198, 51, 100, last].into());
        shared.rtts.sighted(ldns, at(first_seen));
        shared.rtts.sighted(ldns, at(990));
        for (index, (reach, kind, confirmed)) in cells.into_iter().enumerate() {
            shared.rtts.write(ldns, SiteIndex::new(index).unwrap(), Cell::new(reach, kind, at(confirmed)));
        }
    };
    let known = |millis| Reach::Known(ms(millis));
    let (ping, udp, tcp) = (Some(ProbeKind::Ping), Some(ProbeKind::DnsUdp), Some(ProbeKind::DnsTcp));
    // Measured by all, nearest to fra.
    write(1, 600, [(known(27), ping, 995), (known(42), udp, 700), (known(180), tcp, 700)]);
    // New: ams has not measured it.
    write(2, 995, [(known(27), ping, 999), (Reach::Pending, None, 0), (Reach::Pending, None, 0)]);
    // Nobody reaches it.
    write(3, 600, [(Reach::Unreachable, None, 999); 3]);
    // What sin said came in an earlier session, and is too old.
    write(4, 400, [(Reach::Unreachable, None, 995), (known(60), ping, 700), (known(1), ping, 450)]);
    // Nearest to sin.
    write(5, 600, [(known(190), ping, 995), (known(160), ping, 700), (known(3), udp, 890)]);
}

fn fill_counters(shared: &Shared) {
    let dns = &shared.dns;
    for (counter, value) in [
        (&dns.udp_requests, 1000),
        (&dns.tcp_requests, 20),
        (&dns.tls_requests, 3),
        (&dns.noerror, 990),
        (&dns.nxdomain, 30),
        (&dns.by_rtt, 800),
        (&dns.by_backup, 40),
        (&dns.all_down, 5),
        (&dns.tcp_open, 4),
        (&dns.tls_open, 2),
        (&dns.udp_receive_drops, 17),
    ] {
        counter.store(value, Ordering::Relaxed);
    }
}
