//! Datagrams in batches: one system call takes what has come, one sends what is to be said.
//!
//! A system call for each datagram would cost a quarter more CPU (bench/README.md).

mod inbox;
mod outbox;

pub(super) use inbox::{Arrival, Inbox};
pub(super) use outbox::Outbox;

/// Datagrams for each system call. More gain nothing that can be measured, and the first waits for the last.
const BATCH: usize = 16;

/// Larger than any request that makes sense; the rest of a longer packet is cut and fails to parse. Not a power of two, or
/// the beginnings of all requests of a batch would compete for the same few lines of the cache.
const REQUEST: usize = 4096 + 64;

/// Larger than any reply over UDP: `config` allows at most 1400.
const REPLY: usize = 1500;

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{setsockopt, sockopt};
    use std::io::ErrorKind;
    use std::net::{IpAddr, SocketAddr, UdpSocket};
    use std::time::Duration;

    fn socket(address: &str) -> UdpSocket {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket
    }

    fn wildcard(address: &str) -> UdpSocket {
        let socket = socket(address);
        match socket.local_addr().unwrap().ip() {
            IpAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true).unwrap(),
            IpAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true).unwrap(),
        }
        socket
    }

    /// Sends back all that came, with a byte before it.
    fn echo(socket: &UdpSocket, inbox: &mut Inbox, outbox: &mut Outbox) -> usize {
        inbox.receive(socket).unwrap();
        let mut count = 0;
        for (arrival, request) in inbox.iter() {
            let room = outbox.room();
            room[0] = b'>';
            room[1..=request.len()].copy_from_slice(request);
            outbox.reply(arrival, 1 + request.len());
            count += 1;
        }
        assert_eq!(outbox.send(socket), 0);
        count
    }

    fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
        let mut buffer = [0; REQUEST];
        let (len, from) = socket.recv_from(&mut buffer).unwrap();
        (buffer[..len].to_vec(), from)
    }

    #[test]
    fn everybody_gets_the_reply_to_what_they_sent() {
        let server = socket("127.0.0.1:0");
        let to = server.local_addr().unwrap();
        let clients: Vec<UdpSocket> = (0..3 * BATCH + 1).map(|_| socket("127.0.0.1:0")).collect();
        for (n, client) in clients.iter().enumerate() {
            client.send_to(&vec![b'a'; n], to).unwrap();
        }
        let (mut inbox, mut outbox) = (Inbox::new(false), Outbox::new(None));
        let mut batches = Vec::new();
        while batches.iter().sum::<usize>() < clients.len() {
            batches.push(echo(&server, &mut inbox, &mut outbox));
        }
        assert_eq!(batches, [BATCH, BATCH, BATCH, 1]);
        for (n, client) in clients.iter().enumerate() {
            let expected = [b">".as_slice(), &vec![b'a'; n]].concat();
            assert_eq!(receive(client), (expected, to));
        }
    }

    #[test]
    fn a_reply_leaves_from_the_address_that_was_asked() {
        for (wild, asked) in [("0.0.0.0:0", ["127.0.0.5", "127.0.0.6"]), ("[::]:0", ["::1", "::1"])] {
            let server = wildcard(wild);
            let (mut inbox, mut outbox) =
                (Inbox::new(true), Outbox::new(Some(server.local_addr().unwrap().ip())));
            // More than once: what the kernel wrote into the headers must not spoil the next call.
            for _ in 0..3 {
                let mut asked_from = Vec::new();
                for ip in asked {
                    let ip: IpAddr = ip.parse().unwrap();
                    let client = if ip.is_ipv4() { socket("127.0.0.1:0") } else { socket("[::1]:0") };
                    let to = SocketAddr::new(ip, server.local_addr().unwrap().port());
                    client.send_to(b"hello", to).unwrap();
                    asked_from.push((client, to));
                }
                assert_eq!(echo(&server, &mut inbox, &mut outbox), asked.len());
                for (client, to) in asked_from {
                    assert_eq!(receive(&client), (b">hello".to_vec(), to));
                }
            }
        }
    }

    #[test]
    fn a_reply_that_cannot_go_does_not_keep_the_others() {
        let server = socket("127.0.0.1:0");
        let client = socket("127.0.0.1:0");
        // Broadcasting needs permission, which the socket has not.
        let to = ["127.0.0.1:0", "255.255.255.255:9", "255.255.255.255:9", "127.0.0.1:0"];
        let mut outbox = Outbox::new(None);
        for (n, to) in (b'0'..).zip(to) {
            let to: SocketAddr = to.parse().unwrap();
            let from = if to.port() == 0 { client.local_addr().unwrap() } else { to };
            outbox.room()[0] = n;
            outbox.reply(&Arrival { from, asked: None, len: 0 }, 1);
        }
        assert_eq!(outbox.send(&server), 2);
        assert_eq!((receive(&client).0, receive(&client).0), (b"0".to_vec(), b"3".to_vec()));
        assert_eq!(outbox.send(&server), 0, "nothing is sent twice");
    }

    #[test]
    fn a_packet_that_is_too_long_is_cut() {
        let server = socket("127.0.0.1:0");
        let client = socket("127.0.0.1:0");
        client.send_to(&[7; REQUEST + 1], server.local_addr().unwrap()).unwrap();
        let mut inbox = Inbox::new(false);
        inbox.receive(&server).unwrap();
        let lengths: Vec<usize> = inbox.iter().map(|(_, request)| request.len()).collect();
        assert_eq!(lengths, [REQUEST]);
    }

    #[test]
    fn silence_ends_with_the_timeout_of_the_socket() {
        let server = socket("127.0.0.1:0");
        server.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut inbox = Inbox::new(false);
        assert_eq!(inbox.receive(&server).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(inbox.iter().count(), 0);
    }
}
