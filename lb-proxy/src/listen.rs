//! Listeners: where clients come in.

use crate::client::{Wire, converse};
use crate::lasting::Faults;
use crate::settings::{Kind, VserverSettings};
use crate::tcp;
use crate::vserver::Vserver;
use arc_swap::ArcSwap;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections that may wait in the kernel, also while `max_connections` are open. The kernel's own cap is lower by default.
const BACKLOG: i32 = 4096;

/// Before the next try when a connection can't be accepted: no descriptor is free, and none will be at once.
const PAUSE: Duration = Duration::from_millis(50);

/// Where one client's connection belongs.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) vserver: Arc<Vserver>,
    /// As they were when the connection began.
    pub(crate) settings: Arc<VserverSettings>,
    pub(crate) tasks: TaskTracker,
    /// Nothing new is to be begun.
    pub(crate) stop: CancellationToken,
    /// What runs is to be broken off.
    pub(crate) kill: CancellationToken,
    /// Its place among `max_connections`.
    pub(crate) _admission: Arc<Admission>,
}

/// One of `max_connections`, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Admission {
    vserver: Arc<Vserver>,
    place: Option<OwnedSemaphorePermit>,
}

impl Admission {
    fn new(vserver: Arc<Vserver>, place: OwnedSemaphorePermit) -> Arc<Self> {
        vserver.open.fetch_add(1, Relaxed);
        Arc::new(Admission { vserver, place: Some(place) })
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.vserver.leave(place);
        }
    }
}

/// One listening socket, from the first accept to the last.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The address that was asked for; the port may be 0.
    pub(crate) asked: SocketAddr,
    pub(crate) local: SocketAddr,
    /// Whose clients come in here. Changing it changes nothing for those that are in.
    target: Arc<ArcSwap<Vserver>>,
    stop: CancellationToken,
}

/// A socket that listens, and that nobody accepts from yet.
pub(crate) struct Bound {
    asked: SocketAddr,
    local: SocketAddr,
    socket: TcpListener,
}

/// What all listeners share.
#[derive(Clone, Debug)]
pub(crate) struct Grounds {
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    pub(crate) kill: CancellationToken,
    pub(crate) faults: Faults,
}

/// Takes the address. An IPv6 one takes IPv6 alone, so that both wildcards can be listened on.
pub(crate) fn bind(asked: SocketAddr) -> io::Result<Bound> {
    let socket = Socket::new(Domain::for_address(asked), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?; // or a restart would wait for old connections to be forgotten
    if asked.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?; // accepted sockets inherit it
    socket.bind(&asked.into())?;
    socket.listen(BACKLOG)?;
    let socket = TcpListener::from_std(socket.into())?;
    Ok(Bound { asked, local: socket.local_addr()?, socket })
}

impl Listener {
    /// Begins to accept, for `vserver`.
    pub(crate) fn open(bound: Bound, vserver: Arc<Vserver>, grounds: &Grounds) -> Self {
        let Bound { asked, local, socket } = bound;
        let target = Arc::new(ArcSwap::new(vserver));
        let stop = grounds.stop.child_token();
        let own = Grounds { stop: stop.clone(), ..grounds.clone() };
        let accepting = accept(socket, local, target.clone(), own);
        grounds.tasks.spawn(grounds.faults.watch("a listener", stop.clone(), accepting));
        Listener { asked, local, target, stop }
    }

    /// Gives the clients that come from here on to `vserver`.
    pub(crate) fn serve(&self, vserver: Arc<Vserver>) {
        self.target.store(vserver);
    }

    pub(crate) fn serves(&self, vserver: &Arc<Vserver>) -> bool {
        Arc::ptr_eq(&self.target.load(), vserver)
    }
}

impl Drop for Listener {
    /// Connections that came in here wind up.
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Accepts connections until the listener goes. At the limit the one accepted last waits here, and others in the kernel's queue.
async fn accept(socket: TcpListener, local: SocketAddr, target: Arc<ArcSwap<Vserver>>, grounds: Grounds) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = grounds.stop.cancelled() => return,
            accepted = socket.accept() => accepted,
        };
        let vserver = target.load_full();
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                vserver.counters.accept_failed.add();
                if needs_pause(&error) {
                    tokio::time::sleep(PAUSE).await;
                }
                continue;
            }
        };
        let admitted = tokio::select! {
            biased;
            () = grounds.stop.cancelled() => return,
            admitted = vserver.admit() => admitted,
        };
        vserver.counters.connections.add();
        let place = Place {
            settings: vserver.settings(),
            _admission: Admission::new(vserver.clone(), admitted),
            vserver,
            tasks: grounds.tasks.clone(),
            stop: grounds.stop.clone(),
            kill: grounds.kill.clone(),
        };
        grounds.tasks.spawn(serve(stream, peer, local, place));
    }
}

/// Whether the same would come of the next accept: an error of this process, and not of one client.
fn needs_pause(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

/// One connection of a client.
async fn serve(stream: TcpStream, peer: SocketAddr, local: SocketAddr, place: Place) {
    // The wildcard is no address that a client can have connected to.
    let local = if local.ip().is_unspecified() { stream.local_addr().unwrap_or(local) } else { local };
    match &place.settings.kind {
        Kind::Tcp { .. } => tcp::carry(stream, peer, local, place).await,
        Kind::Http => converse(Wire::Plain(stream), peer, local, place).await,
        Kind::Ssl { .. } => {
            let Some(acceptor) = place.vserver.tls() else { return };
            let handshake = tokio::time::timeout(place.settings.timeouts.connect, acceptor.accept(stream));
            let done = tokio::select! {
                done = handshake => done,
                () = place.stop.cancelled() => return,
            };
            match done {
                Ok(Ok(tls)) => converse(Wire::Tls(Box::new(tls)), peer, local, place).await,
                Ok(Err(_)) | Err(_) => place.vserver.counters.handshake_failed.add(),
            }
        }
    }
}
