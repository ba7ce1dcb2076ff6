//! A node of one site, with the listeners of the comparison as its LB virtual servers. On one CPU it takes one worker thread.

use super::{Listeners, OURS, PORTS, services::SERVICES};
use crate::gslb::certificates;
use crate::process::{Process, Role};
use crate::{Cpus, Failure, Interrupt, ports};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How long it may take to start, and to find its services up.
const START: Duration = Duration::from_secs(15);

/// The method is the one that haproxy calls leastconn; services have no monitors, as haproxy's have no checks.
const CONFIG: &str = r#"
version = 1
[group]
name = "bench"
[dns]
listen = ["OURS:DNS_PORT"]
udp_threads = 1
[admin]
listen = "OURS:ADMIN_PORT"
[mep]
listen = "OURS:MEP_PORT"
ca = "pki/ca.crt"
certificate = "pki/{site}-{node}.crt"
key = "pki/{site}-{node}.key"
[[sites]]
name = "s1"
[[nodes]]
name = "s1/1"
mep = "OURS:MEP_PORT"
[[zones]]
name = "example.com"
records = '''
@ SOA ns1 hostmaster 1 2h 30m 3d 15m
@ NS ns1
ns1 A 192.0.2.53
'''
"#;

/// Starts it with its files in `folder`, and waits until it listens.
pub(crate) fn start(
    program: &Path,
    folder: &Path,
    (certificate, key): (&str, &str),
    services: [SocketAddr; SERVICES],
    cpus: Cpus,
    interrupt: &Interrupt,
) -> Result<(Process, Listeners), Failure> {
    let listeners = Listeners::free(OURS)?;
    let file = folder.join("group.toml");
    let text = config(&listeners, own_ports()?, services);
    let files =
        [(file.clone(), text.as_str()), (folder.join("www.crt"), certificate), (folder.join("www.key"), key)];
    for (file, text) in &files {
        fs::write(file, text).map_err(Failure::system(file.display().to_string()))?;
    }
    certificates(program, folder, &["s1/1"])?;
    let mut command = Command::new(program);
    command.args(["--log", "warn", "run"]).arg(&file).args(["--node", "s1/1"]);
    let mut process = Process::start("gslb-dns", &mut command, folder, cpus, Role::Measured)?;
    process.wait_until(START, interrupt, || listeners.missing())?;
    Ok((process, listeners))
}

/// Ports for DNS, MEP and the admin API.
fn own_ports() -> Result<[u16; 3], Failure> {
    let free = || ports::free(&[OURS]).map_err(Failure::system("a free port"));
    Ok([free()?, free()?, free()?])
}

fn config(listeners: &Listeners, [dns, mep, admin]: [u16; 3], services: [SocketAddr; SERVICES]) -> String {
    let words = [("DNS_PORT", dns), ("MEP_PORT", mep), ("ADMIN_PORT", admin)];
    let mut text = words.into_iter().fold(CONFIG.replace("OURS", &OURS.to_string()), |text, (word, port)| {
        text.replace(word, &port.to_string())
    });
    for (n, address) in services.iter().enumerate() {
        let (ip, port) = (address.ip(), address.port());
        text += &format!("[[services]]\nname = \"s{n}\"\nsite = \"s1\"\naddress = \"{ip}\"\nport = {port}\n");
    }
    let names: Vec<String> = (0..services.len()).map(|n| format!("\"s{n}\"")).collect();
    let kinds: [&str; PORTS] = ["http", "ssl", "tcp"];
    for (kind, listen) in kinds.into_iter().zip(listeners.all()) {
        text += &format!(
            "[[lb_vservers]]\nname = \"{kind}\"\nsite = \"s1\"\nkind = \"{kind}\"\nlisten = [\"{listen}\"]\n\
             method = \"least_connections\"\nstartup_rr_factor = 0\nservices = [{}]\n",
            names.join(", ")
        );
        if kind == "ssl" {
            text += "certificates = [{ certificate = \"www.crt\", key = \"www.key\" }]\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_node_takes_the_configuration() {
        let at = |port| SocketAddr::from((OURS, port));
        let listeners = Listeners { http: at(1001), ssl: at(1002), tcp: at(1003) };
        let service = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let text = config(&listeners, [1053, 2053, 3053], [service(81), service(82), service(83)]);
        let loaded = config::load(Path::new("group.toml"), &mut |_| Ok(text.clone().into()), Some("s1/1"));
        let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(loaded.lb_vservers.len(), PORTS);
    }
}
