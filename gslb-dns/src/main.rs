//! `gslb-dns`: the GSLB DNS server, one process per node, and the command line to look at it.

/// Prints a line. That nobody reads it any more, as in `gslb-dns check FILE | head`, changes nothing about what was done;
/// `println!` would panic.
macro_rules! say {
    ($($line:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($line)*);
    }};
}

mod cli;
mod client;
mod clock;
mod demo;
mod identity;
mod listen;
mod local;
mod locations;
mod node_task;
mod pki;
mod run;
mod server;
mod tasks;

use clap::Parser;
use cli::{AdminArgs, Cli, Command};
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::EnvFilter;

/// What is logged unless `--log` says otherwise.
const DEFAULT_LOG: &str = "info";

/// Appended to what is logged by default. The QUIC library warns of packets it can't send, to a peer whose network is down,
/// and of packets from strangers that make no sense: nothing an operator could act on, and what keeps a peer away is told by
/// its state.
const QUIET: &str = ",quinn_udp=error,quinn_proto=error";

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Writes what is still waiting when it is dropped.
    let _log = match start_log(&cli) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("gslb-dns: --log: {error}");
            return ExitCode::from(2);
        }
    };
    let done = match cli.command {
        Command::Run(args) => run::run(&args).map_err(|error| error.to_string()),
        Command::Check(args) => return run::check(&args),
        Command::Demo(args) => demo::run(&args).map_err(|error| error.to_string()),
        Command::Pki(command) => pki::run(&command).map_err(|error| error.to_string()),
        Command::Ask(command) => return ask(command, &cli.admin),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gslb-dns: {error}");
            ExitCode::from(run::FAILED)
        }
    }
}

fn ask(command: client::Command, admin: &AdminArgs) -> ExitCode {
    match run::runtime() {
        Ok(runtime) => runtime.block_on(client::run(command, admin.admin, admin.json)),
        Err(error) => {
            eprintln!("gslb-dns: {error}");
            ExitCode::from(run::FAILED)
        }
    }
}

/// Logs go to standard error, so that tables and JSON have standard output to themselves. They are written by a thread of
/// their own: whoever does not read them loses lines and stalls nobody (faults I-66).
fn start_log(cli: &Cli) -> Result<WorkerGuard, tracing_subscriber::filter::ParseError> {
    let default = match cli.command {
        Command::Run(_) => DEFAULT_LOG,
        Command::Check(_) | Command::Demo(_) | Command::Pki(_) | Command::Ask(_) => "warn",
    };
    let default = format!("{default}{QUIET}");
    let filter = EnvFilter::builder().parse(cli.log.as_deref().unwrap_or(&default))?;
    let (writer, guard) = tracing_appender::non_blocking(io::stderr());
    let format = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    let format = format.with_ansi(io::stderr().is_terminal());
    if cli.log_json {
        format.json().init()
    } else {
        format.init()
    }
    Ok(guard)
}
