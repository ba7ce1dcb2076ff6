//! Why a handshake or a connection ended, in words for an operator.

use crate::words::{NO_MEP, SILENT, certificate, clean, told};
use h2::Reason;
use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use tonic::Status;

/// Why TCP came to nothing.
pub(super) fn unconnected(address: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("{address} refused the connection: nobody listens there (TCP)")
        }
        _ => format!("{address} can't be dialled from here: {error}"),
    }
}

/// Why TLS came to nothing. "It" is the other end.
pub(super) fn handshake(error: &io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            format!("its certificate was refused: {}", certificate(&error.to_string()))
        }
        Some(rustls::Error::NoApplicationProtocol) => NO_MEP.to_owned(),
        Some(rustls::Error::InvalidMessage(_)) => "it does not speak TLS".to_owned(),
        Some(rustls::Error::AlertReceived(_)) => refusal(&error.to_string()),
        Some(other) => format!("TLS failed: {}", clean(other.to_string().as_bytes())),
        None => broken(error),
    }
}

/// Why the call came to nothing after TLS. A dialler whose certificate is refused learns so only then (TLS 1.3).
pub(super) fn greeting(error: &h2::Error) -> String {
    match error.get_io() {
        Some(io) if alert(&io.to_string()).is_some() => refusal(&io.to_string()),
        Some(io) => broken(io),
        None => format!("HTTP/2 failed: {}", clean(error.to_string().as_bytes())),
    }
}

/// The same, from the side that reads messages.
pub(super) fn unread(status: &Status) -> String {
    match h2_error(status) {
        Some(error) => greeting(error),
        None => format!("it broke the framing: {}", clean(status.message().as_bytes())),
    }
}

/// What the other end said at the end of a call that never became a connection.
pub(super) fn refused(last: Option<&Status>) -> String {
    format!("it refused: {}", told(last.map_or("", Status::message).as_bytes()))
}

/// What the other end said at the end of a connection.
pub(super) fn closed(last: Option<&Status>) -> String {
    match last {
        Some(last) if !last.message().is_empty() => {
            format!("closed by the peer: {}", clean(last.message().as_bytes()))
        }
        Some(_) | None => "the other end finished without a reason".to_owned(),
    }
}

/// Why a connection that stood is gone.
pub(super) fn lost(status: &Status) -> String {
    match h2_error(status) {
        Some(error) => gone(error),
        None => format!("the other end broke the framing: {}", clean(status.message().as_bytes())),
    }
}

/// The same, from HTTP/2.
pub(super) fn gone(error: &h2::Error) -> String {
    match (error.get_io(), error.reason()) {
        (Some(io), _) => format!("the connection broke: {}", broken(io)),
        (None, Some(Reason::ENHANCE_YOUR_CALM)) if error.is_remote() => {
            "closed by the peer: too slow: it could not bring its frames across".to_owned()
        }
        (None, Some(Reason::CANCEL)) if error.is_remote() => "closed by the peer: no reason given".to_owned(),
        (None, Some(reason)) if error.is_remote() => format!("closed by the peer's HTTP/2: {reason}"),
        (None, _) => format!("the peer broke the rules of HTTP/2: {}", clean(error.to_string().as_bytes())),
    }
}

fn h2_error(status: &Status) -> Option<&h2::Error> {
    let mut source = status.source();
    while let Some(error) = source {
        if let Some(h2) = error.downcast_ref::<h2::Error>() {
            return Some(h2);
        }
        source = error.source();
    }
    None
}

fn broken(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "the other end hung up".to_owned()
        }
        io::ErrorKind::TimedOut => SILENT.to_owned(),
        _ => clean(error.to_string().as_bytes()),
    }
}

/// A refusal that came as a TLS alert: one word, where QUIC has room for more.
fn refusal(text: &str) -> String {
    match alert(text) {
        Some("NoApplicationProtocol") => NO_MEP.to_owned(),
        Some("UnknownCA" | "DecryptError") => {
            "it refused our certificate: unknown CA: not signed by the group's CA".to_owned()
        }
        Some("CertificateExpired") => "it refused our certificate: expired, or the clocks differ".to_owned(),
        Some("CertificateRequired") => "it refused our certificate: none was shown".to_owned(),
        Some("BadCertificate") => {
            "it refused our certificate: not valid for the node it dialled, or not for this purpose"
                .to_owned()
        }
        Some(other) => format!("it refused our certificate: TLS alert {}", clean(other.as_bytes())),
        None => clean(text.as_bytes()),
    }
}

/// Rustls' words for an alert, which reach us as text where HTTP/2 has passed them on.
fn alert(text: &str) -> Option<&str> {
    text.strip_prefix("received fatal alert: ")
}
