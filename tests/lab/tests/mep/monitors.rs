//! Who judges the services of a site that can't be heard (behaviour 4: trigger_monitor).
//!
//! iad's own monitor asks its service over HTTP, the other sites' monitors connect to it. Nothing of the exchange reaches or
//! leaves iad while it is muted, and nobody relays it; its service can be reached all the same, or not, as a test wants.

use crate::Test;
use crate::sites::{
    LDNS, NODES, PATIENCE, SITES, Settings, Web, config, map, ms, pairs, seconds, service, settle,
};
use lab::gslb::{Group, Watch, eventually};
use lab::{Lab, Rejection};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const TESTS: &[Test] = &[
    ("trigger_monitor_always_believes_what_this_site_sees", always),
    ("trigger_monitor_mep_down_believes_it_only_once_the_site_is_silent", mep_down),
    ("trigger_monitor_mep_down_or_service_down_believes_it_also_while_the_site_says_down", or_service_down),
    ("a_silent_site_without_remote_monitors_is_down_after_the_delay", none),
];

const KEEPALIVE: Duration = Duration::from_secs(2);
const DOWN_DELAY: Duration = Duration::from_secs(3);

/// What monitors need to notice, the longer of them, and a busy machine.
const NOTICED: Duration = Duration::from_secs(4);

/// How the exchange looks to a packet filter, to and from iad.
const MUTE: [(&str, Rejection); 3] = [
    ("udp dport 4353", Rejection::Silence),
    ("tcp dport 4353", Rejection::Silence),
    ("tcp sport 4353", Rejection::Silence),
];
const MUTE_FROM_IAD: [(&str, Rejection); 3] = [
    ("ip saddr 198.18.2.0/24 udp dport 4353", Rejection::Silence),
    ("ip saddr 198.18.2.0/24 tcp dport 4353", Rejection::Silence),
    ("ip saddr 198.18.2.0/24 tcp sport 4353", Rejection::Silence),
];

/// fra's monitors of iad's service get no answer; sin's do.
const HIDDEN_FROM_FRA: (&str, Rejection) = ("ip saddr 198.18.1.0/24 tcp dport 80", Rejection::Silence);

struct Scene<'lab> {
    lab: &'lab Lab,
    group: Group<'lab>,
    watch: Watch,
}

impl<'lab> Scene<'lab> {
    /// With this trigger, and these monitors of the own site and of the others.
    fn start(lab: &'lab Lab, site: &'static str, service: &'static str) -> Scene<'lab> {
        let monitors = "[[monitors]]\nname = \"port\"\nkind = \"tcp\"\ninterval = \"500ms\"\ntimeout = \"400ms\"\nfall = 2\n\
                        [[monitors]]\nname = \"page\"\nkind = \"http\"\ninterval = \"500ms\"\ntimeout = \"400ms\"\nfall = 2\n";
        let settings = Settings { site, service, more: monitors, ..Settings::new() };
        let settings = settings.mep("keepalive = \"2s\"\ndown_delay = \"3s\"\nmetrics_interval = \"500ms\"");
        let group = Group::start(lab, "lab", &config(&settings), &NODES).expect("three nodes");
        let watch = settle(lab, &group);
        Scene { lab, group, watch }
    }

    /// Waits until fra and sin answer the LDNS beside iad with iad, or without it; at most so long.
    fn expect(&self, what: &str, fra: bool, sin: bool, within: Duration) {
        let begun = Instant::now();
        eventually(
            &format!("{what}: iad at fra {fra}, at sin {sin}; {}", pairs(&self.group)),
            within,
            || (self.with_iad() == [fra, sin]).then_some(()),
        );
        println!("{what}: iad at fra {fra}, at sin {sin} after {:.1?}", begun.elapsed());
    }

    /// The same, and it stays so.
    fn stays(&self, what: &str, fra: bool, sin: bool, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            assert_eq!(
                self.with_iad(),
                [fra, sin],
                "{what}, after {:.1?}; {}",
                begun.elapsed(),
                pairs(&self.group)
            );
            thread::sleep(ms(50));
        }
        println!("{what}: iad at fra {fra}, at sin {sin} for {time:?}");
    }

    /// Whether the LDNS beside iad is sent there by fra and by sin.
    fn with_iad(&self) -> [bool; 2] {
        ["fra", "sin"].map(|site| self.watch.last_of(LDNS[1], site) == Some(service(self.lab, "iad")))
    }

    /// Nobody hears iad, nor it anybody.
    fn mute_iad(&self, hidden: bool) {
        self.iad(true, hidden);
        for site in ["fra", "sin"] {
            self.lab.reject(site, &MUTE_FROM_IAD).expect("nft");
        }
    }

