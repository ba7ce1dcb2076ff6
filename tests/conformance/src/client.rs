//! A client that sends what it is told, over UDP and TCP.

use crate::packet::{Packet, query, rtype};
use crate::reply::Reply;
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// How long a reply may take on a busy machine. Nothing waits so long unless something is wrong.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The ID of the query that follows a packet to which no reply is expected.
const MARKER: u16 = 0x4d4b;

/// A UDP socket, connected: a reply from another address or port is not seen.
pub struct Udp {
    socket: UdpSocket,
}

impl Udp {
    /// To this server, from whatever address the system takes.
    pub fn to(server: SocketAddr) -> Udp {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        Udp::from(any, server)
    }

    /// To this server, from this address.
    pub fn from(address: IpAddr, server: SocketAddr) -> Udp {
        let socket = UdpSocket::bind((address, 0)).expect("a UDP socket");
        socket.connect(server).expect("a UDP socket connects");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Udp { socket }
    }

    /// Sends octets.
    pub fn send(&self, packet: &[u8]) {
        self.socket.send(packet).expect("sent");
    }

    /// The next reply.
    ///
    /// # Panics
    /// If none comes.
    #[track_caller]
    pub fn receive(&self) -> Reply {
        let mut buffer = vec![0; 65_535];
        let length = self.socket.recv(&mut buffer).expect("a reply");
        buffer.truncate(length);
        Reply::of(buffer)
    }

    /// Asks, and returns the reply.
    #[track_caller]
    pub fn ask(&self, packet: &Packet) -> Reply {
        self.send(&packet.bytes());
        self.receive()
    }

    /// Sends a packet that must be met with silence. A query goes after it, on the same way: its reply must be the first.
    #[track_caller]
    pub fn expect_silence(&self, packet: &[u8]) {
        self.send(packet);
        let next = self.ask(&query("gslb.test", rtype::SOA).id(MARKER));
        assert_eq!(next.id(), MARKER, "no reply to {packet:02x?}");
    }

    /// The socket itself.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }
}

/// A TCP connection.
pub struct Tcp {
    stream: TcpStream,
}

impl Tcp {
    /// Connects.
    pub fn to(server: SocketAddr) -> Tcp {
        Tcp::over(TcpStream::connect_timeout(&server, PATIENCE).expect("a TCP connection"))
    }

    /// Connects from this address.
    pub fn from(address: IpAddr, server: SocketAddr) -> Tcp {
        let socket = Socket::new(Domain::for_address(server), Type::STREAM, None).expect("a TCP socket");
        socket.bind(&SocketAddr::new(address, 0).into()).expect("a local address");
        socket.connect_timeout(&server.into(), PATIENCE).expect("a TCP connection");
        Tcp::over(socket.into())
    }

    fn over(stream: TcpStream) -> Tcp {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stream.set_write_timeout(Some(PATIENCE)).expect("a time-out");
        stream.set_nodelay(true).expect("no delay");
        Tcp { stream }
    }

    /// Sends octets as they are.
    pub fn send(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).expect("sent");
    }

    /// The next message, or `None` when the server has closed the connection.
    #[track_caller]
    pub fn receive(&mut self) -> Option<Reply> {
        next_message(&mut self.stream).expect("a message or the end").map(Reply::of)
    }

    /// Asks, and returns the reply.
    #[track_caller]
    pub fn ask(&mut self, packet: &Packet) -> Reply {
        self.send(&framed(&packet.bytes()));
        self.receive().expect("a reply")
    }

    /// Says that nothing more will be sent.
    pub fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("half closed");
    }

    /// How long it takes until the server closes the connection, which must not have sent anything more; a reset counts.
    #[track_caller]
    pub fn closed_after(&mut self) -> Duration {
        let start = Instant::now();
        match self.stream.read(&mut [0; 1]) {
            Ok(0) => start.elapsed(),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => start.elapsed(),
            other => panic!("neither closed nor reset: {other:?}"),
        }
    }

    /// Whether the server has closed it by now.
    pub fn is_closed(&self) -> bool {
        self.stream.set_nonblocking(true).expect("non-blocking");
        let seen = self.stream.peek(&mut [0; 1]);
        self.stream.set_nonblocking(false).expect("blocking");
        match seen {
            Ok(length) => length == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }

    /// The stream itself.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

/// A message with its length before it (RFC 1035 section 4.2.2).
pub fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

/// Reads a message with its length; `None` if the stream ends before it begins.
pub fn next_message(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 2];
    match stream.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message)?;
    Ok(Some(message))
}
