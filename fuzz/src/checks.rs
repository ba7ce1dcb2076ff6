//! Answers to the checks of monitors, from a server that says what it is told, over real sockets: whatever it says, the check
//! comes to an end, passes only with what it looks for, and gives no password away.

use gslb_types::{Check, DnsCheck, Exchange, FtpCheck, HttpCheck, Pattern, Receive, Secret};
use probes_core::wire::{CheckOutcome, CheckRequest, ProbeId};
use probes_io::{ProbeIo, Reply, Request, Settings};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A password that no text has by accident.
const PASSWORD: &str = "hush-7f3";

/// A server that closes is never waited for so long; one that sends a datagram that is none is.
const LIMIT: Duration = Duration::from_millis(500);
const DATAGRAM: Duration = Duration::from_millis(2);

/// How long the server waits for a question that does not come.
const HEARS: Duration = Duration::from_millis(5);

/// What parts of an answer lie apart by: the next question is waited for.
const PART: &[u8] = b"\xff\n";

struct Scene {
    runtime: Runtime,
    _io: ProbeIo,
    requests: mpsc::Sender<Request>,
    replies: Mutex<mpsc::Receiver<Reply>>,
    port: u16,
    says: Arc<Mutex<Vec<u8>>>,
}

fn scene() -> &'static Scene {
    static SCENE: OnceLock<Scene> = OnceLock::new();
    SCENE.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a listener");
        let port = listener.local_addr().expect("an address").port();
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).expect("a socket");
        let says = Arc::new(Mutex::new(Vec::new()));
        let (tcp, udp) = (Arc::clone(&says), Arc::clone(&says));
        std::thread::spawn(move || {
            listener.incoming().flatten().for_each(|stream| serve(&stream, &told(&tcp)))
        });
        std::thread::spawn(move || {
            let mut query = [0; 512];
            while let Ok((_, from)) = socket.recv_from(&mut query) {
                // Its id is the one thing that only the query knows.
                let _ = socket.send_to(&[&query[..2], &told(&udp)].concat(), from);
            }
        });
        let (requests, requested) = mpsc::channel(1);
        let (replied, replies) = mpsc::channel(1);
        let entered = runtime.enter();
        let io = ProbeIo::start(Settings::default(), requested, replied, &CancellationToken::new());
        drop(entered);
        Scene { runtime, _io: io.expect("it starts"), requests, replies: Mutex::new(replies), port, says }
    })
}

