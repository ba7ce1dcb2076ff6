//! Why a handshake or a connection ended, in words for an operator.
//!
//! Whatever comes from the other end is shown only after being cut short and freed of control characters (threat T11).

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
        ConnectionError::TimedOut => "nothing was heard from the peer until the idle timeout".to_owned(),
        ConnectionError::Reset => "the peer knows nothing of this connection: restarted".to_owned(),
        ConnectionError::LocallyClosed => "closed".to_owned(),
        ConnectionError::VersionMismatch | ConnectionError::CidsExhausted => error.to_string(),
    }
}

/// A reason short enough to travel in the one packet that closes a connection.
pub(super) fn fitting(reason: &str) -> &str {
    let whole =
        reason.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= LONGEST_REASON);
    reason.get(..whole.last().unwrap_or(0)).unwrap_or_default()
}

/// With the rest of the packet well below its smallest size.
const LONGEST_REASON: usize = 512;

/// TLS alert "no_application_protocol" (RFC 7301).
const NO_COMMON_PROTOCOL: u8 = 120;

const NO_MEP: &str = "it does not speak this version of MEP (no common application protocol)";

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

/// What rustls says about a certificate, in an operator's words.
fn certificate(reason: &str) -> String {
    let bare = reason.strip_prefix("invalid peer certificate: ").unwrap_or(reason);
    match bare {
        "UnknownIssuer" => "unknown CA: not signed by the group's CA".to_owned(),
        "BadSignature" => "unknown CA: not signed by the group's CA, but by one of the same name".to_owned(),
        "peer sent no certificates" => "none was shown".to_owned(),
        _ => bare.to_owned(),
    }
}

fn told(reason: &[u8]) -> String {
    if reason.is_empty() { "no reason given".to_owned() } else { clean(reason) }
}

fn clean(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars().take(LONGEST_REASON).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_says_can_not_forge_a_log_line() {
        assert_eq!(told(b"bye\n\x1b[2J"), "bye??[2J");
        assert_eq!(told(&[b'x'; 4000]).len(), LONGEST_REASON);
        assert_eq!(told(b""), "no reason given");
        assert_eq!(told(&[0xff, b'a']), "\u{fffd}a");
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        let long = "ü".repeat(400);
        assert_eq!(fitting(&long).len(), LONGEST_REASON);
        let odd = format!("x{long}");
        assert_eq!(fitting(&odd).len(), LONGEST_REASON - 1);
        assert_eq!(fitting("short"), "short");
    }
}
