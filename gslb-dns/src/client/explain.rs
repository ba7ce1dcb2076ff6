//! `gslb-dns explain`.

use super::Shown;
use super::table::{clean, or_dash};
use admin::api::{Answer, Candidate, Explain, Origin, Value, Verdict};
use std::fmt::Write;

pub(super) fn show(body: &[u8]) -> Result<Shown, serde_json::Error> {
    let explain: Explain = serde_json::from_slice(body)?;
    let Explain { name, rtype, ldns, ldns_entry, vserver, method, .. } = &explain;
    let entry = if ldns == ldns_entry { String::new() } else { format!(" (entry {ldns_entry})") };
    let mut text = format!(
        "{name} {rtype} asked by {ldns}{entry}, virtual server {vserver}, method {}\n",
        method.as_str()
    );
    text += &format!("answer: {}\n\n", answer(&explain.answer));
    for (step, number) in explain.reasons.iter().zip(1..) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{number:>3}. {}", clean(&step.text));
    }
    text += "\n";
    for candidate in &explain.candidates {
        let Candidate { service, site, vserver, order, removed, .. } = candidate;
        let removed = removed.as_ref().map_or("answered", |why| why.as_str());
        let rtt = candidate.rtt.as_ref().map_or_else(String::new, value);
        let _ = writeln!(text, "{service} at {site}, {vserver}, order {order}{rtt}: {}", clean(removed));
    }
    if let Some(margin) = &explain.margin {
        let _ = writeln!(text, "\n{}", clean(&margin.text));
    }
    if explain.takes_turn {
        let last = explain.turn.last_service.as_ref().map(|last| format!(", the last answer was {last}"));
        text +=
            &format!("\nit takes turns: this is round {}{}\n", explain.turn.round, last.unwrap_or_default());
    }
    if let Some(ecs) = &explain.ecs {
        text += &format!("\nclient subnet {}: {}\n", clean(&ecs.subnet), clean(&ecs.text));
    }
    Ok(Shown::plain(text))
}

fn value(value: &Value) -> String {
    let Value { rtt_us: Some(us), age_ms: Some(age), origin: Some(origin), .. } = value else {
        return String::new();
    };
    let origin = match origin {
        Origin::Own => "measured here",
        Origin::Peer => "told by its site",
        Origin::Relayed => "relayed",
    };
    format!(", {}.{:03} ms {} s ago, {origin}", us / 1000, us % 1000, age / 1000)
}

fn answer(answer: &Answer) -> String {
    let addresses: Vec<String> = answer.addresses.iter().map(ToString::to_string).collect();
    let addresses = addresses.join(", ");
    let ttl = answer.ttl_s;
    match answer.verdict {
        Verdict::Service => {
            let [service, site] =
                [&answer.service, &answer.site].map(|name| or_dash(name.clone(), |name| name));
            format!("{addresses}, service {service} at {site}, TTL {ttl} s")
        }
        Verdict::BackupIp => format!("{addresses}, the backup addresses, TTL {ttl} s"),
        Verdict::Empty => "no address (NODATA)".to_owned(),
        Verdict::Drop => "none at all: the query is dropped".to_owned(),
    }
}
