//! A DNS query and what of its reply a test looks at: thousands of them, where a `dig` each would be the load.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// What came of a query.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reply {
    /// NOERROR with these addresses, in their order.
    Addresses(Vec<Ipv4Addr>),
    /// Another rcode.
    Rcode(u8),
    /// No reply, or none that could be read, in time.
    Silence,
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Addresses(addresses) if addresses.is_empty() => write!(f, "no address"),
            Reply::Addresses(addresses) => {
                let texts: Vec<_> = addresses.iter().map(Ipv4Addr::to_string).collect();
                write!(f, "{}", texts.join(" "))
            }
            Reply::Rcode(code) => write!(f, "rcode {code}"),
            Reply::Silence => write!(f, "silence"),
        }
    }
}

/// Asks for the A records of `name` from `source`, in the namespace of the calling thread, once.
pub fn ask(source: IpAddr, server: IpAddr, name: &str, patience: Duration) -> io::Result<Reply> {
    ask_over(&connected(source, server)?, 1, name, patience)
}

/// Asks once from every source, in the namespace of the calling thread, many at a time. Replies are in the order of the
/// sources. A query that is lost is sent once more.
pub fn volley(sources: &[IpAddr], server: IpAddr, name: &str, patience: Duration) -> io::Result<Vec<Reply>> {
    let mut replies = Vec::with_capacity(sources.len());
    for batch in sources.chunks(AT_ONCE) {
        let sockets: Vec<UdpSocket> =
            batch.iter().map(|source| connected(*source, server)).collect::<Result<_, _>>()?;
        let query = query(1, name);
        sockets.iter().try_for_each(|socket| socket.send(&query).map(|_| ()))?;
        let end = Instant::now() + patience;
        for socket in &sockets {
            let reply = receive(socket, 1, end)?;
            replies.push(match reply {
                Reply::Silence => ask_over(socket, 2, name, patience)?,
                reply => reply,
            });
        }
    }
    Ok(replies)
}

/// Sockets that a volley has open at once: descriptors are few.
const AT_ONCE: usize = 200;

fn connected(source: IpAddr, server: IpAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((source, 0))?;
    socket.connect(SocketAddr::new(server, 53))?;
    Ok(socket)
}

/// The same over a socket that is connected to the server; late replies to other ids are passed over.
pub(crate) fn ask_over(socket: &UdpSocket, id: u16, name: &str, patience: Duration) -> io::Result<Reply> {
    // What an earlier query met, an ICMP error say, is reported by the next call on the socket.
    if socket.send(&query(id, name)).is_err() {
        socket.send(&query(id, name))?;
    }
    receive(socket, id, Instant::now() + patience)
}

fn receive(socket: &UdpSocket, id: u16, end: Instant) -> io::Result<Reply> {
    let mut message = [0; 1500];
    loop {
        // What has come already is read even if the time is over.
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left))?;
        let length = match socket.recv(&mut message) {
            Ok(length) => length,
            // Nobody listens there: as good as silence, but known at once.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(Reply::Silence),
            Err(_) if Instant::now() >= end => return Ok(Reply::Silence),
            Err(_) => continue,
        };
        let message = message.get(..length).unwrap_or_default();
        if message.get(..2) == Some(&id.to_be_bytes()) {
            return Ok(read(message).unwrap_or(Reply::Silence));
        }
    }
}

fn query(id: u16, name: &str) -> Vec<u8> {
    let mut query = id.to_be_bytes().to_vec();
    query.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.trim_end_matches('.').split('.').filter(|label| !label.is_empty()) {
        query.push(label.len() as u8);
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    query
}

/// `None` for what is no reply to such a query.
fn read(message: &[u8]) -> Option<Reply> {
    let code = message.get(3)? & 15;
    if code != 0 {
        return Some(Reply::Rcode(code));
    }
    let count = u16::from_be_bytes([*message.get(6)?, *message.get(7)?]);
    let mut at = after_name(message, 12)? + 4;
    let mut addresses = Vec::new();
    for _ in 0..count {
        at = after_name(message, at)?;
        let [kind, length] = [at, at + 8].map(|at| Some([*message.get(at)?, *message.get(at + 1)?]));
        let (kind, length) = (u16::from_be_bytes(kind?), usize::from(u16::from_be_bytes(length?)));
        let data = message.get(at + 10..at + 10 + length)?;
        if let (1, Ok(octets)) = (kind, <[u8; 4]>::try_from(data)) {
            addresses.push(octets.into());
        }
        at += 10 + length;
    }
    Some(Reply::Addresses(addresses))
}

fn after_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            length if length >= 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_past_compressed_names_and_other_types() {
        let mut reply = query(7, "www.gslb.test");
        reply[2] = 0x84;
        reply[7] = 2;
        reply.extend(b"\xc0\x0c\0\x05\0\x01\0\0\0\x05\0\x02\xc0\x10");
        reply.extend(b"\xc0\x10\0\x01\0\x01\0\0\0\x05\0\x04\xc6\x12\x01\x50");
        assert_eq!(read(&reply), Some(Reply::Addresses(vec![[198, 18, 1, 80].into()])));
        reply[3] = 2;
        assert_eq!(read(&reply), Some(Reply::Rcode(2)));
        for cut in 0..reply.len() {
            let mut cut = reply[..cut].to_vec();
            cut.iter_mut().skip(3).take(1).for_each(|code| *code = 0);
            assert!(!matches!(read(&cut), Some(Reply::Rcode(_))));
        }
    }
}
