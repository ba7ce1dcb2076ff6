//! The load: a closed loop of queries over a few sockets, as fast as the server answers.

use crate::query::is_answer;
use crate::{Failure, Interrupt, SOURCES, ldns};
use arrayvec::ArrayVec;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, sendmmsg};
use socket2::{Domain, Socket, Type};
use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Datagrams for each system call.
const BATCH: usize = 32;

/// Longer than any reply that is expected.
const REPLY: usize = 512;

/// A query that has not been answered for this long is lost. Longer than a busy machine keeps a server waiting.
const LOST: Duration = Duration::from_millis(300);

/// How long late replies are waited for at the end.
const DRAIN: Duration = Duration::from_secs(1);

/// What to ask, and how hard.
#[derive(Clone, Debug)]
pub struct Load {
    /// Bytes of the query; its id is overwritten.
    pub query: Vec<u8>,
    /// Queries under way at once, over all sockets.
    pub window: usize,
}

/// What came of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Queries sent.
    pub sent: u64,
    /// Replies received.
    pub received: u64,
    /// Replies that do not answer.
    pub wrong: u64,
    /// How long queries were sent.
    pub time: Duration,
}

/// Sockets connected to one server.
pub struct Generator {
    lanes: Vec<Lane>,
    buffers: Buffers,
}

/// A socket, and the queries under way on it.
struct Lane {
    socket: Socket,
    next_id: u16,
    under_way: usize,
    last_word: Instant,
}

struct Buffers {
    queries: Vec<Vec<u8>>,
    replies: Box<[[u8; REPLY]; BATCH]>,
    sending: MultiHeaders<()>,
    receiving: MultiHeaders<()>,
    /// Queries under way on each socket.
    window: usize,
}

impl Generator {
    /// Connects as many sockets as there are sources, each from its own address.
    pub fn connect(server: SocketAddrV4, load: &Load) -> Result<Self, Failure> {
        let lanes = (0..SOURCES).map(|source| Lane::connect(source, server)).collect::<Result<_, _>>();
        let buffers = Buffers {
            queries: vec![load.query.clone(); BATCH],
            replies: Box::new([[0; REPLY]; BATCH]),
            sending: MultiHeaders::preallocate(BATCH, None),
            receiving: MultiHeaders::preallocate(BATCH, None),
            window: load.window.div_ceil(SOURCES),
        };
        Ok(Generator { lanes: lanes.map_err(Failure::system(format!("socket to {server}")))?, buffers })
    }

    /// Sends for that long, then waits for what is under way.
    pub fn run(&mut self, time: Duration, interrupt: &Interrupt) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        let start = Instant::now();
        let mut now = start;
        while now.duration_since(start) < time && !interrupt.is_wanted() {
            for lane in &mut self.lanes {
                lane.turn(&mut self.buffers, now, &mut tally)?;
            }
            now = Instant::now();
        }
        interrupt.check()?;
        tally.time = now.duration_since(start);
        let end = now + DRAIN;
        while tally.received < tally.sent && Instant::now() < end {
            for lane in &mut self.lanes {
                lane.receive(&mut self.buffers, &mut tally)?;
            }
        }
        for lane in &mut self.lanes {
            lane.under_way = 0;
        }
        Ok(tally)
    }
}

