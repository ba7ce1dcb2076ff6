//! Clients that stay where they were sent to (faults I-59).

use crate::fixture::{A1, B1, Bench, C1, LDNS, at};
use gslb_core::decide::Verdict;
use gslb_core::{Client, Decision, Reason, Session};
use gslb_types::ServiceState::{Disabled, Down, Learning};

const STICKY: &str = "method = \"round_robin\"\npersistence = \"source_ip\"
services = [\"a1\", { service = \"b1\", order = 2 }]\nbackup_vserver = \"other\"
[[vservers]]\nname = \"other\"\nservices = [\"c1\"]";

/// A decision at second 1000 for a client whose session was used at this second.
fn decided(bench: &Bench, service: usize, used: u64) -> Decision {
    bench.decide_for(&Client { session: Some(Session { service, used: at(used) }), ..Client::new(LDNS) })
}

#[test]
fn a_session_outranks_method_order_and_chain() {
    let b = Bench::new(STICKY);
    assert_eq!(b.verdict(), Verdict::Service(A1));
    let stays = decided(&b, B1, 990);
    assert_eq!(
        (stays.verdict, stays.reasons.as_slice()),
        (Verdict::Service(B1), &[Reason::Persistent(B1)][..])
    );
    assert!(!stays.took_turn);
    let at_the_backup = decided(&b, C1, 990);
    assert_eq!((at_the_backup.verdict, at_the_backup.vserver), (Verdict::Service(C1), 1));
}

#[test]
fn a_session_ends_when_its_service_is_down_or_disabled_and_not_while_it_is_learning() {
    for (state, verdict) in [(Down, A1), (Disabled, A1), (Learning, B1)] {
        let decision = decided(&Bench::new(STICKY).are(state, &[B1]), B1, 990);
        assert_eq!(decision.verdict, Verdict::Service(verdict), "{state:?}");
        let ends = decision.reasons.first() == Some(&Reason::SessionEnds(B1));
        assert_eq!(ends, state != Learning, "{state:?}");
    }
}

#[test]
fn a_session_ends_after_two_minutes_unless_configured() {
    let b = Bench::new(STICKY);
    assert_eq!(decided(&b, B1, 881).verdict, Verdict::Service(B1));
    assert_eq!(decided(&b, B1, 880).verdict, Verdict::Service(A1));
    let longer = Bench::new(&STICKY.replacen("persistence", "persistence_timeout = \"10m\"\npersistence", 1));
    assert_eq!(decided(&longer, B1, 401).verdict, Verdict::Service(B1));
    assert_eq!(decided(&longer, B1, 400).verdict, Verdict::Service(A1));
}

#[test]
fn a_session_of_a_service_that_is_bound_no_longer_leads_nowhere() {
    let b = Bench::new("persistence = \"source_ip\"\nservices = [\"a1\"]");
    assert_eq!(decided(&b, C1, 990).verdict, Verdict::Service(A1));
}

#[test]
fn without_persistence_sessions_of_others_are_nothing() {
    let b = Bench::new("services = [\"a1\", \"b1\"]\nmethod = \"round_robin\"");
    assert_eq!(decided(&b, B1, 990).verdict, Verdict::Service(A1));
}
