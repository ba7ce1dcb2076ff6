//! Clients that ask again as soon as they have an answer, and how long each answer took.

use super::services::head_end;
use crate::Failure;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// What one client sends; HTTP/1.1 keeps the connection.
const REQUEST: &[u8] =
    b"GET /index.html HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";

/// A client that has waited this long for an answer has lost it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How clients connect.
#[derive(Clone)]
pub(crate) enum Manner {
    /// One connection for all requests of a client.
    Keep,
    /// One connection for each request.
    Renew,
    /// One connection for all, in TLS.
    Tls(Arc<rustls::ClientConfig>),
}

/// What came of a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answers {
    /// How long each took, in microseconds.
    pub(crate) micros: Vec<u32>,
    /// Requests without a whole answer of status 200.
    pub(crate) failed: u64,
}

/// So many clients for so long.
pub(crate) async fn load(
    to: SocketAddr,
    manner: &Manner,
    clients: usize,
    time: Duration,
) -> Result<Answers, Failure> {
    let end = Instant::now() + time;
    let mut running = JoinSet::new();
    for _ in 0..clients {
        running.spawn(client(to, manner.clone(), end));
    }
    let mut all = Answers::default();
    while let Some(answers) = running.join_next().await {
        let answers =
            answers.map_err(|e| Failure::System("a client".to_owned(), std::io::Error::other(e)))?;
        all.micros.extend(answers.micros);
        all.failed += answers.failed;
    }
    Ok(all)
}

async fn client(to: SocketAddr, manner: Manner, end: Instant) -> Answers {
    let mut answers = Answers::default();
    while Instant::now() < end {
        let done = tokio::time::timeout(
            end.saturating_duration_since(Instant::now()) + PATIENCE,
            connection(to, &manner, end, &mut answers.micros),
        );
        if !matches!(done.await, Ok(Ok(()))) {
            answers.failed += 1;
        }
    }
    answers
}

/// A connection for as many requests as the manner wants.
async fn connection(
    to: SocketAddr,
    manner: &Manner,
    end: Instant,
    micros: &mut Vec<u32>,
) -> std::io::Result<()> {
    let begun = Instant::now();
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    match manner {
        Manner::Renew => {
            let mut stream = stream;
            request(&mut stream).await?;
            micros.push(since(begun));
            // A reset leaves no port in TIME_WAIT: there are only 28,000.
            stream.set_zero_linger()
        }
        Manner::Keep => ask_until(end, stream, micros).await,
        Manner::Tls(config) => {
            let name = ServerName::try_from("www.example.com").map_err(std::io::Error::other)?;
            let stream = TlsConnector::from(config.clone()).connect(name, stream).await?;
            ask_until(end, stream, micros).await
        }
    }
}

async fn ask_until(
    end: Instant,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    micros: &mut Vec<u32>,
) -> std::io::Result<()> {
    while Instant::now() < end {
        let begun = Instant::now();
        request(&mut stream).await?;
        micros.push(since(begun));
    }
    Ok(())
}

/// One request and its whole answer.
async fn request(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> std::io::Result<()> {
    stream.write_all(REQUEST).await?;
    stream.flush().await?;
    let (mut buffer, mut filled) = ([0; 4096], 0);
    loop {
        let room = buffer.get_mut(filled..).filter(|room| !room.is_empty());
        let got = stream.read(room.ok_or(std::io::ErrorKind::InvalidData)?).await?;
        filled += got;
        let bytes = buffer.get(..filled).unwrap_or_default();
        match whole(bytes) {
            Some(true) => return Ok(()),
            Some(false) => return Err(std::io::ErrorKind::InvalidData.into()),
            None if got == 0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            None => {}
        }
    }
}

/// Whether these bytes are a whole answer of status 200; `None` if more must come.
fn whole(bytes: &[u8]) -> Option<bool> {
    let end = head_end(bytes)?;
    let head = String::from_utf8_lossy(bytes.get(..end)?).to_ascii_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    match length {
        Some(length) if head.starts_with("http/1.1 200 ") => (bytes.len() >= end + length).then_some(true),
        Some(_) | None => Some(false),
    }
}

fn since(begun: Instant) -> u32 {
    u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_with_its_last_byte() {
        assert_eq!(whole(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nx"), None);
        assert_eq!(whole(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nxx"), Some(true));
        assert_eq!(whole(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), Some(false));
        assert_eq!(whole(b"HTTP/1.1 200 OK\r\n\r\n"), Some(false), "no length: not the services' page");
    }

    #[tokio::test]
    async fn clients_are_answered_by_the_services() {
        let services = crate::proxy::services::start().await.unwrap();
        for manner in [Manner::Keep, Manner::Renew] {
            let answers = load(services[0], &manner, 3, Duration::from_millis(50)).await.unwrap();
            assert!(answers.micros.len() >= 3, "{}", answers.micros.len());
            assert_eq!(answers.failed, 0);
        }
    }
}
