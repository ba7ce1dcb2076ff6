//! The demonstration's surroundings: resolvers at different distances from the sites, and web servers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How many sites, and how many resolvers.
pub(crate) const SITES: usize = 3;

/// The sites, in the order of group.toml.
pub(crate) const SITE_NAMES: [&str; SITES] = ["fra", "iad", "sin"];

/// The address a site's probes come from.
pub(crate) fn probe_source(site: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 51, 0, number(site))
}

/// A resolver's address.
pub(crate) fn resolver(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 53, 0, number(index))
}

/// A site's web server.
pub(crate) fn web(site: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 80, 0, number(site))
}

fn number(index: usize) -> u8 {
    u8::try_from(index + 1).unwrap_or(u8::MAX)
}

/// Round trips in milliseconds from each site to one resolver; can be changed while it runs.
#[derive(Clone)]
pub(crate) struct Distances(Arc<[AtomicU32; SITES]>);

impl Distances {
    /// These round trips, in the order of the sites.
    pub(crate) fn new(milliseconds: [u32; SITES]) -> Self {
        Distances(Arc::new(milliseconds.map(AtomicU32::new)))
    }

    /// Moves the resolver.
    pub(crate) fn set(&self, milliseconds: [u32; SITES]) {
        for (place, value) in self.0.iter().zip(milliseconds) {
            place.store(value, Ordering::Relaxed);
        }
    }

    /// The round trips.
    pub(crate) fn get(&self) -> [u32; SITES] {
        std::array::from_fn(|site| self.0[site].load(Ordering::Relaxed))
    }

    fn to(&self, from: IpAddr) -> Duration {
        let site = (0..SITES).find(|site| IpAddr::V4(probe_source(*site)) == from);
        Duration::from_millis(site.map_or(0, |site| u64::from(self.get()[site])))
    }
}

/// A resolver that answers whoever asks as resolvers answer strangers, REFUSED, after the round trip to where the question
/// came from.
pub(crate) struct Resolver {
    socket: Arc<UdpSocket>,
    distances: Distances,
}

impl Resolver {
    pub(crate) async fn bind(index: usize, port: u16, distances: Distances) -> io::Result<Self> {
        Ok(Resolver { socket: Arc::new(UdpSocket::bind((resolver(index), port)).await?), distances })
    }

    pub(crate) async fn run(self) {
        let mut buffer = [0; 512];
        loop {
            // An ICMP error on an earlier reply comes back here; the next question does too.
            let Ok((len, from)) = self.socket.recv_from(&mut buffer).await else { continue };
            let Some(reply) = buffer.get(..len).and_then(refused) else { continue };
            let (socket, delay) = (self.socket.clone(), self.distances.to(from.ip()));
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                let _ = socket.send_to(&reply, from).await;
            });
        }
    }
}

/// The query with QR and rcode REFUSED set.
fn refused(query: &[u8]) -> Option<Vec<u8>> {
    let mut reply = query.to_vec();
    *reply.get_mut(2)? |= 0x80;
    *reply.get_mut(3)? = 5;
    Some(reply)
}

/// A web server that says where it stands.
pub(crate) struct Web {
    site: usize,
    listener: TcpListener,
}

impl Web {
    pub(crate) async fn bind(site: usize, port: u16) -> io::Result<Self> {
        Ok(Web { site, listener: TcpListener::bind((web(site), port)).await? })
    }

    pub(crate) async fn run(self) {
        let mut clients = JoinSet::new();
        loop {
            tokio::select! {
                Ok((stream, _)) = self.listener.accept() => {
                    clients.spawn(greet(stream, SITE_NAMES[self.site]));
                }
                Some(_) = clients.join_next(), if !clients.is_empty() => {}
            }
        }
    }
}

async fn greet(mut stream: TcpStream, site: &str) {
    let mut request = [0; 2048];
    let _ = timeout(Duration::from_secs(5), stream.read(&mut request)).await;
    let body = format!("hello from {site}\n");
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = stream.write_all((head + &body).as_bytes()).await;
}

/// A resolver asks a node for the address of the name, as it would for its clients. Returns the addresses answered.
pub(crate) async fn ask(from: Ipv4Addr, node: SocketAddr, name: &str) -> io::Result<Vec<IpAddr>> {
    use hickory_proto::op::{Message, MessageType, OpCode, Query};
    use hickory_proto::rr::{Name, RData, RecordType};
    let name = Name::from_ascii(name).map_err(io::Error::other)?;
    let mut query = Message::new(rand::random(), MessageType::Query, OpCode::Query);
    query.add_query(Query::query(name, RecordType::A));
    let socket = UdpSocket::bind((from, 0)).await?;
    socket.connect(node).await?;
    socket.send(&query.to_vec().map_err(io::Error::other)?).await?;
    let mut buffer = [0; 1500];
    let len = timeout(Duration::from_secs(2), socket.recv(&mut buffer)).await??;
    let reply = Message::from_vec(&buffer[..len]).map_err(io::Error::other)?;
    let addresses = reply.answers.iter().filter_map(|record| match &record.data {
        RData::A(a) => Some(IpAddr::V4(a.0)),
        _ => None,
    });
    Ok(addresses.collect())
}
