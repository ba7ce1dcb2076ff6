//! Other authoritative servers, with the same zone: what four of them agree on is what resolvers live with.

use crate::fixture::ZONE;
use crate::packet::{query, rtype};
use lab::gslb::eventually;
use std::fs;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How long a server may take to load the zone.
const START: Duration = Duration::from_secs(20);

/// A server that runs until it is dropped.
pub struct Oracle {
    process: Child,
    _folder: TempDir,
}

/// How a server is started: its name, its program, its arguments, the name of its configuration, and where the zone goes.
struct Recipe {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    config: (&'static str, &'static str),
    zone: &'static str,
}

const RECIPES: [Recipe; 3] = [
    Recipe {
        name: "nsd",
        program: "nsd",
        arguments: &["-d", "-c", "FOLDER/nsd.conf"],
        config: ("nsd.conf", include_str!("../oracles/nsd.conf")),
        zone: "gslb.test.zone",
    },
    Recipe {
        name: "knot",
        program: "knotd",
        arguments: &["-c", "FOLDER/knot.conf"],
        config: ("knot.conf", include_str!("../oracles/knot.conf")),
        zone: "gslb.test.zone",
    },
    Recipe {
        name: "gdnsd",
        program: "gdnsd",
        arguments: &["-c", "FOLDER", "start"],
        config: ("config", include_str!("../oracles/gdnsd.conf")),
        zone: "zones/gslb.test",
    },
];

impl Oracle {
    /// The servers that can be started, if they are installed.
    pub fn names() -> impl Iterator<Item = &'static str> {
        RECIPES.iter().map(|recipe| recipe.name)
    }

    /// Starts one of them on this address, and returns when it answers.
    pub fn start(name: &str, address: SocketAddr) -> io::Result<Oracle> {
        let recipe = RECIPES.iter().find(|recipe| recipe.name == name);
        let recipe = recipe.ok_or_else(|| io::Error::other(format!("no server {name} is known")))?;
        let folder = tempfile::tempdir()?;
        let path = folder.path();
        for sub in ["zones", "run", "state"] {
            fs::create_dir(path.join(sub))?;
        }
        fs::write(path.join(recipe.zone), ZONE)?;
        let (file, text) = recipe.config;
        fs::write(path.join(file), filled(text, address, path))?;
        let arguments = recipe.arguments.iter().map(|argument| filled(argument, address, path));
        let mut command = Command::new(recipe.program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut oracle = Oracle { process: command.spawn()?, _folder: folder };
        let up = eventually("it answers or ends", START, || match oracle.process.try_wait() {
            Ok(None) => answers(address).then_some(true),
            _ => Some(false),
        });
        if up { Ok(oracle) } else { Err(io::Error::other(format!("{name} ended at once"))) }
    }

    /// Waits until it ends.
    pub fn wait(&mut self) -> io::Result<()> {
        self.process.wait().map(|_| ())
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // SIGTERM, so that its own children end with it.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

fn filled(text: &str, address: SocketAddr, folder: &Path) -> String {
    let text =
        text.replace("ADDRESS", &address.ip().to_string()).replace("PORT", &address.port().to_string());
    text.replace("FOLDER", &folder.display().to_string())
}

fn answers(address: SocketAddr) -> bool {
    let ask = || {
        let socket = UdpSocket::bind(("127.0.0.1", 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(200)))?;
        socket.connect(address)?;
        socket.send(&query("gslb.test", rtype::SOA).bytes())?;
        let mut reply = [0; 512];
        socket.recv(&mut reply).map(|_| reply[3] & 15 == 0)
    };
    ask().unwrap_or(false)
}
