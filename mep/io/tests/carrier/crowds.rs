//! Crowds of strangers at the door (bar R7, threat T15).

use crate::stranger;
use crate::support::{Node, PATIENCE, authority, id, identity, loopback};
use mep_core::carrier::{CarrierEvent, Over};
use mep_io::pki::Authority;
use mep_io::{Carrier, Limits, PeerAddresses, Settings};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, Endpoint, EndpointConfig, Runtime, TokioRuntime, TransportConfig, UdpPoller};
use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::timeout;

/// Longer than a test, so that nobody loses his place for being late.
const LONG: Duration = Duration::from_secs(600);

/// A node that knows where `fra/1` listens.
fn node(ca: &Authority, over: Over) -> Node {
    patient(ca, over, Limits::default().handshake)
}

/// Likewise, and it waits so long for handshakes.
fn patient(ca: &Authority, over: Over, handshake: Duration) -> Node {
    let own = identity(&ca.issue(&id("ams/1")).unwrap(), "ams/1");
    let settings = Settings {
        listen: loopback(),
        identity: own.clone(),
        limits: Limits { handshake, idle: LONG, ..Limits::default() },
    };
    let peer = PeerAddresses { node: id("fra/1"), address: [127, 0, 0, 9].into(), allowed: Vec::new() };
    Node::run(over, own, Carrier::bind(settings).unwrap().with_peers(&[peer]), 4096)
}

fn peer(ca: &Authority, over: Over) -> Node {
    let own = identity(&ca.issue(&id("fra/1")).unwrap(), "fra/1");
    Node::start_at(over, "127.0.0.9:0".parse().unwrap(), own, Limits::default(), 64)
}

/// How long the peer takes to get in.
async fn gets_in(peer: &mut Node, node: &mut Node) -> Duration {
    let start = Instant::now();
    peer.dial("ams/1", node.address).await;
    peer.connected().await;
    loop {
        match node.event().await {
            CarrierEvent::Connected { peer, .. } => break assert_eq!(peer, id("fra/1")),
            CarrierEvent::Refused { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    start.elapsed()
}

/// A thousand addresses, so that no bound for a single one helps.
fn source(number: usize) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from_bits(0x7f02_0000 + number as u32 + 1).into(), 0)
}

#[tokio::test]
async fn a_thousand_tcp_connections_that_say_nothing_do_not_keep_a_peer_out() {
    descriptors();
    let ca = authority();
    let (mut node, mut peer) = (node(&ca, Over::Grpc), peer(&ca, Over::Grpc));
    let mut held = Vec::new();
    for number in 0..1000 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(source(number)).unwrap();
        held.push(timeout(PATIENCE, socket.connect(node.address)).await.unwrap().unwrap());
    }
    let open = |held: &[TcpStream]| held.iter().filter(|tcp| tcp.try_read(&mut [0]).is_err()).count();
    let took = gets_in(&mut peer, &mut node).await;
    println!("gRPC: 1,000 silent connections, {} still open; a peer got in after {took:?}", open(&held));
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(open(&held) <= 256, "{} strangers are held", open(&held));
}

/// Genuine addresses, proven (RFC 9000 section 8.1.2), and handshakes that go no further.
#[tokio::test]
async fn a_thousand_quic_handshakes_that_are_never_finished_do_not_keep_a_peer_out() {
    descriptors();
    let ca = authority();
    let (mut node, mut peer) = (patient(&ca, Over::Quic, LONG), peer(&ca, Over::Quic));
    let mut config = stranger::client(ca.certificate(), None, stranger::alpn(Over::Quic));
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(None);
    config.transport_config(Arc::new(transport));
    let mut strangers = Vec::new();
    for number in 0..1000 {
        let socket = std::net::UdpSocket::bind(source(number)).unwrap();
        let muffled = Arc::new(Muffled {
            inner: TokioRuntime.wrap_udp_socket(socket).unwrap(),
            answered: AtomicBool::new(false),
        });
        let abstracted = muffled.clone() as Arc<dyn AsyncUdpSocket>;
        let runtime = Arc::new(TokioRuntime);
        let endpoint =
            Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, abstracted, runtime).unwrap();
        let connecting =
            endpoint.connect_with(config.clone(), node.address, "1.ams.test.mep.gslb.internal").unwrap();
        strangers.push((muffled, endpoint, connecting));
        tokio::task::yield_now().await;
    }
    let start = Instant::now();
    // Twice as many as there are places: those who lost a packet may be long in trying again.
    while strangers.iter().filter(|(muffled, ..)| muffled.is_answered()).count() < 600 {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = gets_in(&mut peer, &mut node).await;
    println!("QUIC: 1,000 handshakes that stand still; a peer got in after {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    let mut late = Node::start_at(
        Over::Quic,
        "127.0.0.8:0".parse().unwrap(),
        identity(&ca.issue(&id("syd/1")).unwrap(), "syd/1"),
        Limits::default(),
        64,
    );
    late.dial("ams/1", node.address).await;
    let refused = late.dial_failed().await;
    assert_eq!(refused, "it is busy with too many handshakes", "the crowd holds all other places");
}

