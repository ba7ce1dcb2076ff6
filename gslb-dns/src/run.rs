//! `gslb-dns run` and `gslb-dns check`: from files to a running node and back to an exit code.

use crate::cli::ConfigArgs;
use crate::listen;
use crate::locations;
use crate::server::{Server, StartError};
use config::{Config, Errors, LbKind};
use mep_io::{Files, GroupName, Identity, IdentityError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit code of a command that did not do its work.
pub(crate) const FAILED: u8 = 1;

/// Why `run` ended before it began.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("{0}")]
    Config(Errors),
    #[error("group.name: {0}")]
    Group(gslb_types::NameError),
    #[error("certificate of this node: {0}")]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Start(#[from] StartError),
    /// A part of the node ended by itself; all of it was stopped.
    #[error("the node can't go on: {0}")]
    Failed(String),
    #[error("cannot start the runtime: {0}")]
    Runtime(io::Error),
    #[error("cannot listen to signals: {0}")]
    Signals(io::Error),
}

/// Reads a configuration with all files it names.
pub(crate) fn load(args: &ConfigArgs) -> Result<Config, Errors> {
    config::load(&args.config, &mut |path| std::fs::read(path), args.node.as_deref())
}

/// Checks a configuration, for people and for scripts: what `run` would refuse is refused here. On a machine without the
/// node's certificates, where the text of a group is written, say, they are left out.
pub(crate) fn check(args: &ConfigArgs) -> ExitCode {
    let config = match load(args) {
        Ok(config) => config,
        Err(errors) => {
            eprintln!("{errors}");
            return ExitCode::from(FAILED);
        }
    };
    match certificate_files(&config).find(|file| !file.exists()) {
        Some(missing) => {
            eprintln!("note: certificates are not checked: {} is not on this machine", missing.display());
        }
        None => {
            let identity = identity(&config).map_err(|error| error.to_string());
            let identity = identity.map(|identity| {
                if let Some((reason, _)) = identity.status().error {
                    eprintln!("note: the node would start, and no peer would talk to it: {reason}");
                }
            });
            let dns = config.dns.tls.as_ref().map_or(Ok(()), listen::check_tls);
            if let Err(error) = identity.and(dns.map_err(|error| error.to_string())) {
                eprintln!("{error}");
                return ExitCode::from(FAILED);
            }
        }
    }
    match config.databases.iter().find(|file| !file.exists()) {
        Some(missing) => {
            eprintln!("note: locations are not checked: {} is not on this machine", missing.display());
        }
        None => {
            if let Err(error) = locations::load(&config) {
                eprintln!("proximity.databases: {error}");
                return ExitCode::from(FAILED);
            }
        }
    }
    let Config { nodes, sites, zones, domains, services, .. } = &config;
    say!(
        "{}: fine: node {}, nodes {}, sites {}, zones {}, GSLB domains {}, services {}",
        args.config.display(),
        config.this_node().id,
        nodes.len(),
        sites.len(),
        zones.len(),
        domains.len(),
        services.len()
    );
    ExitCode::SUCCESS
}

fn certificate_files(config: &Config) -> impl Iterator<Item = &Path> {
    let mep = [&config.mep.ca, &config.mep.certificate, &config.mep.key];
    let dns = config.dns.tls.iter().flat_map(|tls| [&tls.certificate, &tls.key]);
    let here = config.lb_vservers.iter().filter(|lb| lb.site == config.this_site());
    let lb = here.filter_map(|lb| match &lb.kind {
        LbKind::Ssl { certificates } => Some(certificates),
        LbKind::Http | LbKind::Tcp { .. } => None,
    });
    let lb = lb.flatten().flat_map(|pair| [&pair.certificate, &pair.key]);
    mep.into_iter().chain(dns).chain(lb).map(PathBuf::as_path)
}

