//! What a monitor does: the kinds of checks, and what each must see to pass (behaviour 5).
//!
//! The configuration speaks of them, the monitor machine asks for them, and the sender of checks does them.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// One health check. The span each kind measures is behaviour 5's table.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Check {
    /// Echo request to echo reply.
    Ping,
    /// SYN to SYN-ACK.
    Tcp,
    /// Text sent to text received, over TCP.
    TcpEcv(Exchange),
    /// The same over UDP; the text must stand in one datagram.
    UdpEcv(Exchange),
    /// Request to response, on an established connection: `http`, `https`, and the two that look into the body.
    Http(HttpCheck),
    /// Query to response.
    Dns(DnsCheck),
    /// SYN to the end of the TLS handshake.
    Ssl(TlsCheck),
    /// User name sent to login complete.
    Ftp(FtpCheck),
    /// Start of a command to its verdict.
    User(UserCheck),
}

impl Check {
    /// The word for its kind, as the configuration has it.
    pub fn kind(&self) -> &'static str {
        match self {
            Check::Ping => "ping",
            Check::Tcp => "tcp",
            Check::TcpEcv(_) => "tcp-ecv",
            Check::UdpEcv(_) => "udp-ecv",
            Check::Http(HttpCheck { tls: None, receive: None, .. }) => "http",
            Check::Http(HttpCheck { tls: Some(_), receive: None, .. }) => "https",
            Check::Http(HttpCheck { tls: None, receive: Some(_), .. }) => "http-ecv",
            Check::Http(HttpCheck { tls: Some(_), receive: Some(_), .. }) => "https-ecv",
            Check::Dns(_) => "dns",
            Check::Ssl(_) => "ssl",
            Check::Ftp(_) => "ftp",
            Check::User(_) => "user",
        }
    }
}

/// What an answer must hold, or must not.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Receive {
    /// What is looked for in what comes.
    pub pattern: Pattern,
    /// Whether finding it is the failure. An answer without it passes then; no answer fails all the same.
    pub reverse: bool,
}

/// What is looked for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// These bytes, anywhere.
    Bytes(Vec<u8>),
    /// A regular expression over bytes, in the syntax of the `regex` crate.
    Regex(String),
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Bytes(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Pattern::Regex(regex) => write!(f, "/{regex}/"),
        }
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What is said, and what must come back.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Exchange {
    /// Sent once connected; over TCP it may be nothing, for servers that speak first.
    pub send: Vec<u8>,
    /// What must come back.
    pub receive: Receive,
}

/// One HTTP/1.1 request, and which responses pass.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HttpCheck {
    /// TLS around it.
    pub tls: Option<TlsCheck>,
    /// The method.
    pub method: String,
    /// Origin-form target: `/health`.
    pub path: String,
    /// The Host field; the target's address if empty.
    pub host: String,
    /// More fields, in order. One that is set by itself (Host, User-Agent, Connection) is replaced.
    pub headers: Vec<(String, String)>,
    /// The request's body.
    pub body: Vec<u8>,
    /// Status codes that pass; any 2xx if empty.
    pub expect: Vec<u16>,
    /// What the response's body must hold, or must not.
    pub receive: Option<Receive>,
}

impl HttpCheck {
    /// A plain GET for this target; any 2xx passes.
    pub fn get(path: &str) -> Self {
        HttpCheck {
            tls: None,
            method: "GET".to_owned(),
            path: path.to_owned(),
            host: String::new(),
            headers: Vec::new(),
            body: Vec::new(),
            expect: Vec::new(),
            receive: None,
        }
    }
}

/// How TLS is spoken.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct TlsCheck {
    /// The name for SNI, which is also the one that the certificate must hold if it is verified. Without one no name is
    /// sent, and the certificate must hold the address.
    pub server_name: String,
    /// The CA certificates (a PEM file) that the server's must descend from; not verified at all if `None`.
    pub verify: Option<PathBuf>,
}

/// A DNS query, and which answers pass.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DnsCheck {
    /// The name asked for, absolute.
    pub name: String,
    /// TYPE.
    pub rtype: u16,
    /// Whether recursion is asked for.
    pub recurse: bool,
    /// The rcode that passes.
    pub rcode: u16,
    /// Addresses of which one at least must stand in the answer; any answer passes if empty.
    pub addresses: Vec<IpAddr>,
}

/// An FTP login (RFC 959 section 5.4).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FtpCheck {
    /// USER.
    pub user: String,
    /// PASS.
    pub password: Secret,
}

/// A command by the rules of the Monitoring Plugins.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UserCheck {
    /// The program, by its whole path, and its arguments. `{address}` and `{port}` stand for the target's.
    pub command: Vec<String>,
    /// Who runs it, if this process may choose; else it is the process's own user.
    pub run_as: String,
    /// The label of the performance data whose value, which must have a unit of time, is the response time in place of
    /// the measured one.
    pub perf_label: Option<String>,
    /// The label of the performance data whose value is the service's load, by the operator's own reckoning: whatever its unit.
    pub load_label: Option<String>,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Secret(String);

impl Secret {
    /// Takes it in.
    pub fn new(text: String) -> Self {
        Secret(text)
    }

    /// For whoever has to send it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let check = FtpCheck { user: "probe".to_owned(), password: Secret::new("hush".to_owned()) };
        let shown = format!("{:?}", Check::Ftp(check.clone()));
        assert!(shown.contains("probe") && shown.contains("***") && !shown.contains("hush"), "{shown}");
        assert_eq!(check.password.reveal(), "hush");
    }

    #[test]
    fn a_pattern_is_shown_as_one_writes_it() {
        assert_eq!(Pattern::Bytes(b"+PONG\r\n\x01".to_vec()).to_string(), r#""+PONG\r\n\x01""#);
        assert_eq!(Pattern::Regex("^ok$".to_owned()).to_string(), "/^ok$/");
    }

    #[test]
    fn the_kinds_of_http_are_told_by_what_they_hold() {
        let receive = Receive { pattern: Pattern::Bytes(b"ok".to_vec()), reverse: false };
        let plain = HttpCheck::get("/");
        let ecv = HttpCheck { receive: Some(receive), ..plain.clone() };
        let tls = |check: HttpCheck| HttpCheck { tls: Some(TlsCheck::default()), ..check };
        let kinds = [plain.clone(), ecv.clone(), tls(plain), tls(ecv)].map(|c| Check::Http(c).kind());
        assert_eq!(kinds, ["http", "http-ecv", "https", "https-ecv"]);
    }
}
