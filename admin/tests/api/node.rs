//! A real node's machine in virtual time: what it does is what the API shows.

use crate::fixture::{at, birth, config};
use crate::http::Server;
use admin::State;
use gslb_core::{Input, Node, Output, Shared};
use gslb_types::{Rtt, Timestamp};
use mep_core::carrier::{CarrierCommand, CarrierEvent};
use probes_core::wire::{CheckOutcome, CheckReply, ProbeOutcome, ProbeReply};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A node alone: peers can't be reached, its services answer in 4 ms, and every LDNS is 27 ms away.
struct Alone {
    node: Node,
    shared: Arc<Shared>,
    now: Timestamp,
    /// What comes back, and when; in no order.
    coming: Vec<(Timestamp, Input)>,
}

impl Alone {
    fn new() -> Self {
        let shared = Arc::new(Shared::new(&config(), 7, at(0)));
        Alone {
            node: Node::new(config(), shared.clone(), &birth(), at(0)),
            shared,
            now: at(0),
            coming: Vec::new(),
        }
    }

    fn run_until(&mut self, end: Timestamp) {
        loop {
            while let Some(output) = self.node.poll_output() {
                self.carry_out(output);
            }
            let replies = self.coming.iter().map(|(when, _)| *when);
            let next = replies.chain(self.node.poll_timeout()).min().unwrap_or(end);
            if next > end {
                break;
            }
            self.now = next;
            let due = self.coming.iter().position(|(when, _)| *when <= next);
            match due.map(|position| self.coming.swap_remove(position)) {
                Some((_, input)) => self.node.handle_input(next, input),
                None => self.node.handle_timeout(next),
            }
        }
        self.now = end;
    }

    fn carry_out(&mut self, output: Output) {
        let rtt = |ms: u32| Rtt::from_micros(ms * 1000);
        let (ms, input) = match output {
            Output::Probe(request) => {
                (27, Input::Probe(ProbeReply { id: request.id, outcome: ProbeOutcome::EchoReply(rtt(27)) }))
            }
            Output::Check(request) => {
                (4, Input::Check(CheckReply { id: request.id, outcome: CheckOutcome::Passed(rtt(4)) }))
            }
            Output::Carrier(CarrierCommand::Dial { peer, over, .. }) => {
                let reason = "connection refused".to_owned();
                (1, Input::Carrier(CarrierEvent::DialFailed { peer, over, reason }))
            }
            Output::Carrier(CarrierCommand::Send { .. } | CarrierCommand::Close { .. })
            | Output::Fetch(_)
            | Output::Local(_) => return,
        };
        self.coming.push((self.now + Duration::from_millis(ms), input));
    }

    async fn serve(&self) -> Server {
        let now = self.now;
        Server::start(State::new(self.shared.clone(), move || now)).await
    }
}

fn of<'a>(list: &'a Value, key: &str, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|item| item[key] == name).unwrap()
}

#[tokio::test]
async fn what_a_node_measures_and_checks_is_shown() {
    let mut alone = Alone::new();
    alone.node.handle_input(at(0), Input::Sighting([203, 0, 113, 5].into()));
    alone.run_until(at(40));
    let server = alone.serve().await;

    let row = server.json("/v1/ldns/203.0.113.5").await;
    assert_eq!(row["last_seen_age_ms"], 40_000);
    let [own, other] = ["fra", "ams"].map(|site| of(&row["sites"], "site", site).clone());
    assert_eq!(
        (&own["state"], &own["rtt_us"], &own["kind"]),
        (&json!("known"), &json!(27_000), &json!("ping"))
    );
    assert!(own["age_ms"].as_u64().unwrap() <= 6000, "{own}");
    assert_eq!(
        other,
        json!({ "site": "ams", "state": "pending", "rtt_us": null, "kind": null, "age_ms": null })
    );

    let services = server.json("/v1/services").await;
    let [own, other] = ["web-fra", "web-ams"].map(|name| of(&services["services"], "service", name).clone());
    assert_eq!((&own["state"], &own["response_time_us"]), (&json!("up"), &json!(4000)));
    assert_eq!(own["monitors"][0]["passing"], true);
    assert_eq!((&other["state"], &other["own"]), (&json!("down"), &json!(false)), "nobody spoke for it");

    let peers = server.json("/v1/peers").await;
    let peer = of(&peers["peers"], "peer", "sin/1");
    assert_eq!((&peer["state"], &peer["sessions"]), (&json!("connecting"), &json!(0)));
    assert!(peer.to_string().contains("connection refused"), "{peer}");

    let explain = server.json("/v1/explain?name=www.gslb.test&ldns=203.0.113.5").await;
    assert_eq!(explain["answer"]["service"], "web-fra");
    assert_eq!(
        explain["reasons"][1],
        json!({ "reason": "only_site", "site": "fra", "text": "fra is the only site that can be answered" })
    );

    let status = server.json("/v1/status").await;
    assert_eq!((&status["ready"], &status["ldns"]), (&json!(true), &json!(1)));
    assert_eq!(status["peers"], json!({ "up": 0, "suspect": 0, "down": 0, "connecting": 2 }));
    assert!(status["counters"]["probing"]["samples_ping"].as_u64().unwrap() >= 7);
    assert_eq!(status["counters"]["node"]["advertised"], 1);
}