    fn unmute(&self, hidden: bool) {
        self.iad(false, hidden);
        for site in ["fra", "sin"] {
            self.lab.reject(site, &[]).expect("nft");
        }
    }

    fn iad(&self, mute: bool, hidden: bool) {
        let mut rules = if mute { MUTE.to_vec() } else { Vec::new() };
        rules.extend(hidden.then_some(HIDDEN_FROM_FRA));
        self.lab.reject("iad", &rules).expect("nft");
    }
}

/// Until silence is noticed, the delay is over, and monitors have had their time.
const SILENT: Duration = Duration::from_secs(2 + 3 + 2);

/// A web server in each site, in the order of the sites.
fn webs(lab: &Lab) -> Vec<Web> {
    SITES.iter().map(|site| Web::start(lab, site)).collect()
}

fn always() {
    let lab = map("always").up().expect("up");
    let mut webs = webs(&lab);
    let scene = Scene::start(
        &lab,
        "trigger_monitor = \"always\"",
        "monitors = [\"port\"]\nremote_monitors = [\"port\"]",
    );
    // The exchange is up, and still what fra sees decides at fra.
    scene.iad(false, true);
    scene.expect("always, hidden from fra", false, true, NOTICED);
    scene.iad(false, false);
    scene.expect("always, seen again", true, true, NOTICED + DOWN_DELAY);
    scene.mute_iad(false);
    scene.stays("always, muted and seen", true, true, SILENT + seconds(2));
    drop(webs.remove(1));
    scene.expect("always, muted and dead", false, false, NOTICED);
    scene.unmute(false);
}

fn mep_down() {
    let lab = map("mep-down").up().expect("up");
    let _webs = webs(&lab);
    let scene = Scene::start(
        &lab,
        "trigger_monitor = \"mep_down\"",
        "monitors = [\"port\"]\nremote_monitors = [\"port\"]",
    );
    // While iad speaks, fra's own eyes do not count.
    scene.iad(false, true);
    scene.stays("mep_down, hidden from fra", true, true, NOTICED);
    scene.mute_iad(true);
    let muted = Instant::now();
    scene.stays("mep_down, muted", true, true, KEEPALIVE + DOWN_DELAY - ms(1200));
    scene.expect("mep_down, muted and hidden from fra", false, true, NOTICED);
    assert!(muted.elapsed() <= KEEPALIVE + DOWN_DELAY + seconds(2), "{:?}", muted.elapsed());
    scene.stays("mep_down, muted and seen by sin", false, true, seconds(3));
    scene.unmute(true);
    scene.expect("mep_down, heard again", true, true, PATIENCE);
}

fn or_service_down() {
    let lab = map("service-down").up().expect("up");
    let mut webs = webs(&lab);
    let service = "monitors = [\"page\"]\nremote_monitors = [\"port\"]";
    let scene = Scene::start(&lab, "trigger_monitor = \"mep_down_or_service_down\"", service);
    // From now on iad's own monitor fails: connections are accepted and closed.
    webs.iter_mut().filter(|web| web.site() == "iad").for_each(Web::mute);
    let state = || {
        scene
            .group
            .node("iad/1")
            .metric("gslb_service_state{service=\"web-iad\",site=\"iad\",state=\"down\"}")
    };
    eventually("iad says that its service is down", NOTICED, || (state() == Some(1.0)).then_some(()));
    scene.stays("mep_down_or_service_down, iad says down, others see it", true, true, NOTICED);
    scene.iad(false, true);
    scene.expect("mep_down_or_service_down, hidden from fra", false, true, NOTICED);
    scene.iad(false, false);
    scene.expect("mep_down_or_service_down, seen again", true, true, NOTICED + DOWN_DELAY);
    scene.mute_iad(false);
    scene.stays("mep_down_or_service_down, muted", true, true, SILENT);
    drop(webs.remove(1));
    scene.expect("mep_down_or_service_down, dead", false, false, NOTICED);
    scene.unmute(false);
}

fn none() {
    let lab = map("no-monitors").up().expect("up");
    let _webs = webs(&lab);
    let scene = Scene::start(&lab, "trigger_monitor = \"always\"", "monitors = [\"port\"]");
    scene.iad(false, true);
    scene.stays("no remote monitors, hidden from fra", true, true, NOTICED);
    scene.mute_iad(false);
    let muted = Instant::now();
    scene.stays("no remote monitors, muted", true, true, KEEPALIVE + DOWN_DELAY - ms(1200));
    scene.expect("no remote monitors, silent", false, false, NOTICED);
    assert!(muted.elapsed() <= KEEPALIVE + DOWN_DELAY + seconds(2), "{:?}", muted.elapsed());
    scene.unmute(false);
    scene.expect("no remote monitors, heard again", true, true, PATIENCE);
}