impl Lane {
    fn connect(source: usize, server: SocketAddrV4) -> std::io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        // Replies to a whole window fit: what is lost is lost by the server.
        socket.set_recv_buffer_size(1 << 20)?;
        socket.bind(&SocketAddr::new(ldns(source), 0).into())?;
        socket.connect(&SocketAddr::V4(server).into())?;
        socket.set_nonblocking(true)?;
        Ok(Lane { socket, next_id: 0, under_way: 0, last_word: Instant::now() })
    }

    /// Takes what came and asks as much again.
    fn turn(&mut self, buffers: &mut Buffers, now: Instant, tally: &mut Tally) -> Result<(), Failure> {
        let received = self.receive(buffers, tally)?;
        if received > 0 {
            self.last_word = now;
        } else if self.under_way > 0 && now.duration_since(self.last_word) > LOST {
            self.under_way = 0;
        }
        let room = buffers.window.saturating_sub(self.under_way).min(BATCH);
        if room == 0 {
            return Ok(());
        }
        if self.under_way == 0 {
            self.last_word = now;
        }
        let sent = self.send(buffers, room)?;
        self.under_way += sent;
        tally.sent += sent as u64;
        Ok(())
    }

    fn send(&mut self, buffers: &mut Buffers, count: usize) -> Result<usize, Failure> {
        let mut id = self.next_id;
        for query in buffers.queries.iter_mut().take(count) {
            if let Some(place) = query.first_chunk_mut() {
                *place = id.to_be_bytes();
            }
            id = id.wrapping_add(1);
        }
        let slices: ArrayVec<[IoSlice<'_>; 1], BATCH> =
            buffers.queries.iter().take(count).map(|query| [IoSlice::new(query)]).collect();
        let to = [const { None::<()> }; BATCH];
        let flags = MsgFlags::MSG_DONTWAIT;
        let sent = sendmmsg(self.socket.as_raw_fd(), &mut buffers.sending, slices.iter(), to, [], flags);
        let sent = sent.map(Iterator::count);
        let sent = nothing_yet(sent).map_err(Failure::system("send"))?;
        self.next_id = self.next_id.wrapping_add(u16::try_from(sent).unwrap_or(0));
        Ok(sent)
    }

    fn receive(&mut self, buffers: &mut Buffers, tally: &mut Tally) -> Result<usize, Failure> {
        let mut slices = buffers.replies.each_mut().map(|reply| [IoSliceMut::new(reply)]);
        let flags = MsgFlags::MSG_DONTWAIT;
        let received =
            recvmmsg(self.socket.as_raw_fd(), &mut buffers.receiving, slices.iter_mut(), flags, None);
        let lengths = received.map(|all| all.map(|one| one.bytes).collect::<ArrayVec<usize, BATCH>>());
        let lengths = nothing_yet(lengths).map_err(Failure::system("receive"))?;
        for (reply, length) in buffers.replies.iter().zip(&lengths) {
            tally.wrong += u64::from(!reply.get(..*length).is_some_and(is_answer));
        }
        tally.received += lengths.len() as u64;
        self.under_way = self.under_way.saturating_sub(lengths.len());
        Ok(lengths.len())
    }
}

/// A full or an empty queue is no failure, nor is a port that was closed a moment ago.
fn nothing_yet<T: Default>(result: nix::Result<T>) -> std::io::Result<T> {
    match result {
        Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR | Errno::ECONNREFUSED) => Ok(T::default()),
        other => other.map_err(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NAME, Query, query};
    use std::net::UdpSocket;

    /// A server that answers every query but each `leaves_out`th, until its socket is quiet.
    fn server(leaves_out: Option<u64>, rcode: u8) -> (SocketAddrV4, std::thread::JoinHandle<u64>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let SocketAddr::V4(address) = socket.local_addr().unwrap() else { panic!("not IPv4") };
        let serve = move || {
            let (mut buffer, mut asked) = ([0; 512], 0);
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                asked += 1;
                if leaves_out.is_none_or(|n| asked % n != 0) {
                    (buffer[2], buffer[3], buffer[7]) = (0x84, rcode, 1);
                    socket.send_to(&buffer[..len], from).unwrap();
                }
            }
            asked
        };
        (address, std::thread::spawn(serve))
    }

    fn load(server: SocketAddrV4, window: usize) -> Tally {
        let load = Load { query: query(NAME, Query::Plain), window };
        let mut generator = Generator::connect(server, &load).unwrap();
        generator.run(Duration::from_millis(300), &Interrupt::default()).unwrap()
    }

    #[test]
    fn every_query_is_counted_once_when_sent_and_once_when_answered() {
        let (address, server) = server(None, 0);
        let tally = load(address, 64);
        assert!(tally.sent > 64, "{tally:?}");
        assert_eq!((tally.received, tally.wrong), (tally.sent, 0));
        assert_eq!(server.join().unwrap(), tally.sent);
    }

    #[test]
    fn what_is_not_answered_is_missing_and_does_not_stop_the_loop() {
        let (address, server) = server(Some(50), 0);
        let tally = load(address, 64);
        assert_eq!(server.join().unwrap(), tally.sent);
        assert_eq!(tally.received, tally.sent - tally.sent / 50);
    }

    #[test]
    fn an_error_is_no_answer() {
        let (address, server) = server(None, 5);
        let tally = load(address, 8);
        server.join().unwrap();
        assert!(tally.received > 0);
        assert_eq!(tally.wrong, tally.received);
    }

    #[test]
    fn no_server_means_no_answers_and_no_failure() {
        let port = crate::ports::free(&[std::net::Ipv4Addr::LOCALHOST]).unwrap();
        let tally = load(SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, port), 8);
        assert_eq!(tally.received, 0);
    }
}
