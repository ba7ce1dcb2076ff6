//! The command line's side of the admin API: asks a running node, and prints tables for people or JSON for programs.
//!
//! It decides nothing: what is printed, and what is wrong with a node, is what the node says.

mod domains;
mod events;
mod explain;
mod fetch;
mod ldns;
mod peers;
mod services;
mod sites;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod watch;

use clap::{Subcommand, ValueEnum};
use fetch::{FetchError, Node, escaped};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

/// The exit code for a node that is not well, and for what it does not know.
const UNHEALTHY: u8 = 1;
/// The exit code for arguments that the node refuses, as clap's for those it refuses itself.
const USAGE: u8 = 2;
/// The exit code for a node that can't be reached.
const UNREACHABLE: u8 = 3;

/// What can be asked of a running node.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Show how a node is, and what is wrong with it.
    #[command(
        after_help = "Exit code: 0 if all is well; 1 if not: the node task is stuck, a peer has no session or other \
                            settings, a link of others fails, a site is silent or held down, a service is down, a \
                            peer's RTTs are implausible, a certificate expires within two weeks or can't be \
                            renewed; 3 if the node can't be reached."
    )]
    Status,
    /// Show the other nodes of the group.
    Peers {
        /// Show every change at once, and the last ones with their reasons, until Ctrl-C. With --json: a line for each.
        #[arg(long)]
        watch: bool,
        /// Show who hears whom: what each node of the group says of its links.
        #[arg(long)]
        matrix: bool,
    },
    /// Show the RTT table, or what is known of one LDNS.
    Ldns {
        /// The LDNS.
        ip: Option<IpAddr>,
        /// Rows at most.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000), conflicts_with = "ip")]
        limit: u16,
        /// Only rows after this address: the next page.
        #[arg(long, value_name = "IP", conflicts_with = "ip")]
        after: Option<IpAddr>,
        /// Only what this site says.
        #[arg(long)]
        site: Option<String>,
    },
    /// Show what an LDNS would be answered now, and why.
    Explain {
        /// The GSLB domain.
        name: String,
        /// The resolver that would ask.
        #[arg(long, value_name = "IP")]
        ldns: IpAddr,
        /// The type it would ask for.
        #[arg(long = "type", value_enum, ignore_case = true, default_value_t = RecordType::A)]
        rtype: RecordType,
        /// The client subnet the query would carry. Domains with `ecs = true` go by it.
        #[arg(long, value_name = "PREFIX")]
        ecs: Option<String>,
    },
    /// Show the sites, who is heard how, and what silence does.
    Sites,
    /// Show the services, how they are, and who says so.
    Services,
    /// Show the GSLB domains.
    Domains,
}

/// The types that are answered by selection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum RecordType {
    /// IPv4.
    #[value(name = "A")]
    A,
    /// IPv6.
    #[value(name = "AAAA")]
    Aaaa,
}

/// Asks, prints, and says by the exit code how it went: 0, 1 when the node is not well or does not know, 2 when it refuses
/// the arguments, 3 when it can't be reached.
pub(crate) async fn run(command: Command, address: SocketAddr, json: bool) -> ExitCode {
    let format = if json { Format::Json } else { Format::Table };
    match answer(&command, address, format, &mut io::stdout()).await {
        Ok(code) => ExitCode::from(code),
        // Whoever closes the pipe has read enough.
        Err(Failed::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failed) => {
            // Nobody is left to be told if even this can't be written.
            let _ = writeln!(io::stderr(), "gslb-dns: {failed}");
            ExitCode::from(failed.code())
        }
    }
}

async fn answer(
    command: &Command,
    address: SocketAddr,
    format: Format,
    out: &mut impl Write,
) -> Result<u8, Failed> {
    let (question, node) = (Question::of(command), Node::at(address));
    match command {
        // Listened to from the beginning to the end, so that Ctrl-C counts while an answer is awaited, too.
        Command::Peers { watch: true, .. } => tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => Ok(0),
            failed = watch::watch(&question, &node, format, out) => failed,
        },
        _ => once(&question, &node, format, out).await,
    }
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("the node's answer is not understood; is it of another version? {0}")]
    NotUnderstood(#[from] serde_json::Error),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl Failed {
    fn code(&self) -> u8 {
        match self {
            Failed::Fetch(FetchError::Unreachable { .. } | FetchError::TimedOut { .. }) => UNREACHABLE,
            Failed::Fetch(FetchError::Refused { status: 400, .. }) => USAGE,
            Failed::Fetch(FetchError::Refused { .. } | FetchError::Broken { .. })
            | Failed::NotUnderstood(_)
            | Failed::Print(_) => UNHEALTHY,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Table,
    Json,
}

/// What a person is shown.
struct Shown {
    text: String,
    /// Whether the node says that something is wrong.
    healthy: bool,
}

impl Shown {
    /// Something that says nothing about health.
    fn plain(text: String) -> Self {
        Shown { text, healthy: true }
    }
}

/// What is asked of the API, and how its answer is shown.
struct Question {
    path: String,
    show: fn(&[u8]) -> Result<Shown, serde_json::Error>,
}

impl Question {
    fn of(command: &Command) -> Self {
        match command {
            Command::Status => Question { path: "/v1/status".to_owned(), show: status::show },
            Command::Peers { watch, matrix } => Question {
                path: "/v1/peers".to_owned(),
                show: match (matrix, watch) {
                    (true, _) => peers::show_matrix,
                    (false, true) => peers::show_changes,
                    (false, false) => peers::show,
                },
            },
            Command::Sites => Question { path: "/v1/sites".to_owned(), show: sites::show },
            Command::Services => Question { path: "/v1/services".to_owned(), show: services::show },
            Command::Domains => Question { path: "/v1/domains".to_owned(), show: domains::show },
            Command::Ldns { ip: Some(ip), site, .. } => Question {
                path: path(&format!("/v1/ldns/{ip}"), &[("site", site.clone())]),
                show: ldns::show,
            },
            Command::Ldns { ip: None, limit, after, site } => {
                let after = after.map(|ip| ip.to_string());
                let arguments =
                    [("limit", Some(limit.to_string())), ("after", after), ("site", site.clone())];
                Question { path: path("/v1/ldns", &arguments), show: ldns::show_page }
            }
            Command::Explain { name, ldns, rtype, ecs } => {
                let rtype = match rtype {
                    RecordType::A => "A",
                    RecordType::Aaaa => "AAAA",
                };
                let arguments = [
                    ("name", Some(name.clone())),
                    ("type", Some(rtype.to_owned())),
                    ("ldns", Some(ldns.to_string())),
                    ("ecs", ecs.clone()),
                ];
                Question { path: path("/v1/explain", &arguments), show: explain::show }
            }
        }
    }
}

/// A path with those arguments that are given.
fn path(path: &str, arguments: &[(&str, Option<String>)]) -> String {
    let given = arguments.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let query: Vec<String> = given.map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}

async fn once(question: &Question, node: &Node, format: Format, out: &mut impl Write) -> Result<u8, Failed> {
    let body = node.get(&question.path).await?;
    let shown = (question.show)(&body)?;
    match format {
        Format::Table => print(out, &shown.text)?,
        Format::Json => print(out, &json_line(&body))?,
    }
    Ok(if shown.healthy { 0 } else { UNHEALTHY })
}

/// The API's own JSON, as one line.
fn json_line(body: &[u8]) -> String {
    format!("{}\n", String::from_utf8_lossy(body).trim_end())
}

/// Unlike `print!`, without a panic when the reader has gone.
fn print(out: &mut impl Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    out.flush()
}
