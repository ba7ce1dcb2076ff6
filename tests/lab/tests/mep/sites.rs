//! Three sites with a node and a service each, and a resolver near each of them.

use lab::gslb::{Change, Group, Node, Reply, Watch, eventually, volley};
use lab::{Lab, Topology};
use serde_json::Value;
use std::fmt::Write;
use std::io::{Read, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A, B and C of the requirements.
pub(crate) const SITES: [&str; 3] = ["fra", "iad", "sin"];
pub(crate) const NODES: [&str; 3] = ["fra/1", "iad/1", "sin/1"];

/// The i-th is nearest to the i-th site.
pub(crate) const LDNS: [&str; 3] = ["ldns-eu", "ldns-us", "ldns-as"];

/// The name that is asked for.
pub(crate) const NAME: &str = "www.gslb.test";

/// Each LDNS asks each node this often.
pub(crate) const ASKED_EVERY: Duration = Duration::from_millis(100);

/// For what must happen at some time on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The sites as far from each other as on the map, and each LDNS 6 ms from its own site, 45 and 60 ms from the others.
pub(crate) fn map(name: &str) -> Topology {
    let plan = SITES.iter().fold(Topology::new(name), |plan, site| plan.site(site));
    let plan = LDNS.iter().fold(plan, |plan, ldns| plan.ldns(ldns));
    let plan = plan.link("fra", "iad", ms(42)).link("fra", "sin", ms(80)).link("iad", "sin", ms(110));
    let plan =
        plan.link("ldns-eu", "fra", ms(6)).link("ldns-eu", "iad", ms(45)).link("ldns-eu", "sin", ms(60));
    let plan =
        plan.link("ldns-us", "fra", ms(45)).link("ldns-us", "iad", ms(6)).link("ldns-us", "sin", ms(60));
    plan.link("ldns-as", "fra", ms(45)).link("ldns-as", "iad", ms(60)).link("ldns-as", "sin", ms(6))
}

/// What differs from test to test in the nodes' configuration.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    /// Lines of `[mep]`.
    pub(crate) mep: String,
    /// Lines of `[probe]`, in place of those below.
    pub(crate) probe: Option<&'static str>,
    /// Lines of each `[[nodes]]`; {n} stands for its number, from 1.
    pub(crate) node: &'static str,
    /// Lines of each `[[sites]]`.
    pub(crate) site: &'static str,
    /// Lines of each `[[services]]`.
    pub(crate) service: &'static str,
    /// Lines of the virtual server.
    pub(crate) vserver: &'static str,
    /// More tables.
    pub(crate) more: &'static str,
}

impl Settings {
    /// Everything at its default, but for the pace of probes.
    pub(crate) fn new() -> Settings {
        Settings::default()
    }

    /// With lines of `[mep]`.
    pub(crate) fn mep(self, lines: &str) -> Settings {
        Settings { mep: format!("{}{lines}\n", self.mep), ..self }
    }
}

/// The same text for all nodes.
pub(crate) fn config(settings: &Settings) -> String {
    let probe = settings.probe.unwrap_or("interval = \"2s\"\ntimeout = \"600ms\"\nper_prefix = 20");
    let mut text = format!(
        "version = 1\n[group]\nname = \"lab\"\n[dns]\nudp_threads = 1\n[mep]\n{}[probe]\n{probe}\n{}\n",
        settings.mep, settings.more
    );
    for (i, site) in SITES.iter().enumerate() {
        let n = i + 1;
        let (of_site, of_service) = (settings.site, settings.service);
        let of_node = settings.node.replace("{n}", &n.to_string());
        // Writing into a string does not fail.
        let _ = write!(
            text,
            "[[sites]]\nname = \"{site}\"\n{of_site}\n\
             [[nodes]]\nname = \"{site}/1\"\nmep = \"198.18.{n}.1:4353\"\n{of_node}\n\
             [[services]]\nname = \"web-{site}\"\nsite = \"{site}\"\naddress = \"198.18.{n}.80\"\nport = 80\n\
             {of_service}\n"
        );
    }
    text + "[[vservers]]\nname = \"www\"\nservices = [\"web-fra\", \"web-iad\", \"web-sin\"]\n"
        + settings.vserver
        + "\n[[domains]]\nname = \"www.gslb.test\"\nvserver = \"www\"\n\
           [[zones]]\nname = \"gslb.test\"\nrecords = '''\n\
           @   SOA ns1 hostmaster 1 1h 15m 1w 5s\n    NS  ns1\nns1 A   198.18.1.1\n'''\n"
}

/// Starts the three nodes and asks from all LDNS until every node answers each with its nearest site.
pub(crate) fn start<'lab>(lab: &'lab Lab, settings: &Settings) -> (Group<'lab>, Watch) {
    let group = Group::start(lab, "lab", &config(settings), &NODES).expect("three nodes");
    let watch = settle(lab, &group);
    (group, watch)
}

/// Waits until all nodes hear each other and answer every LDNS with its nearest site. The watch goes on.
pub(crate) fn settle(lab: &Lab, group: &Group<'_>) -> Watch {
    let watch = Watch::start(lab, &LDNS, &SITES, NAME, ASKED_EVERY).expect("a watch");
    wait_until_meshed(group);
    eventually("every LDNS gets its nearest site from every node", PATIENCE, || {
        all_near(lab, &watch).then_some(())
    });
    watch
}

