//! Sites compared by where they are.

use crate::fixture::{A1, B1, Bench, C1, LDNS, group, load, site};
use config::Config;
use gslb_core::decide::Verdict;
use gslb_core::location::{Closeness, Locations};
use gslb_core::{Client, Decision, Reason};
use gslb_types::{GslbMethod, ServiceState};
use std::sync::Arc;

const ONE_EACH: &str = "services = [\"a1\", \"b1\", \"c1\"]";

/// The LDNS and sites a and b are in Europe, b in the same country as the LDNS; c is nowhere.
fn located(vserver: &str) -> (Bench, Locations) {
    let place = |name: &str, words: &str| format!("name = \"{name}\"\nlocation = [{words}]\n");
    let text = group(vserver, &[]).replacen("name = \"a\"\n", &place("a", "\"EU\", \"FR\""), 1).replacen(
        "name = \"b\"\n",
        &place("b", "\"EU\", \"DE\""),
        1,
    );
    let text =
        text + "\n[[locations]]\nprefixes = [\"198.51.100.0/24\"]\nlocation = [\"EU\", \"DE\", \"HE\"]\n";
    let config: Arc<Config> = load(&text, None);
    (Bench::new(vserver), Locations::new(&config, Vec::new()))
}

fn decide(bench: &Bench, locations: &Locations) -> Decision {
    bench.decide_for(&Client { locations: Some(locations), ..Client::new(LDNS) })
}

#[test]
fn the_site_that_shares_most_with_the_client_answers_and_says_why() {
    let (bench, locations) = located(&format!("method = \"static_proximity\"\n{ONE_EACH}"));
    let decision = decide(&bench, &locations);
    assert_eq!((decision.verdict, decision.took_turn, decision.scope), (Verdict::Service(B1), false, 0));
    assert_eq!(
        decision.reasons.as_slice(),
        [
            Reason::Up(3),
            Reason::Closest(site(1), Closeness::Qualifiers(2)),
            Reason::Chosen(site(1), GslbMethod::StaticProximity),
            Reason::OnlyService(B1),
        ]
    );
    let down = bench.are(ServiceState::Down, &[B1]);
    let reasons = decide(&down, &locations).reasons;
    assert!(reasons.contains(&Reason::Closest(site(0), Closeness::Qualifiers(1))), "{reasons:?}");
}

#[test]
fn where_nothing_is_known_the_backup_method_answers() {
    let (bench, _) =
        located(&format!("method = \"static_proximity\"\nbackup_method = \"source_ip_hash\"\n{ONE_EACH}"));
    let decision = bench.decide();
    assert!(!decision.took_turn);
    assert_eq!(decision.reasons[1], Reason::NowhereKnown);
    assert!(matches!(decision.reasons[2], Reason::Chosen(_, GslbMethod::SourceIpHash)));
}

#[test]
fn it_stands_in_for_rtts_that_are_not_known_yet() {
    let (bench, locations) = located(&format!("backup_method = \"static_proximity\"\n{ONE_EACH}"));
    let decision = decide(&bench, &locations);
    assert_eq!(decision.verdict, Verdict::Service(B1));
    assert_eq!(decision.reasons[1], Reason::UnknownLdns);
    assert_eq!(decision.reasons[3], Reason::Chosen(site(1), GslbMethod::StaticProximity));
    let known = decide(&bench.far([1, 90, 90]), &locations);
    assert_eq!(known.reasons.last(), Some(&Reason::OnlyService(A1)), "measured is measured");
}

#[test]
fn sites_that_are_as_close_take_turns() {
    let (mut bench, _) = located(&format!("method = \"static_proximity\"\n{ONE_EACH}"));
    let text = group(ONE_EACH, &[]).replace("name = \"a\"\n", "name = \"a\"\nlocation = [\"EU\"]\n");
    let text = text.replace("name = \"c\"\n", "name = \"c\"\nlocation = [\"EU\"]\n");
    let text = text + "\n[[locations]]\nprefixes = [\"198.51.100.0/24\"]\nlocation = [\"EU\"]\n";
    let locations = Locations::new(&load(&text, None), Vec::new());
    let picks = [0, 1, 2, 3].map(|round| {
        bench.turn.round = round;
        let decision = decide(&bench, &locations);
        assert!(decision.took_turn && decision.reasons.contains(&Reason::Equal(2)));
        decision.verdict
    });
    assert_eq!(picks, [A1, C1, A1, C1].map(Verdict::Service));
}
