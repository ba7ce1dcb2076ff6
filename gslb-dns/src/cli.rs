//! The command line.

use clap::{Args, Parser, Subcommand};
use gslb_types::NodeId;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where the admin API listens unless configured otherwise.
const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8053);

/// GSLB DNS server: answers with the site nearest to the resolver that asks.
#[derive(Parser, Debug)]
#[command(name = "gslb-dns", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to log: error, warn, info, debug, trace, or targets with levels as in "info,mep_core=debug".
    #[arg(long, global = true, env = "GSLB_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// Log as JSON lines.
    #[arg(long, global = true)]
    pub(crate) log_json: bool,
    #[command(flatten)]
    pub(crate) admin: AdminArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a node.
    Run(ConfigArgs),
    /// Check a configuration: prints every error with its place and what would be right; exit code 1 if there is one.
    Check(ConfigArgs),
    /// Run three nodes and three resolvers on loopback, and print what to try.
    Demo(DemoArgs),
    /// Make the certificates nodes know each other by.
    #[command(subcommand)]
    Pki(Pki),
    #[command(flatten)]
    Ask(crate::client::Command),
}

#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    /// The configuration file.
    pub(crate) config: PathBuf,
    /// Which node of the group this is, as SITE/NODE; overrides `node` in the file.
    #[arg(long, value_name = "SITE/NODE")]
    pub(crate) node: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// DNS port of the first node. The demonstration uses the hundred ports from here, on loopback addresses.
    #[arg(long, default_value_t = 5301)]
    pub(crate) port: u16,
    /// Seconds until one resolver moves away from its site.
    #[arg(long, default_value_t = 60)]
    pub(crate) change_after: u64,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Pki {
    /// Make the CA of a group in a folder: ca.crt goes to every node, ca.key stays where nodes are made.
    Init {
        /// The folder; made if it is not there.
        dir: PathBuf,
        /// The group's name, as in `group.name` of the configuration.
        #[arg(long)]
        group: String,
    },
    /// Make key and certificate of a node, signed by the CA in the same folder.
    Issue {
        /// The folder of the CA.
        dir: PathBuf,
        /// The node, as SITE/NODE.
        node: NodeId,
        /// How many days the certificate is valid.
        #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..))]
        days: u32,
        /// Replace the node's key and certificate if they are there.
        #[arg(long)]
        renew: bool,
    },
}

/// Where a client finds the node.
#[derive(Args, Debug, Clone)]
pub(crate) struct AdminArgs {
    /// Address of the node's admin API.
    #[arg(long, global = true, env = "GSLB_ADMIN", default_value_t = ADMIN, value_name = "ADDRESS:PORT")]
    pub(crate) admin: SocketAddr,
    /// Print the API's JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}
