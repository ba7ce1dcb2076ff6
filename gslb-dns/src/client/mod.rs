//! The command line's side of the admin API.

use clap::Subcommand;
use std::net::SocketAddr;
use std::process::ExitCode;

/// What can be asked of a running node.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {}

/// Asks, prints, and says by the exit code how it went.
pub(crate) async fn run(command: Command, _address: SocketAddr, _json: bool) -> ExitCode {
    match command {}
}
