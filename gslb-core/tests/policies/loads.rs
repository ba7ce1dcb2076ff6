//! Sites compared by what they have to do.

use crate::fixture::{A1, A2, B1, Bench, C1, C2, site, us};
use gslb_core::Reason;
use gslb_core::decide::{Load, Verdict};
use gslb_types::{GslbMethod, ServiceState};
use std::collections::BTreeMap;

const ONE_EACH: &str = "services = [\"a1\", \"b1\", \"c1\"]";

/// Distances say nothing here.
fn by(method: &str) -> Bench {
    Bench::new(&format!("method = \"{method}\"\n{ONE_EACH}")).far([1, 90, 90])
}

#[test]
fn each_method_compares_its_own_metric() {
    for (method, least) in [("least_connections", A1), ("least_bandwidth", B1), ("least_response_time", C1)] {
        let mut b = by(method);
        for (service, active, bytes, ttfb) in [(A1, 1, 30, 900), (B1, 2, 10, 500), (C1, 3, 20, 100)] {
            let traffic = b.traffic(service);
            (traffic.active, traffic.bytes, traffic.ttfb) = (Some(active), Some(bytes), us(ttfb));
        }
        assert_eq!(b.verdict(), Verdict::Service(least), "{method}");
        assert!(!b.decide().took_turn);
    }
}

#[test]
fn every_step_of_a_comparison_is_told() {
    let mut b = by("least_connections");
    for (service, active) in [(A1, 7), (B1, 3), (C1, 5)] {
        b.traffic(service).active = Some(active);
    }
    let load = |n| Load { n, weight: 1 };
    assert_eq!(
        b.decide().reasons.as_slice(),
        [
            Reason::Up(3),
            Reason::Load(site(0), load(7)),
            Reason::Load(site(1), load(3)),
            Reason::Load(site(2), load(5)),
            Reason::Least(site(1), load(3)),
            Reason::Chosen(site(1), GslbMethod::LeastConnections),
            Reason::OnlyService(B1),
        ]
    );
}

#[test]
fn a_site_is_as_loaded_as_its_services_together_by_their_weights_together() {
    let vserver = "method = \"least_connections\"\nlocal_method = \"least_connections\"\nservices = [\"a1\", \"a2\", { service = \"b1\", weight = 3 }]";
    let mut b = Bench::new(vserver);
    for (service, active) in [(A1, 9), (A2, 1), (B1, 14)] {
        b.traffic(service).active = Some(active);
    }
    assert_eq!(b.verdict(), Verdict::Service(B1), "14/3 is less than 10/2");
    b.traffic(B1).active = Some(16);
    assert_eq!(b.verdict(), Verdict::Service(A2), "10/2 is less than 16/3, and a2 has the least there");
    b.service(A2).state = ServiceState::Down;
    assert_eq!(b.verdict(), Verdict::Service(B1), "9/1 is more than 16/3");
}

#[test]
fn equal_loads_take_turns() {
    let mut b = by("least_connections");
    for (service, active) in [(A1, 4), (B1, 4), (C1, 9)] {
        b.traffic(service).active = Some(active);
    }
    assert_eq!(b.shares(100), BTreeMap::from([(A1, 50), (B1, 50)]));
    assert!(b.decide().reasons.contains(&Reason::Equal(2)));
}

#[test]
fn while_no_site_tells_anything_the_backup_method_answers() {
    let mut turns = by("least_connections");
    assert!(turns.decide().reasons.contains(&Reason::NothingTold));
    assert_eq!(turns.shares(300), BTreeMap::from([(A1, 100), (B1, 100), (C1, 100)]));
    let hash = Bench::new(&format!(
        "method = \"least_connections\"\nbackup_method = \"source_ip_hash\"\n{ONE_EACH}"
    ));
    let decision = hash.decide();
    assert!(!decision.took_turn && decision.reasons.contains(&Reason::NothingTold));
}

#[test]
fn a_site_that_tells_nothing_neither_wins_everything_nor_starves() {
    let mut b = by("least_connections");
    (b.traffic(A1).active, b.traffic(B1).active) = (Some(500), Some(20));
    assert_eq!(b.shares(300), BTreeMap::from([(B1, 200), (C1, 100)]));
    b.turn.round = 2;
    assert!(b.decide().reasons.contains(&Reason::ShareOfUntold(site(2))));
}

#[test]
fn an_idle_site_is_no_site_that_tells_nothing() {
    let mut b = by("least_connections");
    for (service, active) in [(A1, 0), (B1, 1), (C1, 1)] {
        b.traffic(service).active = Some(active);
    }
    assert_eq!(b.shares(10), BTreeMap::from([(A1, 10)]));
}

#[test]
fn response_times_are_multiplied_by_transactions_only_if_all_are_counted() {
    let mut b = by("least_response_time");
    for (service, active, ttfb) in [(A1, 10, 100), (B1, 2, 400), (C1, 3, 300)] {
        b.traffic(service).active = Some(active);
        b.traffic(service).ttfb = us(ttfb);
    }
    assert_eq!(b.verdict(), Verdict::Service(B1), "800 is less than 900 and 1000");
    b.traffic(C1).active = None;
    assert_eq!(b.verdict(), Verdict::Service(A1), "100 us alone is the least");
}

#[test]
fn services_that_do_not_compete_make_no_load() {
    let vserver = "method = \"least_connections\"\nservices = [\"a1\", \"c1\", \"c2\"]";
    let mut b = Bench::new(vserver).are(ServiceState::Down, &[C2]);
    for (service, active) in [(A1, 5), (C1, 4), (C2, 900)] {
        b.traffic(service).active = Some(active);
    }
    assert_eq!(b.verdict(), Verdict::Service(C1));
}
