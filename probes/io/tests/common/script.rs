//! TCP servers that do as they are told, connection by connection, with or without TLS.

use super::figures::Late;
use super::ms;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a server does next with a connection.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Reads until this has come, and keeps it.
    Hear(&'static str),
    /// Waits, which counts.
    Wait(u64),
    /// Waits, which does not count.
    Idle(u64),
    /// Writes.
    Say(Vec<u8>),
    /// Writes byte by byte, so many ms apart, over and over.
    Drip(&'static [u8], u64),
    /// Does nothing until the other end is gone.
    Hold,
    /// Ends the connection by RST.
    Reset,
}

pub(crate) use Step::{Drip, Hear, Hold, Idle, Reset, Wait};

pub(crate) fn say(text: impl AsRef<[u8]>) -> Step {
    Step::Say(text.as_ref().to_vec())
}

/// A server of these steps, for as long as the process lives. At their end it closes the connection.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    /// How late it was with what it waited for.
    late: Late,
    heard: Arc<Mutex<Vec<String>>>,
}

/// How TLS is spoken: what the server has, and how long it lets a client wait before it.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) wait: u64,
    /// Whether that is part of the delay.
    pub(crate) counts: bool,
}

impl Server {
    pub(crate) fn start(address: IpAddr, steps: Vec<Step>) -> Self {
        Self::with(address, None, steps)
    }

    pub(crate) fn with(address: IpAddr, tls: Option<Tls>, steps: Vec<Step>) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let (addr, heard) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let (all, late) = (Arc::clone(&heard), Late::default());
        let its = late.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, steps, tls) = (stream.unwrap(), steps.clone(), tls.clone());
                let scene = Scene { steps, late: its.clone(), heard: Arc::clone(&all) };
                std::thread::spawn(move || serve(stream, tls, &scene));
            }
        });
        Server { addr, late, heard }
    }

    /// Where it is, and how late.
    pub(crate) fn at(&self) -> (SocketAddr, Late) {
        (self.addr, self.late.clone())
    }

    /// What clients have said, so far as a step waited for it.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

struct Scene {
    steps: Vec<Step>,
    late: Late,
    heard: Arc<Mutex<Vec<String>>>,
}

fn serve(stream: TcpStream, tls: Option<Tls>, scene: &Scene) {
    let _ = stream.set_nodelay(true);
    let plain = stream.try_clone().unwrap();
    let Some(tls) = tls else { return play(stream, &plain, scene) };
    // The delay is that of an answer to something.
    let _ = stream.peek(&mut [0]);
    match tls.counts {
        true => scene.late.sleep(ms(tls.wait)),
        false => std::thread::sleep(ms(tls.wait)),
    }
    let session = ServerConnection::new(tls.config).unwrap();
    let mut stream = StreamOwned::new(session, stream);
    // A client that refuses the certificate is gone.
    if stream.conn.complete_io(&mut stream.sock).is_ok() {
        play(stream, &plain, scene);
    }
    let _ = plain.shutdown(Shutdown::Both);
}

fn play(mut stream: impl Read + Write, plain: &TcpStream, scene: &Scene) {
    let mut pending = Vec::new();
    for step in &scene.steps {
        match step {
            Hear(text) => match read_until(&mut stream, text.as_bytes(), &mut pending) {
                Some(said) => scene.heard.lock().unwrap().push(said),
                None => return,
            },
            Wait(n) => scene.late.sleep(ms(*n)),
            Idle(n) => std::thread::sleep(ms(*n)),
            Step::Say(bytes) => {
                if stream.write_all(bytes).and_then(|()| stream.flush()).is_err() {
                    return;
                }
            }
            Drip(bytes, pause) => {
                for byte in bytes.iter().cycle() {
                    if stream.write_all(&[*byte]).and_then(|()| stream.flush()).is_err() {
                        return;
                    }
                    std::thread::sleep(ms(*pause));
                }
            }
            Hold => while matches!(stream.read(&mut [0; 256]), Ok(1..)) {},
            Reset => return SockRef::from(plain).set_linger(Some(Duration::ZERO)).unwrap(),
        }
    }
}

fn read_until(stream: &mut impl Read, end: &[u8], pending: &mut Vec<u8>) -> Option<String> {
    loop {
        if let Some(at) = pending.windows(end.len()).position(|w| w == end) {
            let said: Vec<u8> = pending.drain(..at + end.len()).collect();
            return Some(String::from_utf8_lossy(&said).into_owned());
        }
        let mut buf = [0; 1024];
        match stream.read(&mut buf) {
            Ok(len @ 1..) => pending.extend_from_slice(&buf[..len]),
            _ => return None,
        }
    }
}
