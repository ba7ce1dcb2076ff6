//! The admin API of a node, asked from its own loopback.

use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What the admin API said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: String,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> io::Result<Value> {
        serde_json::from_str(&self.body).map_err(|error| invalid(format!("{error} in {}", self.body)))
    }

    fn read(response: &str) -> io::Result<Answer> {
        let (head, body) =
            response.split_once("\r\n\r\n").ok_or_else(|| invalid("no end of head".to_owned()))?;
        let status = head.split_ascii_whitespace().nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| invalid(format!("no status in {head:?}")))?;
        Ok(Answer { status, body: body.to_owned() })
    }
}

/// GETs `path`, from the namespace of the calling thread. In HTTP/1.0, so that the body simply ends with the connection.
pub fn get(server: SocketAddr, path: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {server}\r\nConnection: close\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Answer::read(&response)
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_body_are_told_apart() {
        let answer = Answer::read("HTTP/1.0 503 Service Unavailable\r\nA: b\r\n\r\n{\"ready\":false}")
            .expect("answer");
        assert_eq!(answer.status, 503);
        assert_eq!(answer.json().expect("JSON")["ready"], false);
        assert!(Answer::read("HTTP/1.0 200 OK\r\n").is_err());
        assert!(Answer::read("nonsense\r\n\r\n").is_err());
    }
}