/// Runs a node until it is told to stop.
pub(crate) fn run(args: &ConfigArgs) -> Result<(), RunError> {
    let config = Arc::new(load(args).map_err(RunError::Config)?);
    let identity = Arc::new(identity(&config)?);
    raise_descriptor_limit(config.dns.tcp_connections, proxied(&config));
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let mut server = Server::start(config.clone(), identity).await?;
        let node = &config.this_node().id;
        let admin = server.admin.map(tracing::field::display);
        let icmp = &server.icmp;
        tracing::info!(
            %node, dns = ?server.dns, lb = ?server.lb, mep = %server.mep, admin, icmp_v4 = %icmp.v4, icmp_v6 = %icmp.v6, "node runs"
        );
        let reread = server.certificates();
        let failure = tokio::select! {
            () = signals.stopped(|| reread.notify_one()) => None,
            failure = server.failed() => Some(failure),
        };
        tracing::info!(%node, failure = failure.as_deref(), "node stops");
        server.stop().await;
        failure.map_or(Ok(()), |failure| Err(RunError::Failed(failure)))
    });
    // A look at files that hangs is not waited for.
    runtime.shutdown_timeout(Duration::from_millis(200));
    ended
}

/// The runtime of all commands.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, RunError> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(RunError::Runtime)
}

/// What the system or a person asks of the process.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// From here on signals no longer end the process by themselves: to be called before there is anything to stop in order.
    pub(crate) fn listen() -> Result<Self, RunError> {
        let listen = |kind| signal(kind).map_err(RunError::Signals);
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Returns when the process is asked to stop: SIGTERM, or Ctrl-C. SIGHUP means "read your files again" everywhere: a
    /// node does so with its certificate for peers, and can't with its configuration nor with that of DNS over TLS.
    pub(crate) async fn stopped(&mut self, hung_up: impl Fn()) {
        loop {
            tokio::select! {
                biased;
                _ = self.hangup.recv() => {
                    tracing::warn!(
                        "SIGHUP: the certificate for peers is read again; all else is read at the start only: restart to take \
                         changes"
                    );
                    hung_up();
                }
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
            }
        }
    }
}

/// The certificate of this node, from the files of the configuration. One whose time is over keeps no node from serving DNS.
pub(crate) fn identity(config: &Config) -> Result<Identity, RunError> {
    let group: GroupName = config.group.name.parse().map_err(RunError::Group)?;
    let files = Files {
        ca: config.mep.ca.clone(),
        certificate: config.mep.certificate.clone(),
        key: config.mep.key.clone(),
    };
    Ok(Identity::load_at_start(&files, &group, &config.this_node().id)?)
}

/// Descriptors for all but DNS clients: unfinished handshakes with peers take more than half, the admin API's connections a quarter,
/// checks and probes under way the rest.
const OTHER_DESCRIPTORS: u64 = 576;

/// Client connections that the LB virtual servers of this node may have at once.
fn proxied(config: &Config) -> usize {
    let here = config.lb_vservers.iter().filter(|lb| lb.site == config.this_site());
    here.map(|lb| lb.max_connections).fold(0, usize::saturating_add)
}

/// A probe or a TCP client takes a descriptor; the usual soft limit of 1024 is far below the hard one. Where that is too low
/// as well, DNS clients over TCP could take all there are: monitors and the admin API would stand still.
/// An LB virtual server needs two for each client: its own and the service's.
fn raise_descriptor_limit(tcp_connections: usize, proxied: usize) {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let raised = if soft < hard { setrlimit(Resource::RLIMIT_NOFILE, hard, hard) } else { Ok(()) };
    if let Err(error) = raised {
        tracing::warn!(%error, soft, hard, "the limit of open files could not be raised");
    }
    let limit = if raised.is_ok() { hard } else { soft };
    let clients = tcp_connections.saturating_add(proxied.saturating_mul(2));
    let needed = u64::try_from(clients).unwrap_or(u64::MAX).saturating_add(OTHER_DESCRIPTORS);
    if limit < needed {
        tracing::warn!(
            limit,
            needed,
            tcp_connections,
            proxied,
            "DNS clients over TCP and clients of LB virtual servers can take all descriptors: raise the limit of open files or lower \
             dns.tcp_connections and max_connections of lb_vservers"
        );
    }
}
