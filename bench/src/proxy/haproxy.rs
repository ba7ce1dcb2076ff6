//! HAProxy with the listeners of the comparison, on one thread.

use super::{Listeners, PORTS, services::SERVICES};
use crate::process::{Process, Role};
use crate::{Cpus, Failure, Interrupt};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How long it may take to start.
const START: Duration = Duration::from_secs(10);

/// As its manual recommends for a proxy in front of services that keep connections; nothing is logged.
const CONFIG: &str = "
global
  nbthread 1
  maxconn 4000
defaults
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  balance leastconn
frontend http
  mode http
  bind HTTP
  option forwardfor
  default_backend http
frontend ssl
  mode http
  bind SSL ssl crt PEM
  option forwardfor
  default_backend http
backend http
  mode http
SERVERS
listen tcp
  mode tcp
  bind TCP
SERVERS
";

/// Starts it with its files in `folder`, and waits until it listens.
pub(crate) fn start(
    program: &Path,
    folder: &Path,
    pem: &str,
    services: [SocketAddr; SERVICES],
    cpus: Cpus,
    interrupt: &Interrupt,
) -> Result<(Process, Listeners), Failure> {
    let listeners = Listeners::free(super::THEIRS)?;
    let (file, crt) = (folder.join("haproxy.cfg"), folder.join("bench.pem"));
    let text = config(&listeners, &crt, services);
    fs::write(&crt, pem)
        .and_then(|()| fs::write(&file, text))
        .map_err(Failure::system(file.display().to_string()))?;
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(&file);
    let mut process = Process::start("haproxy", &mut command, folder, cpus, Role::Measured)?;
    process.wait_until(START, interrupt, || listeners.missing())?;
    Ok((process, listeners))
}

fn config(listeners: &Listeners, pem: &Path, services: [SocketAddr; SERVICES]) -> String {
    let servers = services.iter().enumerate().map(|(n, address)| format!("  server s{n} {address}\n"));
    let servers: String = servers.collect();
    let [http, ssl, tcp]: [String; PORTS] = listeners.all().map(|address| format!("bind {address}"));
    CONFIG
        .replace("bind HTTP", &http)
        .replace("bind SSL", &ssl)
        .replace("bind TCP", &tcp)
        .replace("PEM", &pem.to_string_lossy())
        .replace("SERVERS\n", &servers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_has_its_value() {
        let address = |port| SocketAddr::from(([127, 61, 2, 1], port));
        let listeners = Listeners { http: address(1), ssl: address(2), tcp: address(3) };
        let text = config(&listeners, Path::new("/x/bench.pem"), [address(7), address(8), address(9)]);
        for line in ["bind 127.61.2.1:1\n", "bind 127.61.2.1:2 ssl crt /x/bench.pem\n", "bind 127.61.2.1:3\n"]
        {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(text.matches("  server s2 127.61.2.1:9\n").count(), 2, "{text}");
    }
}
