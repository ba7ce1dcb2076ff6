//! The first bytes of a connection: they tell HTTP/2 from HTTP/1.1.

use bytes::{Bytes, BytesMut};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// What a client of HTTP/2 says first (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// As much as is read at first: most heads of requests whole, so that they cost one read.
const FIRST: usize = 2048;

/// What was read, and whether it begins HTTP/2; `None` if the client left without a word.
pub(super) async fn peek(wire: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<(Bytes, bool)>> {
    let mut read = BytesMut::with_capacity(FIRST);
    loop {
        if wire.read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
        let common = read.iter().zip(PREFACE).take_while(|(a, b)| a == b).count();
        if common == PREFACE.len() || common < read.len() {
            return Ok(Some((read.freeze(), common == PREFACE.len())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn peeked(pieces: &[&[u8]]) -> Option<(Bytes, bool)> {
        let (mut near, mut far) = tokio::io::duplex(64);
        let mut pieces = pieces.iter();
        let write = async {
            for piece in &mut pieces {
                tokio::io::AsyncWriteExt::write_all(&mut near, piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            drop(near);
        };
        tokio::join!(peek(&mut far), write).0.unwrap()
    }

    #[tokio::test]
    async fn the_preface_is_known_in_pieces_too() {
        assert_eq!(
            peeked(&[b"PRI * HT", b"TP/2.0\r\n\r\nSM\r\n", b"\r\n"]).await,
            Some((Bytes::from_static(PREFACE), true))
        );
    }

    #[tokio::test]
    async fn what_begins_like_it_is_http_1_and_nothing_is_lost() {
        assert_eq!(peeked(&[b"P", b"OST / "]).await, Some((Bytes::from_static(b"POST / "), false)));
        assert_eq!(peeked(&[b"G"]).await, Some((Bytes::from_static(b"G"), false)));
        assert_eq!(peeked(&[]).await, None);
    }
}
