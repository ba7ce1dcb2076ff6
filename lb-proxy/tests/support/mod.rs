//! What the tests share: virtual servers on loopback, services with a will of their own, and clients that count bytes.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be arranged must fail")]

pub mod alone;
pub mod raw_h2;
pub mod service;
pub mod tls;

use gslb_types::{LbMethod, LbVserverName, ServiceName, ServiceState, Weight};
use lb_core::{BalancerSettings, LocalPersistence, MemberSettings};
use lb_proxy::{Kind, Proxy, VserverSettings, VserverView};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;

/// Whether nothing may be skipped: in the continuous integration.
pub fn must_run() -> bool {
    std::env::var("GSLB_LAB").is_ok_and(|mode| mode == "required")
}

pub fn name(text: &str) -> ServiceName {
    ServiceName::new(text).unwrap()
}

/// A virtual server of round robin over services s1, s2, … at these addresses, on a free port of loopback.
pub fn vserver(kind: Kind, services: &[SocketAddr]) -> VserverSettings {
    let member = |at: usize| MemberSettings {
        name: name(&format!("s{at}")),
        weight: Weight::ONE,
        max_clients: None,
        max_bandwidth: None,
        enabled: true,
    };
    let balancer = BalancerSettings {
        method: LbMethod::RoundRobin,
        startup_rr_factor: 0,
        slow_start: Duration::ZERO,
        persistence: LocalPersistence::None,
        members: (1..=services.len()).map(member).collect(),
    };
    VserverSettings {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        addresses: services.to_vec(),
        ..VserverSettings::new(LbVserverName::new("v").unwrap(), kind, balancer)
    }
}

/// A proxy with one virtual server, whose services are up.
pub struct Running {
    pub proxy: Proxy,
    pub address: SocketAddr,
}

pub fn start(settings: VserverSettings) -> Running {
    let members: Vec<_> = settings.balancer.members.iter().map(|m| m.name.clone()).collect();
    let proxy = Proxy::start(vec![settings], &CancellationToken::new()).unwrap();
    for member in members {
        proxy.handle_health(&member, ServiceState::Up, None);
    }
    let address = proxy.views()[0].listen[0];
    Running { proxy, address }
}

impl Running {
    pub fn view(&self) -> VserverView {
        self.proxy.views().remove(0)
    }

    /// Transactions under way at each member.
    pub fn active(&self) -> Vec<u32> {
        self.view().balancer.members.iter().map(|m| m.active).collect()
    }

    pub fn requests(&self) -> Vec<u64> {
        self.view().balancer.members.iter().map(|m| m.requests).collect()
    }

    pub async fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends these bytes on a connection of their own, and reads all that comes until the proxy closes it.
    pub async fn say(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_ref()).await.unwrap();
        rest(&mut stream).await
    }

    /// The response to a plain GET, from the status line to the last byte.
    pub async fn get(&self, path: &str) -> String {
        self.say(format!("GET {path} HTTP/1.1\r\nHost: www.test\r\nConnection: close\r\n\r\n")).await
    }
}

/// Everything until the end, as text.
pub async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut all = Vec::new();
    let _ = within(stream.read_to_end(&mut all)).await;
    String::from_utf8_lossy(&all).into_owned()
}

/// One response head, or whatever comes up to these bytes.
pub async fn until(stream: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut all = Vec::new();
    while !all.ends_with(end.as_bytes()) {
        match within(stream.read_u8()).await {
            Ok(byte) => all.push(byte),
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&all)),
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// Nothing in these tests may take this long, however busy the machine is.
pub async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.unwrap_or_else(|_| panic!("took too long"))
}

/// Waits until something is so.
pub async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// An address whose queue is full: its kernel drops further SYNs, as a host that is gone would. Lasts as long as the rest.
pub async fn deaf() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let (address, mut fillers) = (listener.local_addr().unwrap(), Vec::new());
    while let Ok(Ok(filler)) =
        tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
    {
        fillers.push(filler);
    }
    (address, listener, fillers)
}

/// The value of a header in a raw head, the first if there are several.
pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.split("\r\n\r\n").next().unwrap_or_default().lines().skip(1);
    lines.filter_map(|line| line.split_once(": ")).find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v)
}

/// What stands after the head.
pub fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}
