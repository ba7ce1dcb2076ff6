//! Asks the admin API of a node on this machine.

use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::Duration;

/// How long the API may take.
const WAIT: Duration = Duration::from_secs(2);

/// The body of a successful answer.
pub(crate) fn get(address: SocketAddrV4, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address.into(), WAIT)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    // HTTP/1.0: the answer comes in one piece and ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    body(&answer).map(str::to_owned).ok_or_else(|| io::Error::other(first_line(&answer).to_owned()))
}

fn body(answer: &str) -> Option<&str> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    (first_line(head).split(' ').nth(1) == Some("200")).then_some(body)
}

fn first_line(answer: &str) -> &str {
    answer.lines().next().unwrap_or("no answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_successful_answer_has_a_body() {
        assert_eq!(body("HTTP/1.0 200 OK\r\na: b\r\n\r\n{}"), Some("{}"));
        assert_eq!(body("HTTP/1.0 404 Not Found\r\n\r\n{}"), None);
        assert_eq!(body(""), None);
    }
}