/// Waits until every node hears all others.
pub(crate) fn wait_until_meshed(group: &Group<'_>) {
    for node in group.nodes() {
        eventually(&format!("{} hears its peers", node.id()), PATIENCE, || {
            let peers = node.peers().ok()?;
            (!peers.is_empty() && peers.iter().all(|peer| peer["state"] == "up")).then_some(())
        });
    }
}

/// Waits until a node says of a peer that it is in this state.
pub(crate) fn eventually_says(node: &Node<'_>, peer: &str, state: &str) {
    eventually(&format!("{} says {peer} is {state}", node.id()), PATIENCE, || {
        (node.peer(peer)["state"] == state).then_some(())
    });
}

/// Whether every node answered every LDNS with its nearest site, the last time.
pub(crate) fn all_near(lab: &Lab, watch: &Watch) -> bool {
    let last = watch.last();
    let near = |ldns: &str| LDNS.iter().position(|other| *other == ldns).map(|i| service(lab, SITES[i]));
    last.len() == LDNS.len() * SITES.len()
        && last.iter().all(|(ldns, _, reply)| Some(reply) == near(ldns).as_ref())
}

/// The answer that is a site's service.
pub(crate) fn service(lab: &Lab, site: &str) -> Reply {
    Reply::Addresses(vec![lab.nth_v4(site, 80)])
}

/// No packet between the site and the other two; resolvers still reach it.
pub(crate) fn isolate(lab: &Lab, site: &str) {
    SITES.iter().filter(|other| **other != site).for_each(|other| lab.cut(site, other));
}

/// Undoes it.
pub(crate) fn heal(lab: &Lab, site: &str) {
    SITES.iter().filter(|other| **other != site).for_each(|other| lab.heal(site, other));
}

/// Looks every 50 ms until `end`; when `look` first saw it, counted from `begun`.
pub(crate) fn first(begun: Instant, end: Duration, mut look: impl FnMut() -> bool) -> Option<Duration> {
    while begun.elapsed() < end {
        if look() {
            return Some(begun.elapsed());
        }
        thread::sleep(ms(50));
    }
    None
}

/// Lets time pass until so long after `begun`.
pub(crate) fn until(begun: Instant, after: Duration) {
    thread::sleep(after.saturating_sub(begun.elapsed()));
}

/// States of each pair, for what a test prints: "fra/1 -> iad/1 down via sin/1".
pub(crate) fn pairs(group: &Group<'_>) -> String {
    let mut text = String::new();
    for node in group.nodes() {
        for peer in node.peers().unwrap_or_default() {
            let relay = peer["relay"].as_str().map(|via| format!(" via {via}")).unwrap_or_default();
            let _ =
                write!(text, "{} -> {} {}{relay}, ", node.id(), word(&peer["peer"]), word(&peer["state"]));
        }
    }
    text.trim_end_matches(", ").to_owned()
}

pub(crate) fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// What a service is for its monitors: answers at a site's service address, over HTTP, until it is dropped.
pub(crate) struct Web {
    site: String,
    stop: Arc<AtomicBool>,
    mute: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Web {
    pub(crate) fn start(lab: &Lab, site: &str) -> Web {
        let (stop, mute) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let address = lab.nth_v4(site, 80);
        let (stopped, silent) = (stop.clone(), mute.clone());
        let serve = move || {
            let listener = TcpListener::bind((address, 80))?;
            listener.set_nonblocking(true)?;
            Ok::<_, std::io::Error>(thread::spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    match listener.accept() {
                        Ok((client, _)) if !silent.load(Ordering::Relaxed) => answer(client),
                        Ok(_) => {}
                        Err(_) => thread::sleep(ms(10)),
                    }
                }
            }))
        };
        let thread = lab.in_namespace(site, serve).expect("namespace").expect("a listener");
        Web { site: site.to_owned(), stop, mute, thread: Some(thread) }
    }

    pub(crate) fn site(&self) -> &str {
        &self.site
    }

    /// Accepts connections from now on, and closes them.
    pub(crate) fn mute(&mut self) {
        self.mute.store(true, Ordering::Relaxed);
    }
}

/// Reads a request, of which there may be none, and answers it.
fn answer(mut client: TcpStream) {
    let ready = client.set_nonblocking(false).and_then(|()| client.set_read_timeout(Some(ms(200))));
    if ready.is_ok() && client.read(&mut [0; 1000]).is_ok_and(|length| length > 0) {
        // Whoever has gone needs no answer.
        let _ = client.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The first addresses of the laboratory's pool.
pub(crate) fn pool(lab: &Lab, count: u32) -> Vec<IpAddr> {
    // .0 and .255 of the whole pool are avoided by beginning at 1.
    (1..=count).map(|n| IpAddr::V4(lab.nth_v4("pool", n))).collect()
}

/// What a site's node answers each of the pool's addresses.
pub(crate) fn ask_pool(lab: &Lab, sources: &[IpAddr], site: &str) -> Vec<Reply> {
    let server = IpAddr::V4(lab.v4(site));
    lab.in_namespace("pool", || volley(sources, server, NAME, seconds(2)))
        .expect("namespace")
        .expect("sockets")
}

/// The changes, a line each.
pub(crate) fn lines(changes: &[Change]) -> String {
    changes.iter().fold(String::new(), |text, change| format!("{text}\n  {change}"))
}
