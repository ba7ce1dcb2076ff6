//! Errors and answers in words for an operator.

use nix::errno::Errno;
use std::io::{self, ErrorKind};

/// Bytes of an answer that are shown where another was expected.
const SHOWN: usize = 80;

/// An error of a connection, without the system's error number.
pub(crate) fn words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".into(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => "connection reset".into(),
        ErrorKind::HostUnreachable => "no route to host".into(),
        ErrorKind::NetworkUnreachable => "network unreachable".into(),
        kind => match error.raw_os_error() {
            Some(number) => Errno::from_raw(number).desc().to_lowercase(),
            None => kind.to_string(),
        },
    }
}

/// The beginning of what came, in quotes, with all that is no plain character written as an escape.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let (shown, more) = match bytes.split_at_checked(SHOWN) {
        Some((shown, [_, ..])) => (shown, "…"),
        Some(_) | None => (bytes, ""),
    };
    format!("\"{}\"{more}", shown.escape_ascii())
}

/// A line of somebody else's text, without control characters, cut where it gets long.
pub(super) fn plain(line: &str) -> String {
    line.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno as i32)
    }

    #[test]
    fn reasons_read_as_words() {
        assert_eq!(words(&os(Errno::ECONNREFUSED)), "connection refused");
        assert_eq!(words(&os(Errno::EHOSTUNREACH)), "no route to host");
        assert_eq!(words(&os(Errno::EPROTO)), "protocol error");
    }

    #[test]
    fn what_a_stranger_wrote_is_shown_without_its_effects() {
        assert_eq!(quoted(b"-ERR\r\n\x1b[2J"), r#""-ERR\r\n\x1b[2J""#);
        assert_eq!(quoted(&[b'a'; 80]), format!("\"{}\"", "a".repeat(80)));
        assert_eq!(quoted(&[b'a'; 81]), format!("\"{}\"…", "a".repeat(80)));
        assert_eq!(plain("OK\x1b[2J \u{7}done\n"), "OK [2J  done");
    }
}
