//! gdnsd, as it answers a name with one of four weighted addresses.

use crate::process::{Process, Role};
use crate::query::is_answer;
use crate::round::Server;
use crate::start::Starter;
use crate::{Cpus, Failure, Interrupt, NAME, Query, ports, query};
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How long it may take to start.
const START: Duration = Duration::from_secs(15);

/// Where it listens.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 61, 1, 1);

/// The receive buffer is what ours is; the default loses packets.
const CONFIG: &str = "
options => {
  listen => { ADDRESS => {} }
  udp_threads => 1
  tcp_threads => 1
  run_dir => FOLDER/run
  state_dir => FOLDER/state
  udp_rcvbuf => 1048576
  udp_sndbuf => 1048576
}
plugins => { weighted => {
  service_types => up
  www => { lb1 => [192.0.2.1, 10], lb2 => [192.0.2.2, 10], lb3 => [192.0.2.3, 10], lb4 => [192.0.2.4, 10] }
} }
";

const ZONE: &str = "
@ SOA ns1 hostmaster 1 2h 30m 3d 15m
@ NS ns1
ns1 A 192.0.2.53
static 30 A 192.0.2.1
www 30 DYNA weighted!www
";

/// A running gdnsd.
pub struct Gdnsd {
    process: Process,
    address: SocketAddrV4,
}

impl Gdnsd {
    /// Writes its files to `folder`; how to start it.
    pub fn starter(program: &Path, folder: &Path) -> Result<Starter, Failure> {
        let port = ports::free(&[ADDRESS]).map_err(Failure::system("a free port"))?;
        let address = SocketAddrV4::new(ADDRESS, port);
        write_files(folder, address).map_err(Failure::system(folder.display().to_string()))?;
        let arguments = ["-c".to_owned(), folder.to_string_lossy().into_owned(), "start".to_owned()];
        let (program, folder) = (program.to_owned(), folder.to_owned());
        Ok(Starter { name: Self::NAME, program, arguments: arguments.into(), folder, address })
    }

    /// Starts `program` with files in `folder` and waits until it answers.
    pub fn start(program: &Path, folder: &Path, cpus: Cpus, interrupt: &Interrupt) -> Result<Self, Failure> {
        let starter = Self::starter(program, folder)?;
        let address = starter.address;
        let mut command = Command::new(program);
        command.args(&starter.arguments);
        let mut process = Process::start("gdnsd", &mut command, folder, cpus, Role::Measured)?;
        process.wait_until(START, interrupt, || (!answers(address)).then(|| "no answer".to_owned()))?;
        Ok(Gdnsd { process, address })
    }
}

impl Server for Gdnsd {
    const NAME: &str = "gdnsd";

    fn address(&self) -> SocketAddrV4 {
        self.address
    }

    fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

fn write_files(folder: &Path, address: SocketAddrV4) -> std::io::Result<()> {
    for part in ["run", "state", "zones"] {
        fs::create_dir_all(folder.join(part))?;
    }
    let config = CONFIG.replace("ADDRESS", &address.to_string()).replace("FOLDER", &folder.to_string_lossy());
    fs::write(folder.join("config"), config)?;
    fs::write(folder.join("zones/example.com"), ZONE)
}

fn answers(address: SocketAddrV4) -> bool {
    let ask = || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(200)))?;
        socket.connect(address)?;
        socket.send(&query(NAME, Query::Plain))?;
        let mut reply = [0; 512];
        let len = socket.recv(&mut reply)?;
        std::io::Result::Ok(reply.get(..len).is_some_and(is_answer))
    };
    ask().unwrap_or(false)
}
