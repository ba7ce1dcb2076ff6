//! `gslb-dns peers`: the peers, who hears whom, and the last changes.

use super::Shown;
use super::table::{NOTHING, Sheet, clean, duration, or_dash, seconds_left, size, time};
use admin::api::{Identity, Link, Matrix, Peer, Peers, Strangers, Transition};

/// Changes shown by `--watch`: as many as leave room for the peers on a screen.
const CHANGES: usize = 10;

/// A certificate with less time left is worth a line.
const SOON_S: i64 = 14 * 24 * 3600;

/// The peers.
pub(super) fn show(body: &[u8]) -> Result<Shown, serde_json::Error> {
    Ok(Shown::plain(text(&serde_json::from_slice(body)?)))
}

/// The peers, and what has changed of late.
pub(super) fn show_changes(body: &[u8]) -> Result<Shown, serde_json::Error> {
    let peers: Peers = serde_json::from_slice(body)?;
    Ok(Shown::plain(text(&peers) + &changes(&peers)))
}

/// Who hears whom.
pub(super) fn show_matrix(body: &[u8]) -> Result<Shown, serde_json::Error> {
    let Peers { matrix, .. } = serde_json::from_slice(body)?;
    Ok(Shown::plain(rows(&matrix) + &faults(&matrix)))
}

fn text(peers: &Peers) -> String {
    let Peers { peers, matrix, identity, strangers } = peers;
    let mut text = if peers.is_empty() { "no other node in the group\n".to_owned() } else { table(peers) };
    text += &faults(matrix);
    text += &certificate(identity);
    text += &turned_away(strangers);
    text
}

fn table(peers: &[Peer]) -> String {
    let mut sheet = Sheet::new([
        "PEER",
        "STATE",
        "FOR",
        "LAST WORD",
        "RTT",
        "OVER",
        "SESSIONS",
        "DOWNS",
        "OUTBOX",
        "IN",
        "OUT",
        "VERSION",
        "CERTIFICATE",
        "NOTE",
    ]);
    for peer in peers {
        sheet.row(vec![
            peer.peer.clone(),
            peer.state.clone(),
            duration(peer.state_age_ms),
            or_dash(peer.last_word_age_ms, duration),
            or_dash(peer.rtt_us, time),
            or_dash(peer.over.clone(), |over| over),
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
    sheet.text()
}

/// What an operator should know: why there is no session, who stands in, and other settings.
fn note(peer: &Peer) -> String {
    let why_not = (peer.state != "up").then(|| peer.reason.clone());
    let attempt =
        peer.last_attempt.clone().filter(|attempt| why_not.as_ref().is_some_and(|why| why != attempt));
    let relay = peer.relay.as_ref().map(|relay| format!("{relay} relays its site"));
    let others =
        (!peer.mismatches.is_empty()).then(|| format!("other settings: {}", peer.mismatches.join(", ")));
    let implausible = peer.implausible.then(|| format!("RTTs nobody can have: {}", peer.implausible_rows));
    let refused = (peer.refusals > 0).then(|| format!("turned away {} times", peer.refusals));
    let notes = [why_not, attempt, relay, others, implausible, refused];
    notes.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// A row for each node, with what it says of the node of each column.
fn rows(matrix: &Matrix) -> String {
    let names = matrix.rows.iter().map(|row| row.node.clone());
    let header = ["HEARS".to_owned()].into_iter().chain(names).chain(["SAID".to_owned()]);
    let mut sheet = Sheet::with_header(header.collect());
    for row in &matrix.rows {
        let cell = |of: &str| row.links.iter().find(|link| link.peer == of).map_or("·".to_owned(), heard);
        let cells = matrix.rows.iter().map(|column| cell(&column.node));
        let said = match row.age_ms {
            None => "nothing".to_owned(),
            Some(0) => "now".to_owned(),
            Some(age) if row.current => format!("{} ago", duration(age)),
            Some(age) => format!("{} ago, no longer counts", duration(age)),
        };
        sheet.row([row.node.clone()].into_iter().chain(cells).chain([said]).collect());
    }
    sheet.text()
}

fn heard(link: &Link) -> String {
    let Some(state) = &link.state else { return "?".to_owned() };
    let age = or_dash(link.word_age_ms, duration);
    if age == NOTHING { state.clone() } else { format!("{state} {age}") }
}

fn faults(matrix: &Matrix) -> String {
    let gone = matrix.unheard.iter().map(|node| format!("nobody hears {node}"));
    let links = matrix.degraded.iter().map(|link| link.text.clone());
    lines("links that fail", gone.chain(links))
}

fn certificate(identity: &Identity) -> String {
    let soon = identity.expires_in_s.filter(|left| *left < SOON_S);
    let expiry =
        soon.map(|left| format!("{} {}", if left < 0 { "expired" } else { "expires" }, seconds_left(left)));
    let since = or_dash(identity.error_age_ms, duration);
    let error =
        identity.error.as_ref().map(|error| format!("its files can't be used (found {since} ago): {error}"));
    lines("certificate of this node", expiry.into_iter().chain(error))
}

fn turned_away(strangers: &Strangers) -> String {
    let Some(reason) = &strangers.last_reason else { return String::new() };
    let count = strangers.unknown_nodes.saturating_add(strangers.refused);
    let from = or_dash(strangers.last_address, |address| address.to_string());
    format!("\n{count} connections of strangers turned away, the last from {from}: {}\n", clean(reason))
}

/// The last changes, newest first.
fn changes(peers: &Peers) -> String {
    let mut changes: Vec<&Transition> = peers.peers.iter().flat_map(|peer| &peer.transitions).collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.number));
    let line = |t: &&Transition| {
        let Transition { age_ms, peer, from, to, reason, .. } = t;
        format!("{:>7} ago  {peer}  {from} -> {to}: {reason}", duration(*age_ms))
    };
    lines("changes", changes.iter().take(CHANGES).map(line))
}

/// Under a heading, if there is anything.
fn lines(heading: &str, lines: impl Iterator<Item = String>) -> String {
    let lines: String = lines.map(|line| format!("  {}\n", clean(&line))).collect();
    if lines.is_empty() { lines } else { format!("\n{heading}\n{lines}") }
}