/// A socket that falls silent when the other end has taken its address for proven, and has begun the handshake.
#[derive(Debug)]
struct Muffled {
    inner: Arc<dyn AsyncUdpSocket>,
    answered: AtomicBool,
}

impl Muffled {
    fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }
}

impl AsyncUdpSocket for Muffled {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.inner.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if self.is_answered() { Ok(()) } else { self.inner.try_send(transmit) }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let received = self.inner.poll_recv(cx, buffers, meta);
        let demands = |buffer: &IoSliceMut<'_>| buffer.first().is_some_and(|first| first >> 4 == 0b1111);
        if let Poll::Ready(Ok(count)) = received
            && !buffers.iter().take(count).all(demands)
        {
            self.answered.store(true, Ordering::Relaxed);
        }
        received
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

/// The usual soft limit is 1,024.
fn descriptors() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

/// First packets of that many handshakes, genuine but for nobody waiting for the answers.
async fn first_packets(ca: &Authority, count: usize) -> Vec<Vec<u8>> {
    let catcher = UdpSocket::bind(loopback()).await.unwrap();
    let endpoint = stranger::endpoint();
    let address = catcher.local_addr().unwrap();
    let config = stranger::client(ca.certificate(), None, stranger::alpn(Over::Quic));
    let (mut seen, mut dialling) = (BTreeMap::new(), Vec::new());
    let mut packet = vec![0; 2000];
    while seen.len() < count {
        dialling
            .push(endpoint.connect_with(config.clone(), address, "1.ams.test.mep.gslb.internal").unwrap());
        let size = timeout(PATIENCE, catcher.recv(&mut packet)).await.unwrap().unwrap();
        let connection_id = packet[6..6 + usize::from(packet[5])].to_vec();
        seen.entry(connection_id).or_insert(packet[..size].to_vec()); // later ones of a handshake are repetitions
    }
    seen.into_values().collect()
}

/// Sends each packet from an address of its own, as if forged, and counts how many were answered with a handshake, and how
/// many with a demand to prove the address (Retry, RFC 9000 section 17.2.5).
async fn flood(packets: &[Vec<u8>], to: SocketAddr) -> (usize, usize) {
    let (mut handshakes, mut demands) = (0, 0);
    let mut answer = vec![0; 2000];
    for (number, packet) in packets.iter().enumerate() {
        let source = Ipv4Addr::from_bits(0x7f01_0000 + number as u32 + 1);
        let socket = UdpSocket::bind((source, 0)).await.unwrap();
        socket.send_to(packet, to).await.unwrap();
        timeout(PATIENCE, socket.recv(&mut answer)).await.expect("every first packet is answered").unwrap();
        if answer[0] >> 4 == 0b1111 { demands += 1 } else { handshakes += 1 }
    }
    (handshakes, demands)
}

#[tokio::test]
async fn handshakes_from_forged_addresses_take_no_room_and_peers_still_get_in() {
    let ca = authority();
    let (mut a, mut b) = (Node::start(Over::Quic, &ca, "fra/1"), Node::start(Over::Quic, &ca, "ams/1"));
    let packets = first_packets(&ca, 400).await;
    let start = Instant::now();
    let (handshakes, demands) = flood(&packets, b.address).await;
    assert_eq!(handshakes + demands, packets.len());
    let rounds = 1 + start.elapsed().as_secs() as usize / 5; // an unfinished handshake is given up after 5 s
    assert!(handshakes <= 32 * rounds, "{handshakes} forged addresses were believed");
    let start = Instant::now();
    a.dial("ams/1", b.address).await;
    assert_eq!(a.connected().await.1, id("ams/1"));
    println!("{handshakes} handshakes, {demands} demands; a peer got in after {:?}", start.elapsed());
    loop {
        match b.event().await {
            CarrierEvent::Connected { peer, .. } => break assert_eq!(peer, id("fra/1")),
            CarrierEvent::Refused { reason, .. } => {
                assert!(reason.contains("not finished"))
            }
            other => panic!("{other:?}"),
        }
    }
}

/// What the process takes of memory.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Threat T15: less than 32 MB for ten thousand.
#[tokio::test]
async fn ten_thousand_unfinished_handshakes_take_little_memory_and_disturb_no_peer() {
    const COUNT: usize = 10_000;
    let ca = authority();
    let (mut node, mut peer) = (node(&ca, Over::Quic), peer(&ca, Over::Quic));
    let packets = first_packets(&ca, COUNT).await;
    let (before, start, mut most) = (resident(), Instant::now(), 0);
    for (number, packet) in packets.iter().enumerate() {
        let socket = UdpSocket::bind(source(number)).await.unwrap();
        socket.send_to(packet, node.address).await.unwrap();
        if number % 100 == 0 {
            most = most.max(resident().saturating_sub(before));
            tokio::task::yield_now().await;
        }
    }
    let took = gets_in(&mut peer, &mut node).await;
    most = most.max(resident().saturating_sub(before));
    println!(
        "{COUNT} unfinished handshakes in {:?}: {} KiB more; a peer got in after {took:?}",
        start.elapsed(),
        most / 1024
    );
    assert!(most < 32 << 20, "{most} bytes");
    assert!(took < Duration::from_secs(1), "{took:?}");
}
