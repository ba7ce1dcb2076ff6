//! What each kind of monitor does, from the keys that belong to it.

use super::text;
use crate::dname;
use crate::files::Files;
use crate::reader::{Item, Table};
use crate::settings;
use gslb_types::{
    Check, DnsCheck, Exchange, FtpCheck, HttpCheck, Pattern, Receive, Secret, TlsCheck, UserCheck,
};
use hickory_proto::rr::RecordType;
use std::net::IpAddr;
use std::str::FromStr;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Ping,
    Tcp,
    TcpEcv,
    UdpEcv,
    Http,
    Https,
    HttpEcv,
    HttpsEcv,
    Dns,
    Ssl,
    Ftp,
    User,
}

use Kind::{Dns, Ftp, Http, HttpEcv, Https, HttpsEcv, Ping, Ssl, Tcp, TcpEcv, UdpEcv, User};

const KINDS: [(&str, Kind); 12] = [
    ("ping", Ping),
    ("tcp", Tcp),
    ("tcp-ecv", TcpEcv),
    ("udp-ecv", UdpEcv),
    ("http", Http),
    ("https", Https),
    ("http-ecv", HttpEcv),
    ("https-ecv", HttpsEcv),
    ("dns", Dns),
    ("ssl", Ssl),
    ("ftp", Ftp),
    ("user", User),
];

const HTTP: &[Kind] = &[Http, Https, HttpEcv, HttpsEcv];
const TLS: &[Kind] = &[Https, HttpsEcv, Ssl];
const ECV: &[Kind] = &[TcpEcv, UdpEcv, HttpEcv, HttpsEcv];
const RAW: &[Kind] = &[TcpEcv, UdpEcv];

/// The keys that not every kind has, and which have them.
const KEYS: [(&str, &[Kind]); 23] = [
    ("path", HTTP),
    ("host", HTTP),
    ("expect", HTTP),
    ("method", HTTP),
    ("headers", HTTP),
    ("body", HTTP),
    ("server_name", TLS),
    ("verify", TLS),
    ("ca", TLS),
    ("send", RAW),
    ("receive", ECV),
    ("receive_regex", ECV),
    ("query", &[Dns]),
    ("query_type", &[Dns]),
    ("recurse", &[Dns]),
    ("rcode", &[Dns]),
    ("addresses", &[Dns]),
    ("user", &[Ftp]),
    ("password", &[Ftp]),
    ("password_file", &[Ftp]),
    ("command", &[User]),
    ("perf_label", &[User]),
    ("load_label", &[User]),
];

/// What a monitor does, and whether its outcome is turned round as a whole.
pub(super) struct Checked {
    pub(super) check: Check,
    pub(super) reverse: bool,
}

pub(super) fn check(t: &Table<'_>, files: &mut Files<'_>) -> Checked {
    // What belongs to a kind can be said only of one that is known.
    let Some(kind) = t.item("kind").and_then(|i| i.word(&KINDS)) else {
        return Checked { check: Check::Ping, reverse: false };
    };
    for (key, kinds) in KEYS.iter().filter(|(key, kinds)| t.gives(key) && !kinds.contains(&kind)) {
        t.refuse(key, format!("only for {}", of(kinds)));
    }
    if kind != User && t.gives("run_as") {
        t.refuse("run_as", format!("only for {}", of(&[User])));
    }
    let reverse = t.flag("reverse");
    let check = match kind {
        Ping => Check::Ping,
        Tcp => Check::Tcp,
        TcpEcv => Check::TcpEcv(exchange(t, kind, reverse)),
        UdpEcv => Check::UdpEcv(exchange(t, kind, reverse)),
        Http | HttpEcv => Check::Http(http(t, None, receive(t, kind, reverse))),
        Https | HttpsEcv => Check::Http(http(t, Some(tls(t)), receive(t, kind, reverse))),
        Dns => Check::Dns(dns(t)),
        Ssl => Check::Ssl(tls(t)),
        Ftp => Check::Ftp(ftp(t, files)),
        User => Check::User(user(t)),
    };
    // With a pattern only the pattern is turned round: a server that does not answer is never well.
    Checked { check, reverse: reverse && !ECV.contains(&kind) }
}

/// `kind = "http" or "https"`.
fn of(kinds: &[Kind]) -> String {
    let words = KINDS.iter().filter(|(_, kind)| kinds.contains(kind)).map(|(word, _)| format!("\"{word}\""));
    format!("kind = {}", words.collect::<Vec<_>>().join(" or "))
}

fn exchange(t: &Table<'_>, kind: Kind, reverse: bool) -> Exchange {
    let send = t.parsed("send", text::unescaped).unwrap_or_default();
    if kind == UdpEcv && send.is_empty() && t.gives("kind") {
        t.refuse("send", "missing, kind = \"udp-ecv\" has no other way to ask for an answer");
    }
    let nothing = || Receive { pattern: Pattern::Bytes(Vec::new()), reverse };
    Exchange { send, receive: receive(t, kind, reverse).unwrap_or_else(nothing) }
}

/// What must come back: required of the kinds that look for it (behaviour 5).
fn receive(t: &Table<'_>, kind: Kind, reverse: bool) -> Option<Receive> {
    if !ECV.contains(&kind) {
        return None;
    }
    let pattern = match (t.gives("receive"), t.gives("receive_regex")) {
        (true, true) => {
            t.refuse("receive_regex", "receive is given already, and only one of the two can be looked for");
            None
        }
        (true, false) => t.parsed("receive", text::unescaped).map(Pattern::Bytes),
        (false, true) => t.parsed("receive_regex", text::regex).map(Pattern::Regex),
        (false, false) => {
            t.refuse(
                "receive",
                format!("missing, {} looks for it (or for receive_regex) in the answer", of(&[kind])),
            );
            None
        }
    };
    if pattern == Some(Pattern::Bytes(Vec::new())) {
        t.refuse("receive", "must not be empty: every answer holds nothing");
    }
    Some(Receive { pattern: pattern.unwrap_or(Pattern::Bytes(Vec::new())), reverse })
}

