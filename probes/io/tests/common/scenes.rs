//! Services of every kind of trouble, each for one check.

use super::certificates::Ca;
use super::script::{Server, Step, Tls};
use super::{Ldns, ms, v4};
use gslb_types::Check;
use socket2::{Domain, Socket, Type};
use std::any::Any;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

/// A service, and who asks it.
pub(crate) struct Scene {
    pub(crate) target: SocketAddr,
    pub(crate) check: Check,
    /// What lasts as long as the scene.
    _lasts: Box<dyn Any + Send>,
}

pub(crate) fn scene(target: SocketAddr, check: &Check, lasts: impl Any + Send) -> Scene {
    Scene { target, check: check.clone(), _lasts: Box::new(lasts) }
}

/// A TCP server that does this.
pub(crate) fn plain(check: &Check, steps: Vec<Step>) -> Scene {
    scene(Server::start(v4(54, 0, 1), steps).addr, check, ())
}

/// The same within TLS.
pub(crate) fn secure(check: &Check, tls: &Tls, steps: Vec<Step>) -> Scene {
    scene(Server::with(v4(54, 0, 2), Some(tls.clone()), steps).addr, check, ())
}

/// A UDP server that sends these datagrams, made of what it is asked.
pub(crate) fn datagrams(check: &Check, answer: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> Scene {
    let server = Ldns::start((v4(54, 0, 3), 0), move |socket, query, from| {
        for datagram in answer(query) {
            socket.send_to(&datagram, from).unwrap();
        }
    });
    scene(server.addr, check, server)
}

pub(crate) fn closed_tcp(check: &Check) -> Scene {
    scene(TcpListener::bind((v4(54, 0, 4), 0)).unwrap().local_addr().unwrap(), check, ())
}

pub(crate) fn closed_udp(check: &Check) -> Scene {
    scene(UdpSocket::bind((v4(54, 0, 4), 0)).unwrap().local_addr().unwrap(), check, ())
}

/// A listener that has no room for one more connection: the SYN is not answered.
pub(crate) fn full(check: &Check) -> Scene {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::new(v4(54, 0, 5), 0).into()).unwrap();
    listener.listen(0).unwrap();
    let target = listener.local_addr().unwrap().as_socket().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&target, ms(200)) {
        waiting.push(stream);
    }
    scene(target, check, (listener, waiting))
}

/// A certificate authority with a server that is well, and one whose certificate expired two days ago.
pub(crate) struct Secrets {
    pub(crate) ca: Ca,
    pub(crate) good: Tls,
    pub(crate) expired: Tls,
}

pub(crate) fn secrets() -> Secrets {
    let ca = Ca::new();
    let tls = |from, to| Tls { config: ca.server(&["www.test"], from, to), wait: 0, counts: false };
    let (good, expired) = (tls(-1, 1), tls(-30, -3));
    Secrets { ca, good, expired }
}
