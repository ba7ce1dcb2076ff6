//! A large group with large tables: how long until everybody knows everything, and what it costs on the wire.
//!
//! The nodes begin with their own column filled, as a node task does that takes over from one that failed, since measuring
//! hundreds of thousands of LDNS within the budgets takes the better part of an hour.

use crate::group::Group;
use crate::witness::Violation;
use crate::world::{HostIndex, World};
use gslb_core::{Cell, RttTable, Shared};
use gslb_types::{Ldns, ProbeKind, Reach, Rtt, SiteIndex, Timestamp};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// How long new entries are looked at in case something is missing; a node is at rest after it.
const REST: Duration = Duration::from_secs(10);

/// How often one looks whether all is told.
const LOOK: Duration = Duration::from_millis(100);

/// How long a sync may take before it is taken to come to no end.
const LONGEST: Duration = Duration::from_secs(300);

/// How many rows are compared in the end, column by column, at every node.
const COMPARED: u32 = 500;

/// A sync in figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// From the start of the nodes until the last one knew all.
    pub lasted: Duration,
    /// Frames sent by all nodes.
    pub frames: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// RTT rows told.
    pub rows: u64,
    /// Snapshots started anew because a peer read too slowly.
    pub resyncs: u64,
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.bytes as f64 / 1e6;
        write!(
            f,
            "full sync after {:.2} s; {} rows in {} frames, {megabytes:.1} MB, {:.1} bytes a row with its LDNS; {} resyncs",
            self.lasted.as_secs_f64(),
            self.rows,
            self.frames,
            self.bytes as f64 / self.rows.max(1) as f64,
            self.resyncs
        )
    }
}

/// Why a sync came to no end.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    /// The product refuses the group.
    #[error("the group is refused: {0}")]
    Group(String),
    /// An invariant was broken.
    #[error("{0}")]
    Broken(Violation),
    /// Somebody does not know all.
    #[error("{0}")]
    Incomplete(String),
}

/// The group.
pub struct Scale {
    world: World,
    rows: u32,
}

