//! Services: written by hand, so that each byte and each pause is the test's own.
//!
//! What a service asserts counts: its panic is kept, and raised again where the test drops the service.

use futures_util::FutureExt;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A service on a port of its own. Dropping it closes its listener and all of its connections.
pub struct Service {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
    /// The first panic on any of its connections.
    panic: Arc<Mutex<Option<String>>>,
    /// Ends the listening.
    close: CancellationToken,
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
        let panic = Arc::<Mutex<Option<String>>>::default();
        let (count, noted, kept) = (connections.clone(), heads.clone(), panic.clone());
        let close = CancellationToken::new();
        let closed = close.clone();
        let task = tokio::spawn(async move {
            let (mut open, mut listener) = (JoinSet::new(), Some(listener));
            loop {
                let accept = async {
                    match &listener {
                        Some(listener) => listener.accept().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = closed.cancelled(), if listener.is_some() => listener = None,
                    accepted = accept => {
                        let (stream, _) = accepted.unwrap();
                        stream.set_nodelay(true).unwrap();
                        count.fetch_add(1, SeqCst);
                        let stream = BufStream::new(stream);
                        open.spawn(keep_panic(each(Connection { stream, heads: noted.clone() }), kept.clone()));
                    }
                    Some(_) = open.join_next() => {}
                }
            }
        });
        Service { address, connections, heads, panic, close, task }
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

    /// Listens no more; its connections stay.
    pub fn close(&self) {
        self.close.cancel();
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
        let panic = self.panic.lock().unwrap().take();
        if let Some(panic) = panic.filter(|_| !std::thread::panicking()) {
            panic!("in a service: {panic}");
        }
    }
}

/// Serves one connection; of several panics the first is kept.
async fn keep_panic(connection: impl Future<Output = ()>, kept: Arc<Mutex<Option<String>>>) {
    if let Err(panic) = AssertUnwindSafe(connection).catch_unwind().await {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        kept.lock().unwrap().get_or_insert(text.unwrap_or_default());
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
