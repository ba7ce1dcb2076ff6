//! What a peer can make this node do (threat T8).

use super::*;

const SERVICES: usize = 500;
const VSERVERS: usize = 100;

/// Site b has so many services, and each virtual server ten of them, so that each service stands in two.
fn many() -> Health {
    let name = |n: usize| format!("s{n:03}");
    let services = (0..SERVICES).map(|n| {
        format!(
            "[[services]]\nname = \"{}\"\nsite = \"b\"\naddress = \"198.19.{}.{}\"\nport = 80\n",
            name(n),
            n / 250,
            n % 250 + 1
        )
    });
    let vservers = (0..VSERVERS).map(|v| {
        let bound: Vec<String> = (0..10).map(|n| format!("\"{}\"", name((v * 5 + n) % SERVICES))).collect();
        format!("[[vservers]]\nname = \"v{v}\"\nservices = [{}]\n", bound.join(", "))
    });
    let more: String = services.chain(vservers).collect();
    let mut health = read(&(group() + &more));
    health.peer_up(at(0), site_b(), &node("b/1"));
    health
}

/// Services judged and bindings looked at in a frame of these words, up to the publication of what came of them.
fn effort(health: &mut Health, words: &[Word]) -> (u64, u64) {
    let before = health.effort();
    health.peer_said(at(1), site_b(), &node("b/1"), words, false);
    health.take_changes();
    health.take_turned();
    let after = health.effort();
    (after.0 - before.0, after.1 - before.1)
}

/// A word about the n-th of the many.
fn word(health: &Health, n: usize, state: ServiceState) -> Word {
    let place = health.config.services.len() - SERVICES + n;
    Word { service: place, state, response_time: None, traffic: Traffic::default() }
}

#[test]
fn a_frame_about_one_service_costs_its_own_virtual_servers_and_no_others() {
    let mut h = many();
    let up = word(&h, 7, Up);
    assert_eq!(effort(&mut h, &[up]), (1, 40), "two virtual servers of ten, remembered and looked at");
    assert_eq!(effort(&mut h, &[up]), (1, 0), "nothing changed");
}

#[test]
fn a_frame_that_changes_everything_costs_everything_once() {
    let mut h = many();
    let frame: Vec<Word> = (0..SERVICES).map(|n| word(&h, n, Up)).collect();
    assert_eq!(effort(&mut h, &frame), (500, 2000));
    assert_eq!(effort(&mut h, &frame), (500, 0));
}

/// 100,000 words, each of which turns the service round: what counts is how it is in the end.
#[test]
fn a_frame_that_names_a_service_again_and_again_judges_it_once() {
    let mut h = many();
    let frame: Vec<Word> =
        (0..100_000).map(|n| word(&h, n / 2 % SERVICES, if n % 2 == 0 { Up } else { Down })).collect();
    let (judged, looks) = effort(&mut h, &frame);
    println!("T8: 100000 words about {SERVICES} services: {judged} judged, {looks} bindings looked at");
    assert_eq!((judged, looks), (500, 2000));
    assert_eq!(h.take_changes(), []);
    assert!(h.states().ends_with(&[Down; SERVICES]));
}

#[test]
fn what_a_peer_may_not_say_costs_nothing() {
    let mut h = many();
    let foreign =
        vec![Word { service: A1, state: Down, response_time: None, traffic: Traffic::default() }; 1000];
    let before = h.effort();
    assert_eq!(h.peer_said(at(1), site_b(), &node("b/1"), &foreign, false), 1000);
    assert_eq!((h.effort(), h.states()[A1]), (before, Learning));
}
