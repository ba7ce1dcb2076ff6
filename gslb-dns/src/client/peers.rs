//! `gslb-dns peers`.

use super::Shown;
use super::table::{Sheet, clean, duration, or_dash, seconds_left, size, time};
use admin::api::{Peer, Peers};

pub(super) fn show(body: &[u8]) -> Result<Shown, serde_json::Error> {
    let Peers { peers, strangers } = serde_json::from_slice(body)?;
    let mut sheet = Sheet::new([
        "PEER",
        "STATE",
        "FOR",
        "LAST WORD",
        "RTT",
        "SESSIONS",
        "DOWNS",
        "OUTBOX",
        "IN",
        "OUT",
        "VERSION",
        "CERTIFICATE",
        "NOTE",
    ]);
    for peer in &peers {
        sheet.row(vec![
            peer.peer.clone(),
            peer.state.clone(),
            duration(peer.state_age_ms),
            or_dash(peer.last_word_age_ms, duration),
            or_dash(peer.rtt_us, time),
            peer.sessions.to_string(),
            peer.downs.to_string(),
            peer.outbox.to_string(),
            size(peer.bytes_in),
            size(peer.bytes_out),
            or_dash(peer.version.clone(), |version| version),
            or_dash(peer.certificate_expires_in_s, seconds_left),
            note(peer),
        ]);
    }
    let mut text = if peers.is_empty() { "no other node in the group\n".to_owned() } else { sheet.text() };
    if let Some(reason) = &strangers.last_reason {
        let turned_away = strangers.unknown_nodes.saturating_add(strangers.refused);
        let from = or_dash(strangers.last_address, |address| address.to_string());
        text += &format!(
            "\n{turned_away} connections of strangers turned away, the last from {from}: {}\n",
            clean(reason)
        );
    }
    Ok(Shown::plain(text))
}

/// What an operator should know: why there is no session, and other settings.
fn note(peer: &Peer) -> String {
    let why_not = (peer.state != "up").then_some(&peer.reason);
    let attempt =
        peer.last_attempt.as_ref().filter(|attempt| why_not.is_some_and(|reason| reason != *attempt));
    let others = format!("other settings: {}", peer.mismatches.join(", "));
    let others = Some(&others).filter(|_| !peer.mismatches.is_empty());
    let notes: Vec<&str> = [why_not, attempt, others].into_iter().flatten().map(String::as_str).collect();
    notes.join("; ")
}
