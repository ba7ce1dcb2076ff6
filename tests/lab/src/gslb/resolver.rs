//! Resolvers for probes to find: as little of one as a probe can tell.

use crate::{Lab, LabError};
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often an idle resolver looks whether it shall end.
const LOOK: Duration = Duration::from_millis(50);

/// How long a port may look served after its resolver has ended.
const FREE: Duration = Duration::from_secs(5);

/// Answers on port 53 of both addresses of a node until it is dropped.
pub struct Resolver {
    stop: Arc<AtomicBool>,
    served: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Resolver {
    /// Answers every query over UDP with this rcode and no records.
    pub fn udp(lab: &Lab, node: &str, rcode: u8) -> Result<Resolver, LabError> {
        Self::start(lab, node, move |address| {
            let socket = UdpSocket::bind((address, 53))?;
            socket.set_read_timeout(Some(LOOK))?;
            Ok(move || reply(&socket, rcode))
        })
    }

    /// Accepts connections over TCP and closes them.
    pub fn tcp(lab: &Lab, node: &str) -> Result<Resolver, LabError> {
        Self::start(lab, node, |address| {
            let listener = TcpListener::bind((address, 53))?;
            // It holds for accept(2) as well (socket(7)).
            SockRef::from(&listener).set_read_timeout(Some(LOOK))?;
            Ok(move || listener.accept().map(|_| ()))
        })
    }

    /// Queries answered, or connections accepted.
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    fn start<S>(
        lab: &Lab,
        node: &str,
        open: impl Fn(IpAddr) -> io::Result<S> + Clone + Send + 'static,
    ) -> Result<Resolver, LabError>
    where
        S: FnMut() -> io::Result<()> + Send + 'static,
    {
        let mut resolver = Resolver { stop: Arc::default(), served: Arc::default(), threads: Vec::new() };
        for address in [IpAddr::V4(lab.v4(node)), IpAddr::V6(lab.v6(node))] {
            let (stop, served, open) = (resolver.stop.clone(), resolver.served.clone(), open.clone());
            // The thread stays in the namespace: see `wait_until_free`.
            let start = move || {
                let serve = open(address)?;
                Ok::<_, io::Error>(thread::spawn(move || {
                    serve_until(&stop, &served, serve);
                    wait_until_free(|| open(address));
                }))
            };
            let started = lab.in_namespace(node, start)?;
            resolver.threads.push(started.map_err(LabError::system(format!("resolver at {address}")))?);
        }
        Ok(resolver)
    }
}

fn serve_until(stop: &AtomicBool, served: &AtomicU64, mut serve: impl FnMut() -> io::Result<()>) {
    while !stop.load(Ordering::Relaxed) {
        // A time-out or a client's error: there will be others.
        if serve().is_ok() {
            served.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Waits until the closed socket is closed everywhere: a process that this one forks at the same time has it too until
/// it executes its program, and until then the port looks served.
fn wait_until_free<S>(open: impl Fn() -> io::Result<S>) {
    let start = Instant::now();
    while open().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) && start.elapsed() < FREE {
        thread::sleep(Duration::from_millis(2));
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn reply(socket: &UdpSocket, rcode: u8) -> io::Result<()> {
    let mut message = [0; 4096];
    let (length, client) = socket.recv_from(&mut message)?;
    let Some([_, _, flags, code, ..]) = message.get_mut(..length) else { return Ok(()) };
    // QR, the opcode and RD as they came; RA and the rcode.
    *flags |= 0x80;
    *code = 0x80 | (rcode & 0x0f);
    socket.send_to(message.get(..length).unwrap_or_default(), client).map(|_| ())
}
