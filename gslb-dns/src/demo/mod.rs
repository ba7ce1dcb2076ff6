//! `gslb-dns demo`: three real nodes and three resolvers on loopback, with commands to try.
//!
//! Everything is as in production but for the resolvers, which wait before they answer by how far the asking site is said to
//! be, and for unprivileged ports.

mod world;

use crate::cli::{ConfigArgs, DemoArgs};
use crate::run::{self, RunError, Signals};
use crate::server::Server;
use gslb_types::{Ldns, Reach, SiteIndex};
use mep_io::pki::{self, Overwrite, PkiError, Validity};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use world::{Distances, SITE_NAMES, SITES};

/// The group's configuration; PORT and PORT+n stand for numbers.
const GROUP: &str = include_str!("group.toml");

/// The GSLB domain that is asked for.
const NAME: &str = "www.demo.example";

/// Where each resolver stands: round trips in milliseconds to fra, iad and sin.
const DISTANCES: [[u32; SITES]; 3] = [[8, 90, 160], [95, 12, 220], [170, 230, 15]];

/// Where the first resolver moves to.
const MOVED: [u32; SITES] = [140, 150, 20];

/// How often each resolver asks again, so that the sites go on measuring it.
const ASKS_AGAIN: Duration = Duration::from_secs(30);

/// How long the first measurements may take.
const WARM_UP: Duration = Duration::from_secs(30);

/// Why the demonstration ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    #[error("the demonstration's folder: {0}")]
    Folder(io::Error),
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{0}; is another demonstration running? --port takes other ports")]
    Start(#[from] crate::server::StartError),
    #[error("--port {0}: must be 1024 to 65435, so that a hundred ports follow")]
    Port(u16),
    #[error("{what} on {address}: {error}; --port takes other ports")]
    World { what: &'static str, address: SocketAddr, error: io::Error },
    #[error("the sites have not measured the resolvers within {WARM_UP:?}")]
    NotMeasured,
}

/// Runs until Ctrl-C.
pub(crate) fn run(args: &DemoArgs) -> Result<(), DemoError> {
    if !(1024..=u16::MAX - 100).contains(&args.port) {
        return Err(DemoError::Port(args.port));
    }
    let folder = tempfile::Builder::new().prefix("gslb-demo-").tempdir().map_err(DemoError::Folder)?;
    write_files(folder.path(), args.port)?;
    run::runtime()?.block_on(async {
        let mut signals = Signals::listen()?;
        let demo = Demo::start(folder.path(), args.port).await?;
        tokio::select! {
            result = demo.play(args.change_after) => result?,
            () = signals.stopped(|| ()) => say!("\nStopping."),
        }
        demo.stop().await;
        Ok(())
    })
}

fn write_files(folder: &Path, port: u16) -> Result<(), DemoError> {
    let group = "demo".parse().map_err(RunError::Group)?;
    let pki = folder.join("pki");
    pki::init(&pki, &group)?;
    for site in SITE_NAMES {
        let node = format!("{site}/1").parse().map_err(RunError::Group)?;
        pki::issue(&pki, &node, Validity::days(30), Overwrite::No)?;
    }
    std::fs::write(folder.join("gslb.toml"), with_ports(GROUP, port)).map_err(DemoError::Folder)
}

/// The text with `PORT+n` and `PORT` replaced by numbers.
fn with_ports(text: &str, port: u16) -> String {
    let mut pieces = text.split("PORT");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.strip_prefix('+').unwrap_or(piece);
        let digits =
            if rest.len() < piece.len() { rest.chars().take_while(char::is_ascii_digit).count() } else { 0 };
        let (offset, rest) = rest.split_at(digits);
        // The nodes' ports begin at the one given: PORT+1 is the first.
        let offset = offset.parse::<u16>().map_or(0, |offset| offset.saturating_sub(1));
        out.push_str(&(port.saturating_add(offset)).to_string());
        out.push_str(rest);
    }
    out
}

struct Demo {
    servers: Vec<Server>,
    distances: Vec<Distances>,
    world: JoinSet<()>,
    folder: String,
    port: u16,
}

impl Demo {
    async fn start(folder: &Path, port: u16) -> Result<Self, DemoError> {
        let distances: Vec<Distances> = DISTANCES.map(Distances::new).into();
        let mut demo = Demo {
            servers: Vec::new(),
            world: JoinSet::new(),
            folder: folder.display().to_string(),
            distances,
            port,
        };
        demo.surround().await?;
        for site in SITE_NAMES {
            let args = ConfigArgs { config: folder.join("gslb.toml"), node: Some(format!("{site}/1")) };
            let config = Arc::new(run::load(&args).map_err(RunError::Config)?);
            let identity = Arc::new(run::identity(&config)?);
            demo.servers.push(Server::start(config, identity).await?);
        }
        Ok(demo)
    }

    /// Starts resolvers and web servers.
    async fn surround(&mut self) -> Result<(), DemoError> {
        let (resolver_port, web_port) = (self.port + 98, self.port + 79);
        for (index, distances) in self.distances.iter().enumerate() {
            let resolver = world::Resolver::bind(index, resolver_port, distances.clone()).await;
            let address = (world::resolver(index), resolver_port).into();
            let resolver =
                resolver.map_err(|error| DemoError::World { what: "a resolver", address, error })?;
            self.world.spawn(resolver.run());
        }
        for site in 0..SITES {
            let web = world::Web::bind(site, web_port).await;
            let address = (world::web(site), web_port).into();
            let web = web.map_err(|error| DemoError::World { what: "a web server", address, error })?;
            self.world.spawn(web.run());
        }
        Ok(())
    }

