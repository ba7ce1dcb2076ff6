//! Words for an operator that both carriers use: what is wrong with a certificate, and how the other end's own words are
//! shown.
//!
//! Whatever comes from the other end is shown only after being cut short and freed of control characters (threat T11).

use crate::identity::Date;

pub(crate) const NO_MEP: &str = "it does not speak this version of MEP (no common application protocol)";

/// The reason of a connection on which nothing comes any more.
pub(crate) const SILENT: &str = "nothing was heard from the peer until the idle timeout";

/// With the rest of the packet that carries it well below the smallest packet.
const LONGEST_REASON: usize = 512;

/// A reason short enough to travel in the one packet that closes a connection.
pub(crate) fn fitting(reason: &str) -> &str {
    let whole =
        reason.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= LONGEST_REASON);
    reason.get(..whole.last().unwrap_or(0)).unwrap_or_default()
}

/// What the other end gave as its reason.
pub(crate) fn told(reason: &[u8]) -> String {
    if reason.is_empty() { "no reason given".to_owned() } else { clean(reason) }
}

pub(crate) fn clean(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars().take(LONGEST_REASON).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// What rustls says about a certificate, in an operator's words.
pub(crate) fn certificate(reason: &str) -> String {
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
