//! When the monitors of this node decide on a service of another site.

use super::*;

/// State and judge of b1, while its site is heard and up, heard and down, and silent, as its monitors here say.
fn judged(trigger: &str, here: ServiceState) -> [(ServiceState, Judge); 3] {
    let mut h = with(&format!("trigger_monitor = \"{trigger}\""), "remote_monitors = [\"web\"]");
    let now = |h: &Health| (h.services[B1].state, h.services[B1].judge);
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.own_verdict(at(1), B1, here, "as seen from here");
    h.says(2, "b/1", Up);
    let up = now(&h);
    h.says(3, "b/1", Down);
    let down = now(&h);
    h.says(4, "b/1", Up);
    h.peer_down(at(10), site_b(), &node("b/1"));
    h.runs_until(24);
    assert_eq!(now(&h), up, "not before the delay");
    h.runs_until(25);
    [up, down, now(&h)]
}

/// Behaviour 4, `trigger_monitor`.
#[test]
fn each_trigger_lets_the_own_monitors_decide_at_its_time() {
    use Judge::{RemoteMonitors, SiteWord};
    assert_eq!(judged("always", Up), [(Up, RemoteMonitors); 3]);
    assert_eq!(judged("always", Down), [(Down, RemoteMonitors); 3]);
    assert_eq!(judged("mep_down", Up), [(Up, SiteWord), (Down, SiteWord), (Up, RemoteMonitors)]);
    assert_eq!(judged("mep_down", Down), [(Up, SiteWord), (Down, SiteWord), (Down, RemoteMonitors)]);
    let both = "mep_down_or_service_down";
    assert_eq!(judged(both, Up), [(Up, SiteWord), (Up, RemoteMonitors), (Up, RemoteMonitors)]);
    assert_eq!(judged(both, Down), [(Up, SiteWord), (Down, RemoteMonitors), (Down, RemoteMonitors)]);
}

#[test]
fn without_remote_monitors_every_trigger_leaves_a_silent_site_down() {
    for trigger in ["always", "mep_down", "mep_down_or_service_down"] {
        let mut h = with(&format!("trigger_monitor = \"{trigger}\""), "");
        h.peer_up(at(0), site_b(), &node("b/1"));
        h.own_verdict(at(1), B1, Up, "no monitor of this node watches it");
        assert_eq!(h.says(1, "b/1", Down), Down);
        assert_eq!(h.says(2, "b/1", Up), Up);
        h.peer_down(at(10), site_b(), &node("b/1"));
        assert_eq!((h.runs_until(25), h.services[B1].judge), (Down, Judge::Silence));
    }
}

/// With `always` the site's word gives only metrics.
#[test]
fn a_site_whose_word_does_not_decide_still_gives_metrics() {
    let mut h = with("", "remote_monitors = [\"web\"]");
    h.peer_up(at(0), site_b(), &node("b/1"));
    h.own_verdict(at(1), B1, Up, "passed");
    h.own_response_time(at(1), B1, Some(Rtt::from_micros(9000)));
    h.hears(2, "b/1", B1, Up, Some(Rtt::from_micros(7)), false);
    assert_eq!(h.services[B1].response_time, Some(Rtt::from_micros(7)));
    h.peer_down(at(10), site_b(), &node("b/1"));
    h.runs_until(25);
    assert_eq!((h.services[B1].state, h.services[B1].response_time), (Up, Some(Rtt::from_micros(9000))));
}