impl Scale {
    /// A group whose nodes know as many LDNS each, of which every site has measured its own way.
    pub fn new(nodes: usize, rows: u32) -> Result<Self, ScaleError> {
        let names: Vec<String> = (0..nodes).map(|n| format!("s{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let group = Group::new(&names)
            .with("ldns.cap", &rows.max(1000).to_string())
            .with("ldns.idle_timeout", "\"1h\"");
        let mut world = World::new(group, 1).map_err(|errors| ScaleError::Group(errors.to_string()))?;
        world.watch_less();
        world.coalesce(Duration::from_millis(50));
        world.internet().others = Some(rtt);
        Ok(Scale { world, rows })
    }

    /// A table as each node has it in the end, to measure what it takes.
    pub fn one_table(&self) -> RttTable {
        let sites = self.world.hosts().len();
        let table = RttTable::new(sites, 1);
        for n in 0..self.rows {
            let address = ldns(n);
            table.sighted(Ldns::exact(address), Timestamp::ZERO);
            for site in (0..sites).filter_map(SiteIndex::new) {
                let reach = Reach::Known(Rtt::from_duration(rtt(address, site.get())));
                table.write(Ldns::exact(address), site, Cell::new(reach, None, Timestamp::ZERO));
            }
        }
        table
    }

    /// How far everybody is, in a line.
    pub fn stands(&self) -> String {
        let published = self.world.hosts().iter().filter_map(|host| host.published());
        let synced =
            published.flat_map(|p| p.peers.iter().map(|peer| peer.snapshot_in.is_some()).collect::<Vec<_>>());
        let (done, all) = synced.fold((0, 0), |(done, all), is_done| (done + u32::from(is_done), all + 1));
        format!("{:?}, {done} of {all} snapshots", self.world.now())
    }

    /// Starts all nodes at once, and lets time pass until everybody knows everything. `told` hears how it gets on.
    pub fn sync_all(&mut self, told: impl Fn(&Scale)) -> Result<Sync, ScaleError> {
        let before = self.counts();
        for n in 0..self.world.hosts().len() {
            let (site, rows) = (self.world.hosts()[n].site(), self.rows);
            self.world.start_with(n, |shared| fill(shared, site, rows));
        }
        self.until_synced(before, told)
    }

    /// Starts the first nodes alone, each with all columns filled as after a sync with all of the group, and lets them tell one
    /// another theirs: to measure what a node takes without running them all. Time passes until they are synced and at rest.
    pub fn start_full(&mut self, nodes: usize) -> Result<(), ScaleError> {
        let (sites, rows) = (self.world.hosts().len(), self.rows);
        for n in 0..nodes {
            self.world.start_with(n, |shared| {
                (0..sites).filter_map(SiteIndex::new).for_each(|site| fill(shared, site, rows));
            });
        }
        let is_synced = |scale: &Scale| {
            scale.world.hosts().iter().filter_map(|host| host.published()).all(|published| {
                published.peers.iter().filter(|peer| peer.snapshot_in.is_some()).count() + 1 == nodes
            })
        };
        let began = self.world.now();
        while !is_synced(self) {
            if self.world.now().since(began) > LONGEST {
                return Err(ScaleError::Incomplete(self.stands()));
            }
            self.world.drive(LOOK);
        }
        self.world.drive(REST);
        self.world.violation().map_or(Ok(()), |violation| Err(ScaleError::Broken(violation.clone())))
    }

    /// How many rows the table of a node has that runs.
    pub fn rows_at(&self, n: HostIndex) -> Option<usize> {
        self.world.hosts().get(n)?.shared().map(|shared| shared.rtts.len())
    }

    /// Lets one node start anew with nothing, and time pass until it knows everything (bar R9).
    pub fn sync_one(&mut self, n: HostIndex, told: impl Fn(&Scale)) -> Result<Sync, ScaleError> {
        self.world.kill(n);
        self.world.drive(Duration::from_secs(12));
        let before = self.counts();
        self.world.start(n);
        self.until_synced(before, told)
    }

    fn until_synced(
        &mut self,
        before: (u64, u64, u64, u64),
        told: impl Fn(&Scale),
    ) -> Result<Sync, ScaleError> {
        let began = self.world.now();
        while let Some(what) = self.unknown() {
            if self.world.now().since(began) > LONGEST {
                return Err(ScaleError::Incomplete(what));
            }
            self.world.drive(LOOK);
            told(self);
            if let Some(violation) = self.world.violation() {
                return Err(ScaleError::Broken(violation.clone()));
            }
        }
        let after = self.counts();
        Ok(Sync {
            lasted: self.world.now().since(began),
            frames: after.0 - before.0,
            bytes: after.1 - before.1,
            rows: after.2.saturating_sub(before.2),
            resyncs: after.3.saturating_sub(before.3),
        })
    }

    /// Frames, bytes, rows, resyncs.
    fn counts(&self) -> (u64, u64, u64, u64) {
        let hosts = 0..self.world.hosts().len();
        let frames = hosts.clone().map(|n| self.world.witness().frames(n)).sum();
        let bytes = hosts.map(|n| self.world.witness().bytes(n)).sum();
        let published = self.world.hosts().iter().filter_map(|host| host.published());
        let (mut rows, mut resyncs) = (0, 0);
        for peer in published.flat_map(|p| p.peers.clone()) {
            rows += peer.rows_out;
            resyncs += peer.resyncs;
        }
        (frames, bytes, rows, resyncs)
    }

    /// What somebody does not know yet.
    fn unknown(&self) -> Option<String> {
        let lacking = self.world.hosts().iter().find_map(|host| {
            let (Some(shared), Some(published)) = (host.shared(), host.published()) else {
                return Some(format!("{} does not run", host.id()));
            };
            let told = published.peers.iter().filter(|peer| peer.snapshot_in.is_some()).count();
            let is_complete = shared.rtts.len() >= self.rows as usize && told == published.peers.len();
            (!is_complete).then(|| {
                format!("{} has {} rows, and {told} peers have told it all", host.id(), shared.rtts.len())
            })
        });
        lacking.or_else(|| self.wrong())
    }

    /// A value that is not what its site has measured. A site's own values are its own affair: after a start it measures them
    /// again, within its budgets.
    fn wrong(&self) -> Option<String> {
        let step = (self.rows / COMPARED).max(1);
        let sites = self.world.hosts().len();
        (0..self.rows).step_by(step as usize).find_map(|n| {
            let address = ldns(n);
            self.world.hosts().iter().find_map(|host| {
                let row = host.shared()?.rtts.row(Ldns::exact(address))?;
                let differs = |site: &usize| {
                    let known = SiteIndex::new(*site).map(|site| row.cell(site).reach());
                    known != Some(Reach::Known(Rtt::from_duration(rtt(address, *site))))
                };
                let site = (0..sites).filter(|site| *site != host.site().get()).find(differs)?;
                Some(format!("{} does not know the way of site {site} to {address}", host.id()))
            })
        })
    }
}

fn fill(shared: &Shared, site: SiteIndex, rows: u32) {
    let start = shared.published.load().at;
    for n in 0..rows {
        let address = ldns(n);
        let reach = Reach::Known(Rtt::from_duration(rtt(address, site.get())));
        shared.rtts.sighted(Ldns::exact(address), start);
        shared.rtts.write(Ldns::exact(address), site, Cell::measured(reach, Some(ProbeKind::Ping), start));
    }
}

/// The n-th LDNS; spread over networks, as real ones are.
fn ldns(n: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0b00_0000 + n.wrapping_mul(37)).into()
}

/// How far an LDNS is from a site: 5 to 250 ms, by no rule that one could see.
fn rtt(ldns: IpAddr, site: usize) -> Duration {
    let bits = match ldns {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => address.to_bits() as u32,
    };
    let mixed = (bits ^ (site as u32).wrapping_mul(0x85eb_ca6b)).wrapping_mul(0x9e37_79b1);
    Duration::from_micros(5_000 + u64::from(mixed >> 8) % 245_000)
}
