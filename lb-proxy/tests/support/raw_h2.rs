//! HTTP/2 by hand: frames and headers that no library would write.

use super::{Running, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// A response with status 200.
    Answered,
    /// A response with another status.
    Refused,
    /// Its stream was reset.
    Reset,
    /// The connection was ended.
    Closed,
}

/// A connection that has said its preface, and everything the server needs to go on.
pub async fn connect(running: &Running) -> TcpStream {
    let mut stream = running.connect().await;
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await.unwrap();
    stream
}

/// Sends one request on a connection of its own, headers and data as they are given, and tells its fate.
pub async fn ask(running: &Running, headers: &[(&str, &str)], data: Option<&[u8]>) -> Fate {
    let mut stream = connect(running).await;
    let end = if data.is_some() { 0 } else { END_STREAM };
    let mut all = frame(HEADERS, END_HEADERS | end, 1, &block(headers));
    if let Some(data) = data {
        all.extend(frame(DATA, END_STREAM, 1, data));
    }
    let _ = stream.write_all(&all).await; // the server may have closed at the first bytes
    within(fate(&mut stream)).await
}

async fn fate(stream: &mut TcpStream) -> Fate {
    let mut head = [0; 9];
    while stream.read_exact(&mut head).await.is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        if stream.read_exact(&mut payload).await.is_err() {
            break;
        }
        match (head[3], head[8]) {
            (HEADERS, 1) if payload[0] == 0x88 => return Fate::Answered, // the static table's `:status: 200`
            (HEADERS, 1) => return Fate::Refused,
            (RST_STREAM, 1) => return Fate::Reset,
            (GOAWAY, _) => return Fate::Closed,
            _ => (),
        }
    }
    Fate::Closed
}

/// A frame of RFC 9113 section 4.1.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Headers without compression (RFC 7541 section 6.2.2).
pub fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(0);
        for text in [name, value] {
            integer(&mut block, text.len());
            block.extend(text.as_bytes());
        }
    }
    block
}

/// RFC 7541 section 5.1, with a prefix of seven bits.
fn integer(block: &mut Vec<u8>, value: usize) {
    match value.checked_sub(127) {
        None => block.push(u8::try_from(value).unwrap()),
        Some(mut rest) => {
            block.push(127);
            while rest >= 128 {
                block.push(u8::try_from(rest % 128 + 128).unwrap());
                rest /= 128;
            }
            block.push(u8::try_from(rest).unwrap());
        }
    }
}
