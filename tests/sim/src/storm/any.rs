//! The group of a storm, and who asks it.

use super::{FEW, Options};
use crate::chance::Chance;
use crate::group::Group;
use crate::world::World;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Resolvers that ask, in the storm and after it.
const RESOLVERS: u32 = 9;

/// How long news of a node in a large group wait for company before they are published; as long as in production.
const COALESCE: Duration = Duration::from_millis(5);

/// Sites that a group takes its own from, first ones first.
const SITES: [&str; 32] = [
    "fra", "iad", "sin", "gru", "syd", "nrt", "jnb", "ord", "lhr", "cdg", "bom", "scl", "yyz", "hkg", "icn",
    "dxb", "mad", "arn", "waw", "otp", "mia", "sea", "den", "lax", "gig", "eze", "bog", "cpt", "los", "akl",
    "per", "kix",
];

/// A world with a group of any size and settings, whose nodes do not run yet.
pub(super) fn world(chance: &mut Chance, options: &Options, seed: u64) -> World {
    let nodes = any_number(chance, options);
    let group = any_small_table(seed, any_group(chance, nodes));
    match World::new(group, seed ^ 0x5eed) {
        Ok(mut world) => {
            if nodes > FEW {
                world.coalesce(COALESCE);
            }
            world
        }
        Err(errors) => unreachable_group(&errors),
    }
}

/// Puts resolvers into the world.
pub(super) fn resolvers(chance: &mut Chance, world: &mut World) -> Vec<IpAddr> {
    let sites = world.group().sites().len();
    let put = (0..RESOLVERS).map(|n| {
        let address = resolver(n);
        let rtts: Vec<Duration> = (0..sites).map(|_| any_rtt(chance)).collect();
        world.put_resolver(address, &rtts);
        address
    });
    put.collect()
}

/// Half of the groups have hardly more nodes than the fewest, a hundredth ten times as many: the work of a group grows with the
/// square.
fn any_number(chance: &mut Chance, options: &Options) -> usize {
    const STEPS: u32 = 1 << 16;
    let (least, most) = (*options.nodes.start(), *options.nodes.end());
    let left = f64::from(STEPS - chance.below(STEPS)) / f64::from(STEPS);
    let scaled = least as f64 / left.sqrt();
    (scaled as usize).clamp(least, most)
}

/// A group with settings that an operator might choose.
fn any_group(chance: &mut Chance, nodes: usize) -> Group {
    let mut sites = Vec::new();
    let mut left = nodes;
    while left > 0 {
        // One site is no group.
        let most = if sites.is_empty() { left - 1 } else { left };
        let here = chance.pick([1, 1, 1, 2, 2, 3]).min(most);
        sites.push(here);
        left -= here;
    }
    let names = &SITES[..sites.len()];
    let mut group = Group::new(names);
    for (name, nodes) in names.iter().zip(&sites) {
        group = group.with_nodes(name, *nodes);
    }
    if chance.below(3) == 0 {
        group = group.with_service("api-fra", "fra");
    }
    let mut set = |setting: &str, values: &[&str]| {
        let value = values[chance.place(values.len())];
        group = group.clone().with(setting, value);
    };
    set("group.rtt_tolerance", &["\"1ms\"", "\"5ms\"", "\"5ms\"", "\"20ms\""]);
    set("mep.keepalive", &["\"3s\"", "\"10s\"", "\"10s\""]);
    set("mep.rtt_interval", &["\"1s\"", "\"5s\"", "\"5s\""]);
    set("mep.down_delay", &["\"0s\"", "\"5s\"", "\"15s\"", "\"15s\""]);
    set("mep.max_age", &["\"30s\"", "\"60s\""]);
    set("probe.interval", &["\"3s\"", "\"5s\"", "\"5s\""]);
    set("probe.timeout", &["\"500ms\"", "\"2s\""]);
    set("probe.failed_rounds", &["1", "3", "3"]);
    set("probe.per_second", &["40", "500"]);
    set("probe.new_per_second", &["10", "100"]);
    set("probe.order", &["[\"ping\", \"dns-udp\", \"dns-tcp\"]", "[\"dns-udp\", \"ping\", \"dns-tcp\"]"]);
    set("ldns.idle_timeout", if nodes > FEW { &["\"40s\""] } else { &["\"40s\"", "\"60s\"", "\"180s\""] });
    set("ldns.cap", &["30", "300", "100000"]);
    set("monitor.interval", &["\"2s\"", "\"5s\""]);
    set("monitor.timeout", &["\"1s\""]);
    set("vserver.selection_tolerance", &["\"0ms\"", "\"0ms\"", "\"30ms\""]);
    set("vserver.all_down", &["\"all\"", "\"empty\"", "\"last_good\""]);
    set("vserver.drop_ldns_requests", &["false", "false", "true"]);
    set("vserver.local_method", &["\"lrtm\"", "\"round_robin\""]);
    if nodes > FEW {
        set("mep.metrics_interval", &["\"1s\"", "\"2s\""]);
    }
    group
}

/// Lets one site of every fourth group have less room than the others: it pushes out what they keep. That is drawn apart.
fn any_small_table(seed: u64, group: Group) -> Group {
    let mut chance = Chance::new(seed ^ 0x7ab1e);
    let place = chance.place(group.sites().len());
    let small = group.sites().nth(place).filter(|_| chance.below(4) == 0).map(str::to_owned);
    match small {
        Some(site) => group.with("ldns.cap", "300").with_at(&site, "ldns.cap", "30"),
        None => group,
    }
}

/// A resolver in a network of its own.
fn resolver(n: u32) -> IpAddr {
    if n % 4 == 3 {
        Ipv6Addr::from_bits(0x2001_0db8_0053 << 80 | u128::from(n) << 64 | 0x35).into()
    } else {
        Ipv4Addr::from_bits(0x0b00_0035 + (n << 8)).into()
    }
}

pub(super) fn any_rtt(chance: &mut Chance) -> Duration {
    chance.between(Duration::from_millis(1), Duration::from_millis(250))
}

#[allow(
    clippy::panic,
    reason = "a storm's group is made here: that it cannot be loaded is a mistake in this file"
)]
fn unreachable_group(errors: &config::Errors) -> ! {
    panic!("the group of a storm is refused: {errors}")
}
