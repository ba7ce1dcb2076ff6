//! Reliability R7: a thousand clients of the admin API that never get to the point disturb neither others nor DNS.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod process;

use process::group::Group;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

const CLIENTS: usize = 1000;

const REQUEST: &[u8] =
    b"GET /v1/peers HTTP/1.1\r\nHost: localhost\r\nX-Padding: xxxxxxxxxxxxxxxxxxxxxxxxxxxx";

/// A query for gslb.test SOA.
const QUERY: &[u8] = b"\0\x07\0\0\0\x01\0\0\0\0\0\0\x04gslb\x04test\0\0\x06\0\x01";

/// How long so many queries took, one after the other, sorted.
fn query(socket: &UdpSocket, count: usize) -> Vec<Duration> {
    let ask = |_| {
        let asked = Instant::now();
        socket.send(QUERY).unwrap();
        let mut reply = [0; 512];
        let length = socket.recv(&mut reply).unwrap();
        assert_eq!((&reply[..2], reply[3] & 15, reply[7]), (&QUERY[..2], 0, 1), "{:?}", &reply[..length]);
        asked.elapsed()
    };
    let mut times: Vec<Duration> = (0..count).map(ask).collect();
    times.sort();
    times
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

/// How long a request takes from the connection to the end of the answer.
fn request(admin: SocketAddr) -> Duration {
    let asked = Instant::now();
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.write_all(b"GET /v1/peers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"ams/1\""), "{answer}");
    asked.elapsed()
}

#[test]
fn a_thousand_clients_that_send_a_byte_a_second_disturb_nobody() {
    let group = Group::start();
    let admin = group.admin(0);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.connect(group.dns(0)).unwrap();
    let quiet = query(&socket, 2000);

    let connect = || TcpStream::connect(admin).unwrap();
    let mut slow: Vec<(TcpStream, usize)> = (0..CLIENTS).map(|_| (connect(), 0)).collect();
    let (mut disturbed, mut slowest, mut closed) = (Vec::new(), Duration::ZERO, 0);
    for _ in 0..6 {
        let second = Instant::now();
        for (stream, sent) in &mut slow {
            if stream.write_all(&REQUEST[*sent..=*sent]).is_err() {
                // Whoever was cut off comes again.
                (*stream, *sent, closed) = (connect(), 0, closed + 1);
            } else {
                *sent += 1;
            }
        }
        while second.elapsed() < Duration::from_secs(1) {
            disturbed.extend(query(&socket, 100));
            slowest = slowest.max(request(admin));
        }
    }
    disturbed.sort();
    let [before, during] = [&quiet, &disturbed].map(|times| percentile(times, 99));
    println!(
        "DNS p99 {before:?} before, {during:?} during ({} queries, none lost); slowest admin answer {slowest:?}; \
         {closed} slow connections cut off",
        disturbed.len()
    );
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    // What the scheduler of a busy machine makes of either is more than the difference.
    assert!(during < before * 2 + Duration::from_millis(10), "{before:?} before, {during:?} during");
    assert!(closed > 0, "nobody had to make room");
}
