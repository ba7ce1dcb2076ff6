//! Why a handshake or a connection ended, in words for an operator.

use crate::words::{NO_MEP, SILENT, certificate, clean, told};
use quinn::ConnectionError;

/// Why a handshake came to nothing. "It" is the other end.
pub(super) fn handshake(error: &ConnectionError) -> String {
    match error {
        ConnectionError::TransportError(ours) => match Class::of(ours.code.into()) {
            Class::Tls(NO_COMMON_PROTOCOL) => NO_MEP.to_owned(),
            Class::Tls(_) => format!("its certificate was refused: {}", certificate(&ours.reason)),
            Class::Refused | Class::Other => format!("QUIC failed: {}", clean(ours.to_string().as_bytes())),
        },
        ConnectionError::ConnectionClosed(theirs) => match Class::of(theirs.error_code.into()) {
            Class::Tls(NO_COMMON_PROTOCOL) => NO_MEP.to_owned(),
            Class::Tls(alert) if theirs.reason.is_empty() => {
                format!("it refused our certificate: TLS alert {alert}")
            }
            Class::Tls(_) => format!("it refused our certificate: {}", certificate(&clean(&theirs.reason))),
            Class::Refused => "it is busy with too many handshakes".to_owned(),
            Class::Other => format!("it gave up: {}", clean(theirs.to_string().as_bytes())),
        },
        ConnectionError::ApplicationClosed(theirs) => format!("it refused: {}", told(&theirs.reason)),
        ConnectionError::VersionMismatch => "it speaks no version of QUIC that we do".to_owned(),
        ConnectionError::TimedOut => "it fell silent during the handshake".to_owned(),
        ConnectionError::Reset => "it knows nothing of this connection: restarted meanwhile".to_owned(),
        ConnectionError::LocallyClosed => "the node stops".to_owned(),
        ConnectionError::CidsExhausted => "no connection number is free".to_owned(),
    }
}

/// Why a connection that stood is gone.
pub(super) fn closed(error: &ConnectionError) -> String {
    match error {
        ConnectionError::ApplicationClosed(theirs) => format!("closed by the peer: {}", told(&theirs.reason)),
        ConnectionError::ConnectionClosed(theirs) => {
            format!("closed by the peer's QUIC: {}", clean(theirs.to_string().as_bytes()))
        }
        ConnectionError::TransportError(ours) => {
            format!("the peer broke the rules of QUIC: {}", clean(ours.to_string().as_bytes()))
        }
        ConnectionError::TimedOut => SILENT.to_owned(),
        ConnectionError::Reset => "the peer knows nothing of this connection: restarted".to_owned(),
        ConnectionError::LocallyClosed => "closed".to_owned(),
        ConnectionError::VersionMismatch | ConnectionError::CidsExhausted => error.to_string(),
    }
}

/// TLS alert "no_application_protocol" (RFC 7301).
const NO_COMMON_PROTOCOL: u8 = 120;

/// What a QUIC error code says (RFC 9000 section 20.1).
enum Class {
    /// A TLS alert.
    Tls(u8),
    /// The server does not want another connection.
    Refused,
    /// Anything else.
    Other,
}

impl Class {
    fn of(code: u64) -> Self {
        match (code, u8::try_from(code.wrapping_sub(0x100))) {
            (0x2, _) => Class::Refused,
            (_, Ok(alert)) => Class::Tls(alert),
            _ => Class::Other,
        }
    }
}