fn told(says: &Mutex<Vec<u8>>) -> Vec<u8> {
    says.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Part by part, each after a question but for a greeting, which a "G" marks, and closes.
fn serve(mut stream: &TcpStream, says: &[u8]) {
    let _ = stream.set_read_timeout(Some(HEARS));
    let (is_greeting, says) = says.strip_prefix(b"G").map_or((false, says), |says| (true, says));
    let mut parts = Vec::new();
    let mut rest = says;
    while let Some(at) = rest.windows(PART.len()).position(|window| window == PART) {
        parts.push(&rest[..at]);
        rest = &rest[at + PART.len()..];
    }
    parts.push(rest);
    for (nth, part) in parts.into_iter().enumerate() {
        let hears = nth > 0 || !is_greeting;
        if hears && !matches!(stream.read(&mut [0; 2048]), Ok(1..)) || stream.write_all(part).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    while matches!(stream.read(&mut [0; 2048]), Ok(1..)) {}
}

/// The check that the first byte says, of a server that says the rest.
pub fn run(data: &[u8]) {
    let Some((kind, said)) = data.split_first() else { return };
    let bytes = Receive { pattern: Pattern::Bytes(b"PONG".to_vec()), reverse: false };
    let ends = Receive { pattern: Pattern::Regex("^PONG$".to_owned()), reverse: false };
    let send = b"PING".to_vec();
    let (check, says, limit) = match kind % 6 {
        0 => (Check::TcpEcv(Exchange { send, receive: bytes }), said.to_vec(), LIMIT),
        1 => (Check::TcpEcv(Exchange { send, receive: ends }), said.to_vec(), LIMIT),
        2 => (Check::Http(HttpCheck::get("/")), said.to_vec(), LIMIT),
        3 => (Check::Http(HttpCheck { receive: Some(bytes), ..HttpCheck::get("/") }), said.to_vec(), LIMIT),
        4 => {
            let (name, addresses) =
                ("www.example.".to_owned(), vec!["192.0.2.1".parse().expect("an address")]);
            (
                Check::Dns(DnsCheck { name, rtype: 1, recurse: false, rcode: 0, addresses }),
                said.to_vec(),
                DATAGRAM,
            )
        }
        _ => {
            let password = Secret::new(PASSWORD.to_owned());
            let check = Check::Ftp(FtpCheck { user: "probe".to_owned(), password });
            (check, [b"G", said].concat(), LIMIT)
        }
    };
    let outcome = seen(check, says, limit);
    let holds = |text: &[u8]| said.windows(text.len()).any(|window| window == text);
    match outcome {
        CheckOutcome::Passed(_) => match kind % 6 {
            0 | 1 => assert!(holds(b"PONG")),
            // Chunks may part it.
            3 => assert!(holds(b"HTTP/1.") && b"PONG".iter().all(|byte| holds(&[*byte]))),
            2 => assert!(holds(b"HTTP/1.")),
            4 => assert!(holds(&[192, 0, 2, 1])),
            _ => assert!(holds(b"220") && (holds(b"230") || holds(b"202"))),
        },
        CheckOutcome::Failed(why) => {
            assert!(!why.is_empty() && why.len() < 2_000 && !why.chars().any(char::is_control), "{why:?}");
            // It is known to ftp alone.
            assert!(kind % 6 != 5 || !why.contains(PASSWORD), "{why:?}");
        }
        // Nothing that a server says is a fault of ours, let alone breaks the check.
        other => panic!("{other:?}"),
    }
}

fn seen(check: Check, says: Vec<u8>, timeout: Duration) -> CheckOutcome {
    let scene = scene();
    *scene.says.lock().unwrap_or_else(PoisonError::into_inner) = says;
    let mut replies = scene.replies.lock().unwrap_or_else(PoisonError::into_inner);
    // Another address each time: the ports of one would soon all be waiting.
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let [_, a, b, c] = (n % 0xff_0000 + 1).to_be_bytes();
    let target = SocketAddr::from(([127, a, b, c], scene.port));
    let request = CheckRequest { id: ProbeId(n.into()), check: check.into(), target, source: None, timeout };
    scene.runtime.block_on(async {
        scene.requests.send(Request::Check(request)).await.expect("it runs");
        match replies.recv().await {
            Some(Reply::Check(reply)) => reply.outcome,
            other => panic!("{other:?}"),
        }
    })
}

/// An answer to each check that passes, and some that do not.
pub fn seeds() -> Vec<Vec<u8>> {
    let dns = [
        &b"\x04\x84\x00\x00\x01\x00\x01\x00\x00\x00\x00"[..],
        b"\x03www\x07example\x00\x00\x01\x00\x01\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\xc0\x00\x02\x01",
    ];
    [
        &b"\x00+PONG\r\n"[..],
        b"\x01PONG",
        b"\x02HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"\x02HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
        b"\x03HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n+PONG\r\n0\r\nX: y\r\n\r\n",
        &dns.concat(),
        b"\x05220-Welcome\r\n220 hi\r\n\xff\n331 go on\r\n\xff\n230-motd\r\n230 in\r\n",
        b"\x05220 hi\r\n\xff\n331 go on\r\n\xff\n530 hush-7f3 is not it, hush-7f3 \r\n",
        b"\x05120 soon\r\n220 hi\r\n\xff\n230 in\r\n",
    ]
    .map(<[u8]>::to_vec)
    .into()
}
