//! Services: written by hand, so that each byte and each pause is the test's own.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A service on a port of its own. Dropping it closes its listener and all of its connections.
pub struct Service {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

/// One connection to a service.
pub struct Connection {
    pub stream: BufStream<TcpStream>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Service {
    /// Each connection is given to `each`.
    pub async fn start<F>(each: impl Fn(Connection) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::on("127.0.0.1:0".parse().unwrap(), each).await
    }

    pub async fn on<F>(at: SocketAddr, each: impl Fn(Connection) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, heads) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::default()));
        let (count, noted) = (connections.clone(), heads.clone());
        let task = tokio::spawn(async move {
            let mut open = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let (stream, _) = accepted.unwrap();
                        stream.set_nodelay(true).unwrap();
                        count.fetch_add(1, SeqCst);
                        open.spawn(each(Connection { stream: BufStream::new(stream), heads: noted.clone() }));
                    }
                    Some(ended) = open.join_next() => {
                        if let Err(error) = ended && error.is_panic() {
                            std::panic::resume_unwind(error.into_panic());
                        }
                    }
                }
            }
        });
        Service { address, connections, heads, task }
    }

    /// Answers every request with 200 and `text`, for as long as the connection is kept.
    pub async fn fixed(text: &'static str) -> Self {
        Self::start(move |mut connection| async move {
            while connection.request().await.is_some() {
                connection.respond(text).await;
            }
        })
        .await
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }

    /// The heads of all requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// The head of the next request; `None` at the end.
    pub async fn request(&mut self) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).unwrap();
        self.heads.lock().unwrap().push(head.clone());
        Some(head)
    }

    pub async fn respond(&mut self, text: &str) {
        let length = text.len();
        self.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}")).await;
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
        let _ = self.stream.flush().await;
    }

    pub async fn exactly(&mut self, bytes: usize) -> Vec<u8> {
        let mut all = vec![0; bytes];
        self.stream.read_exact(&mut all).await.unwrap();
        all
    }
}
