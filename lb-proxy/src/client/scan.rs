//! Looks for heads of requests whose length can be read in two ways.
//!
//! hyper reads `Transfer-Encoding` and drops `Content-Length` where both are given, and drops repeated lengths; what it
//! passes on is clean, but a proxy or cache in front may have read the other one and taken what follows for its own (request
//! smuggling, RFC 9112 section 11.2). Such requests are refused, and hyper's parsed headers no longer show them: so the bytes
//! are looked at as they come in. A head that comes in one piece with the request before it is not looked at; hyper closes the
//! connection after one with both.

use memchr::memchr;

/// Follows one head, in whatever pieces it comes.
#[derive(Debug, Default)]
pub(crate) struct HeadScan {
    /// The first bytes of the line under way.
    line: [u8; NAME],
    filled: usize,
    lengths: u8,
    codings: u8,
    /// What follows the empty line is body, or the next head: neither is this head's.
    is_over: bool,
    has_begun: bool,
}

/// The longer of the two names, with its colon.
const NAME: usize = b"transfer-encoding:".len();

impl HeadScan {
    /// Another piece of the head came.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while !self.is_over
            && let Some(end) = memchr(b'\n', bytes)
        {
            let (line, rest) = bytes.split_at(end + 1);
            self.begin(line);
            self.end_line();
            bytes = rest;
        }
        self.begin(bytes);
    }

    /// Whether what came so far can be read in two ways.
    pub(crate) fn has_flaw(&self) -> bool {
        self.lengths > 1 || self.codings > 1 || (self.lengths > 0 && self.codings > 0)
    }

    /// Notes as much of a line as its name can be long.
    fn begin(&mut self, piece: &[u8]) {
        if let Some(room) = self.line.get_mut(self.filled..) {
            let taken = room.len().min(piece.len());
            for (to, from) in room.iter_mut().zip(piece) {
                *to = from.to_ascii_lowercase();
            }
            self.filled += taken;
        }
    }

    fn end_line(&mut self) {
        let line = self.line.get(..self.filled).unwrap_or_default();
        if line.starts_with(b"content-length:") {
            self.lengths = self.lengths.saturating_add(1);
        } else if line.starts_with(b"transfer-encoding:") {
            self.codings = self.codings.saturating_add(1);
        }
        let is_empty = matches!(line, b"\n" | b"\r\n");
        self.is_over = is_empty && self.has_begun;
        self.has_begun |= !is_empty;
        self.filled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaw(head: &str) -> bool {
        let mut whole = HeadScan::default();
        whole.feed(head.as_bytes());
        let mut by_byte = HeadScan::default();
        for byte in head.as_bytes().chunks(1) {
            by_byte.feed(byte);
        }
        assert_eq!(whole.has_flaw(), by_byte.has_flaw(), "{head:?}");
        whole.has_flaw()
    }

    #[test]
    fn one_length_or_one_coding_is_no_flaw() {
        assert!(!flaw("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(!flaw("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n"));
        assert!(!flaw("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"));
        assert!(!flaw("POST / HTTP/1.1\r\nX: content-length: 1\r\nContent-Length: 3\r\n\r\n"));
    }

    #[test]
    fn what_follows_the_head_is_not_the_heads() {
        assert!(!flaw(
            "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nContent-Length: 3\r\nTransfer-Encoding: x\r\n"
        ));
        assert!(!flaw("POST / HTTP/1.1\nContent-Length: 9\n\nContent-Length: 3\n"));
        // An empty line before the request is none after it (RFC 9112 section 2.2).
        assert!(flaw("\r\nPOST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n"));
    }

    #[test]
    fn both_or_either_twice_is_a_flaw_however_it_is_written() {
        assert!(flaw("POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"));
        assert!(flaw("POST / HTTP/1.1\nTRANSFER-ENCODING:chunked\ncontent-length:3\n\n"));
        assert!(flaw("POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n"));
        assert!(flaw(
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nA: b\r\nTransfer-Encoding: identity\r\n\r\n"
        ));
    }
}
