//! Why a handshake or a connection ended, in words for an operator.
//!
//! Whatever comes from the other end is shown only after being cut short and freed of control characters (threat T11).

use crate::identity::Date;
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
        _ => wrong_node(bare).or_else(|| wrong_time(bare)).unwrap_or_else(|| bare.to_owned()),
    }
}

/// A certificate of another node than the one that was dialled: two addresses mixed up in a configuration, most often.
fn wrong_node(bare: &str) -> Option<String> {
    let (asked, shown) = bare.strip_prefix("certificate not valid for name \"")?.split_once('"')?;
    let (_, path) = shown.split_once("spiffe://")?.1.split_once('"')?.0.split_once("/site/")?;
    let (site, node) = path.split_once("/node/")?;
    let mut labels = asked.split('.');
    let (other_node, other_site) = (labels.next()?, labels.next()?);
    let (found, wanted) = (format!("{site}/{node}"), format!("{other_site}/{other_node}"));
    Some(format!(
        "it is for {found}, not {wanted}: {found} listens where the configuration has the address of {wanted}"
    ))
}

/// A certificate whose time is over, or has not come, with the date in place of seconds since 1970.
fn wrong_time(bare: &str) -> Option<String> {
    let date = |mark| {
        let (_, rest) = bare.split_once(mark)?;
        let digits = rest.split(' ').next()?;
        digits.parse().ok().map(Date::of)
    };
    if bare.starts_with("certificate expired") {
        date("not valid after ").map(|date| format!("certificate expired on {date}"))
    } else if bare.starts_with("certificate not valid yet") {
        date("not valid before ").map(|date| format!("certificate not valid before {date}: check the clocks"))
    } else {
        None
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

    /// The texts are those of rustls. Should it word them otherwise one day, they are shown as they are.
    #[test]
    fn an_operator_reads_which_node_stands_there_and_when_a_certificate_ended() {
        let name = "invalid peer certificate: certificate not valid for name \"1.syd.test.mep.gslb.internal\"; certificate \
                    is only valid for DnsName(\"1.ams.test.mep.gslb.internal\") or \
                    UniformResourceIdentifier(\"spiffe://test.gslb.internal/site/ams/node/1\")";
        assert_eq!(
            certificate(name),
            "it is for ams/1, not syd/1: ams/1 listens where the configuration has the address of syd/1"
        );
        let expired = "invalid peer certificate: certificate expired: verification time 1827644302 (UNIX), but \
                       certificate is not valid after 1600000000 (86463 seconds ago)";
        assert_eq!(certificate(expired), "certificate expired on 2020-09-13 12:26:40 UTC");
        let early = "certificate not valid yet: verification time 1 (UNIX), but certificate is not valid before \
                     1600000000 (86463 seconds in future)";
        assert_eq!(
            certificate(early),
            "certificate not valid before 2020-09-13 12:26:40 UTC: check the clocks"
        );
        for other in ["certificate not valid for name \"x\"", "certificate expired", "BadEncoding"] {
            assert_eq!(certificate(other), other);
        }
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