    async fn play(&self, change_after: u64) -> Result<(), DemoError> {
        say!("Three nodes start; three resolvers ask once, and every site measures its way to them ...");
        self.warm_up().await?;
        self.introduce(change_after);
        let change = async {
            tokio::time::sleep(Duration::from_secs(change_after)).await;
            self.change();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = change => {}
            () = self.keep_asking() => {}
        }
        Ok(())
    }

    /// Returns when every site has measured every resolver, every node knows it, and every web server was checked.
    async fn warm_up(&self) -> Result<(), DemoError> {
        let measured = async {
            loop {
                self.ask_all().await;
                for _ in 0..20 {
                    if self.all_known() {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        };
        tokio::time::timeout(WARM_UP, measured).await.map_err(|_| DemoError::NotMeasured)
    }

    async fn ask_all(&self) {
        for index in 0..DISTANCES.len() {
            // The answer does not matter here, and a lost one is asked for again.
            let _ = world::ask(world::resolver(index), self.dns(index % SITES), NAME).await;
        }
    }

    async fn keep_asking(&self) {
        loop {
            tokio::time::sleep(ASKS_AGAIN).await;
            self.ask_all().await;
        }
    }

    fn all_known(&self) -> bool {
        let sites = || (0..SITES).filter_map(SiteIndex::new);
        self.servers.iter().all(|server| {
            let rows =
                (0..DISTANCES.len()).map(|r| server.shared.rtts.row(Ldns::exact(world::resolver(r).into())));
            let known = rows
                .flatten()
                .filter(|row| sites().all(|site| matches!(row.cell(site).reach(), Reach::Known(_))));
            let published = server.shared.published.load();
            let up = published.services.iter().all(|service| service.state == gslb_types::ServiceState::Up);
            up && known.count() == DISTANCES.len()
        })
    }

    fn introduce(&self, change_after: u64) {
        say!("\n  site  node   DNS              admin API        web server");
        for (site, server) in self.servers.iter().enumerate() {
            let admin = server.admin.map(|a| a.to_string()).unwrap_or_default();
            let name = SITE_NAMES[site];
            let web = SocketAddr::new(world::web(site).into(), self.port + 79);
            say!("  {name:5} {name}/1  {:16} {admin:16} {web}", self.dns(site).to_string());
        }
        say!("\n  resolver     round trip to fra, iad, sin");
        for (index, distances) in self.distances.iter().enumerate() {
            let [fra, iad, sin] = distances.get();
            say!("  {:12} {fra} ms, {iad} ms, {sin} ms", world::resolver(index).to_string());
        }
        say!("\nAsk any node, as any resolver (-b is who asks):\n");
        for (index, near) in SITE_NAMES.iter().enumerate() {
            let node = self.dns((index + 1) % SITES);
            say!("  {}    # nearest: {near}, {}", dig(world::resolver(index), node), world::web(index));
        }
        let admin = self.servers.first().and_then(|s| s.admin).map(|a| a.to_string()).unwrap_or_default();
        say!("\nSee why, and who knows what:\n");
        say!("  curl -s 'http://{admin}/v1/explain?name={NAME}&type=A&ldns={}'", world::resolver(0));
        say!("  curl -s http://{admin}/v1/peers");
        let program = program();
        say!("  {program} --admin {admin} explain {NAME} --ldns {}", world::resolver(0));
        say!("  {program} --admin {admin} ldns");
        say!("  {program} --admin {admin} peers --watch");
        say!("\nConfiguration and certificates of this group: {}", self.folder);
        say!("In {change_after} s resolver {} moves. Ctrl-C stops everything.", world::resolver(0));
    }

    fn change(&self) {
        let Some(first) = self.distances.first() else { return };
        let before = first.get();
        first.set(MOVED);
        say!("\nResolver {} has moved: {before:?} ms are now {MOVED:?} ms.", world::resolver(0));
        say!("Within 10 s every node answers it with sin, {}:\n", world::web(2));
        say!("  {}", dig(world::resolver(0), self.dns(0)));
    }

    fn dns(&self, site: usize) -> SocketAddr {
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        self.servers.get(site).and_then(|s| s.dns.first()).copied().unwrap_or(nowhere)
    }

    async fn stop(mut self) {
        self.world.shutdown().await;
        for server in self.servers {
            server.stop().await;
        }
    }
}

/// This program, as it can be called from the current folder.
fn program() -> String {
    let Ok(program) = std::env::current_exe() else { return "gslb-dns".to_owned() };
    let here = std::env::current_dir().ok().and_then(|here| program.strip_prefix(here).ok());
    here.unwrap_or(&program).display().to_string()
}

fn dig(resolver: Ipv4Addr, node: SocketAddr) -> String {
    format!("dig +short -b {resolver} @{} -p {} {NAME}", node.ip(), node.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_counted_from_the_one_given() {
        assert_eq!(with_ports("a PORT+1 b \"127.0.0.1:PORT+91\"\n", 5301), "a 5301 b \"127.0.0.1:5391\"\n");
        assert_eq!(with_ports("no port", 5301), "no port");
    }
}
