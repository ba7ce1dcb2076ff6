//! A path between one dialler and one node that loses what it is told to, and shows what passes.

use crate::support::loopback;
use mep_core::carrier::Over;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Carries packets of QUIC, or the bytes of one TCP connection after another.
pub(crate) struct Path {
    pub(crate) address: SocketAddr,
    shared: Shared,
    _tasks: JoinSet<()>,
}

#[derive(Clone)]
struct Shared {
    largest: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Path {
    pub(crate) async fn to(over: Over, node: SocketAddr) -> Path {
        let shared = Shared { largest: Arc::new(AtomicUsize::new(usize::MAX)), seen: Arc::default() };
        let mut tasks = JoinSet::new();
        let address = match over {
            Over::Quic => udp(node, &shared, &mut tasks).await,
            Over::Grpc => tcp(node, &shared, &mut tasks).await,
        };
        Path { address, shared, _tasks: tasks }
    }

    /// From now on longer packets vanish. In TCP only 0 makes a difference: whatever is sent is in vain.
    pub(crate) fn narrow(&self, largest: usize) {
        self.shared.largest.store(largest, Ordering::Relaxed);
    }

    /// All that has passed, both ways.
    pub(crate) fn seen(&self) -> Vec<u8> {
        self.shared.seen.lock().unwrap().clone()
    }
}

impl Shared {
    fn passes(&self, bytes: &[u8]) -> bool {
        let passes = bytes.len() <= self.largest.load(Ordering::Relaxed);
        if passes {
            self.seen.lock().unwrap().extend_from_slice(bytes);
        }
        passes
    }
}

async fn udp(node: SocketAddr, shared: &Shared, tasks: &mut JoinSet<()>) -> SocketAddr {
    let near = Arc::new(UdpSocket::bind(loopback()).await.unwrap());
    let far = Arc::new(UdpSocket::bind(loopback()).await.unwrap());
    far.connect(node).await.unwrap();
    let address = near.local_addr().unwrap();
    let (learnt, dialler) = watch::channel(None);
    let (from, to, path) = (near.clone(), far.clone(), shared.clone());
    tasks.spawn(async move {
        let mut packet = vec![0; 65_536];
        while let Ok((size, source)) = from.recv_from(&mut packet).await {
            learnt.send_replace(Some(source));
            if path.passes(&packet[..size]) {
                let _ = to.send(&packet[..size]).await;
            }
        }
    });
    let path = shared.clone();
    tasks.spawn(async move {
        let mut packet = vec![0; 65_536];
        while let Ok(size) = far.recv(&mut packet).await {
            let known = *dialler.borrow();
            if let Some(dialler) = known
                && path.passes(&packet[..size])
            {
                let _ = near.send_to(&packet[..size], dialler).await;
            }
        }
    });
    address
}

async fn tcp(node: SocketAddr, shared: &Shared, tasks: &mut JoinSet<()>) -> SocketAddr {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let path = shared.clone();
    tasks.spawn(async move {
        let mut running = JoinSet::new();
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(node).await.unwrap();
            let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
            running.spawn(copy(from_near, to_far, path.clone()));
            running.spawn(copy(from_far, to_near, path.clone()));
        }
    });
    address
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, path: Shared) {
    let mut bytes = vec![0; 65_536];
    while let Ok(size) = from.read(&mut bytes).await
        && size > 0
    {
        if path.passes(&bytes[..size]) && to.write_all(&bytes[..size]).await.is_err() {
            break;
        }
    }
}