fn http(t: &Table<'_>, tls: Option<TlsCheck>, receive: Option<Receive>) -> HttpCheck {
    let header = |i: &Item<'_>| i.parsed(text::header);
    let method = t.parsed("method", text::method).unwrap_or_default();
    if method == "HEAD" && receive.is_some() {
        t.refuse("method", "the answer to HEAD has no body to look into");
    }
    HttpCheck {
        tls,
        method,
        path: t.parsed("path", text::path).unwrap_or_default(),
        host: t.parsed("host", text::host).unwrap_or_default(),
        headers: t.distinct("headers", header),
        body: t.parsed("body", text::unescaped).unwrap_or_default(),
        expect: t.distinct("expect", |i| i.number(100..=599)),
        receive,
    }
}

/// TLS. The name is that of the Host field unless another is given.
fn tls(t: &Table<'_>) -> TlsCheck {
    let verify = t.flag("verify");
    let ca = t.item("ca").and_then(|i| settings::path(&i, None));
    match (verify, t.gives("ca")) {
        (true, false) => t.refuse(
            "ca",
            "missing, verify = true needs the CA certificates, such as \"/etc/ssl/certs/ca-certificates.crt\"",
        ),
        (false, true) => t.refuse("ca", "is used only with verify = true"),
        (true, true) | (false, false) => {}
    }
    let host = || t.text("host").map(|host| text::without_port(&host).to_owned()).unwrap_or_default();
    TlsCheck {
        server_name: t.parsed("server_name", text::server_name).unwrap_or_else(host),
        verify: ca.filter(|_| verify),
    }
}

fn dns(t: &Table<'_>) -> DnsCheck {
    if !t.gives("query") {
        t.refuse("query", "missing, kind = \"dns\" asks for this name");
    }
    let record_type = |text: &str| {
        let known = RecordType::from_str(&text.to_uppercase()).map(u16::from).ok();
        let numbered = || text.to_uppercase().strip_prefix("TYPE").and_then(|n| n.parse().ok());
        known
            .or_else(numbered)
            .ok_or_else(|| format!("'{text}' is no record type, as in \"A\" or \"TYPE65\""))
    };
    let address = |i: &Item<'_>| {
        i.parsed(|text: &str| text.parse::<IpAddr>().map_err(|_| format!("'{text}' is no address")))
    };
    let rtype = t.parsed("query_type", record_type).unwrap_or(1);
    let addresses = t.distinct("addresses", address);
    if addresses.iter().any(|a| rtype != if a.is_ipv4() { 1 } else { 28 }) {
        t.refuse("addresses", "an answer of this query_type can't hold them: IPv4 is A, IPv6 is AAAA");
    }
    DnsCheck {
        name: t.parsed("query", dname::parse).map(|n| n.to_lowercase().to_string()).unwrap_or_default(),
        rtype,
        recurse: t.flag("recurse"),
        rcode: t.item("rcode").and_then(|i| i.word(&RCODES)).unwrap_or(0),
        addresses,
    }
}

const RCODES: [(&str, u16); 6] =
    [("NOERROR", 0), ("FORMERR", 1), ("SERVFAIL", 2), ("NXDOMAIN", 3), ("NOTIMP", 4), ("REFUSED", 5)];

fn ftp(t: &Table<'_>, files: &mut Files<'_>) -> FtpCheck {
    let word = |i: &Item<'_>| i.parsed(text::line);
    let user = t.item("user").and_then(|i| word(&i)).unwrap_or_else(|| "anonymous".to_owned());
    let password = match (t.item("password"), t.item("password_file")) {
        (Some(_), Some(file)) => {
            file.refuse("password is given already");
            None
        }
        (Some(given), None) => given.parsed(text::secret),
        (None, Some(file)) => secret(&file, files),
        (None, None) => None,
    };
    FtpCheck { user, password: Secret::new(password.unwrap_or_else(|| "gslb-dns@".to_owned())) }
}

/// The first line of a file, which is read with the configuration.
fn secret(item: &Item<'_>, files: &mut Files<'_>) -> Option<String> {
    let path = settings::path(item, None)?;
    let text = files.open_secret(&path, item)?;
    let first = text.lines().next().unwrap_or_default();
    text::secret(first).map_err(|why| item.refuse(format!("{}: {why}", path.display()))).ok()
}

fn user(t: &Table<'_>) -> UserCheck {
    let command: Vec<String> = match t.item("command").and_then(Item::into_list) {
        Some(items) => items.iter().filter_map(|i| i.parsed(text::argument)).collect(),
        None => {
            if !t.gives("command") {
                t.refuse("command", "missing, kind = \"user\" runs it");
            }
            Vec::new()
        }
    };
    match command.first() {
        Some(program) if !program.starts_with('/') => {
            t.refuse(
                "command",
                format!("'{program}' must be a whole path: no shell and no PATH looks for it"),
            );
        }
        None if t.gives_empty_list("command") => t.refuse("command", "must name a program"),
        Some(_) | None => {}
    }
    UserCheck {
        command,
        run_as: t.parsed("run_as", text::user_name).unwrap_or_else(|| "nobody".to_owned()),
        perf_label: t.parsed("perf_label", text::line),
        load_label: t.parsed("load_label", text::line),
    }
}
