//! A node task that failed is replaced by a new one over the same shared state (faults I-57): nothing is taken back, and
//! nothing is left behind.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod text;

use config::Config;
use gslb_core::{Birth, Input, Node, Output, Shared};
use gslb_types::{Ldns, Reach, Rtt, ServiceState, SiteIndex, Timestamp};
use probes_core::wire::{CheckOutcome, CheckReply, ProbeOutcome, ProbeReply, ProbeRequest};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// One node, and one service that it checks.
fn group(more: &str) -> Arc<Config> {
    let parts = [
        "version = 1\n",
        more,
        &text::sites(&["a"]),
        &text::nodes(&["a/1"]),
        text::WEB,
        &text::service("a1", "a", "198.18.1.80", "monitors = [\"web\"]"),
        &text::vserver("www", &["a1"], ""),
        text::WWW,
    ];
    text::load(&parts.concat(), None)
}

struct Bench {
    config: Arc<Config>,
    shared: Arc<Shared>,
    node: Node,
}

fn at(s: u64) -> Timestamp {
    Timestamp::from_micros(s * 1_000_000)
}

fn asker() -> IpAddr {
    [192, 0, 2, 53].into()
}

impl Bench {
    fn new(more: &str) -> Self {
        let config = group(more);
        let shared = Arc::new(Shared::new(&config, 1, at(0)));
        let node = node(&config, &shared, 0);
        Bench { config, shared, node }
    }

    fn fails_at(&mut self, now: u64) {
        self.node = node(&self.config, &self.shared, now);
    }

    fn input(&mut self, now: u64, input: Input) {
        self.node.handle_input(at(now), input);
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.node.poll_output()).collect()
    }

    /// The probe the node wants sent; it has one LDNS.
    fn probe(&mut self) -> Option<ProbeRequest> {
        self.outputs().into_iter().find_map(|output| match output {
            Output::Probe(probe) => Some(probe),
            Output::Check(_) | Output::Fetch(_) | Output::Carrier(_) | Output::Local(_) => None,
        })
    }

    fn measures(&mut self, now: u64, micros: u32) {
        let id = self.probe().unwrap().id;
        let outcome = ProbeOutcome::EchoReply(Rtt::from_micros(micros));
        self.input(now, Input::Probe(ProbeReply { id, outcome }));
    }

    /// Lets time pass while no probe can be sent.
    fn runs_until(&mut self, end: u64) {
        while let Some(due) = self.node.poll_timeout().filter(|due| *due <= at(end)) {
            self.node.handle_timeout(due);
            while let Some(ProbeRequest { id, .. }) = self.probe() {
                self.node
                    .handle_input(due, Input::Probe(ProbeReply { id, outcome: ProbeOutcome::SendFailed }));
            }
        }
    }

    fn advertised(&self) -> Option<Reach> {
        let row = self.shared.rtts.row(Ldns::of(asker(), self.config.ldns.masks))?;
        Some(row.cell(SiteIndex::new(0).unwrap()).reach())
    }
}

fn node(config: &Arc<Config>, shared: &Arc<Shared>, now: u64) -> Node {
    let birth = Birth { seed: now, boot: now, local: Vec::new(), coalesce: Duration::ZERO };
    Node::new(config.clone(), shared.clone(), &birth, at(now))
}

#[test]
fn rows_stay_are_probed_again_and_go_when_nobody_asks() {
    let mut b = Bench::new("");
    b.input(1, Input::Sighting(asker()));
    b.measures(1, 27_000);
    b.fails_at(10);
    assert_eq!(b.advertised(), Some(Reach::Known(Rtt::from_micros(27_000))));
    assert_eq!(b.probe().map(|probe| probe.target), Some(asker()));
    b.runs_until(180);
    assert_eq!(b.shared.rtts.len(), 1);
    // The age of the last query counts from the query, not from the new start.
    b.runs_until(182);
    assert_eq!(b.shared.rtts.len(), 0);
}

/// Faults I-46: nothing else looks after a value that the task before has told.
#[test]
fn a_value_from_before_is_withdrawn_if_nothing_confirms_it() {
    let mut b = Bench::new("");
    b.input(1, Input::Sighting(asker()));
    b.measures(1, 27_000);
    b.fails_at(10);
    b.runs_until(75);
    assert_eq!((b.advertised(), b.node.stats().withdrawn), (Some(Reach::Pending), 1));
}

/// A row of a whole prefix does not say which of its addresses asked, and the prefix's own address is nobody's.
#[test]
fn a_row_of_a_prefix_goes_and_comes_back_with_the_next_query() {
    let mut b = Bench::new("[ldns]\nmask_v4 = 24\n");
    b.input(1, Input::Sighting(asker()));
    b.measures(1, 27_000);
    b.fails_at(10);
    assert_eq!((b.shared.rtts.len(), b.probe()), (0, None));
    b.input(11, Input::Sighting(asker()));
    assert_eq!(b.probe().map(|probe| probe.target), Some(asker()));
}

/// A service known to be down must not be answered while the new task has not checked it yet.
#[test]
fn a_service_stays_as_it_was_until_it_is_checked_again() {
    let mut b = Bench::new("");
    let check = b.outputs().into_iter().find_map(|output| match output {
        Output::Check(check) => Some(check),
        Output::Probe(_) | Output::Fetch(_) | Output::Carrier(_) | Output::Local(_) => None,
    });
    let outcome = CheckOutcome::Failed("refused".to_owned());
    b.input(1, Input::Check(CheckReply { id: check.unwrap().id, outcome }));
    let state = |b: &Bench| b.shared.published.load().services.first().map(|s| (s.state, s.since));
    assert_eq!(state(&b), Some((ServiceState::Down, at(1))));
    b.fails_at(10);
    assert_eq!(state(&b), Some((ServiceState::Down, at(1))));
}
