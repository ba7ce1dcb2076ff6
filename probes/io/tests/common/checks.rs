//! Checks, in few words.

use gslb_types::{
    Check, DnsCheck, Exchange, FtpCheck, HttpCheck, Pattern, Receive, Secret, TlsCheck, UserCheck,
};
use std::path::PathBuf;

pub(crate) fn pattern(text: &str) -> Receive {
    Receive { pattern: Pattern::Bytes(text.as_bytes().to_vec()), reverse: false }
}

pub(crate) fn regex(text: &str) -> Receive {
    Receive { pattern: Pattern::Regex(text.to_owned()), reverse: false }
}

pub(crate) fn not(receive: Receive) -> Receive {
    Receive { reverse: true, ..receive }
}

pub(crate) fn exchange(send: &str, receive: Receive) -> Exchange {
    Exchange { send: send.as_bytes().to_vec(), receive }
}

pub(crate) fn tcp_ecv(send: &str, receive: Receive) -> Check {
    Check::TcpEcv(exchange(send, receive))
}

pub(crate) fn udp_ecv(send: &str, receive: Receive) -> Check {
    Check::UdpEcv(exchange(send, receive))
}

pub(crate) fn http() -> HttpCheck {
    HttpCheck::get("/")
}

pub(crate) fn http_ecv(receive: Receive) -> Check {
    Check::Http(HttpCheck { receive: Some(receive), ..http() })
}

pub(crate) fn https(tls: TlsCheck) -> Check {
    Check::Http(HttpCheck { tls: Some(tls), ..http() })
}

pub(crate) fn unverified() -> TlsCheck {
    TlsCheck::default()
}

pub(crate) fn verified(name: &str, ca: PathBuf) -> TlsCheck {
    TlsCheck { server_name: name.to_owned(), verify: Some(ca) }
}

pub(crate) fn dns(name: &str) -> DnsCheck {
    DnsCheck { name: name.to_owned(), rtype: 1, recurse: false, rcode: 0, addresses: Vec::new() }
}

pub(crate) fn ftp(user: &str, password: &str) -> Check {
    Check::Ftp(FtpCheck { user: user.to_owned(), password: Secret::new(password.to_owned()) })
}

pub(crate) fn user(command: &[&str]) -> UserCheck {
    UserCheck {
        command: command.iter().map(|arg| (*arg).to_owned()).collect(),
        run_as: "nobody".to_owned(),
        perf_label: None,
        load_label: None,
    }
}

/// A shell script, as a command.
pub(crate) fn script(text: &str) -> UserCheck {
    user(&["/bin/sh", "-c", text])
}
