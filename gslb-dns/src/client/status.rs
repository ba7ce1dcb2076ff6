//! `gslb-dns status`.

use super::Shown;
use super::table::{NOTHING, clean, duration, or_dash, seconds_left};
use admin::api::{Listen, Status};
use std::fmt::{Display, Write};

pub(super) fn show(body: &[u8]) -> Result<Shown, serde_json::Error> {
    let status: Status = serde_json::from_slice(body)?;
    let mut text = String::new();
    for (what, value) in lines(&status) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{what:<12} {}", clean(&value));
    }
    text += &problems(&status.problems);
    Ok(Shown { text, healthy: status.problems.is_empty() })
}

fn lines(status: &Status) -> Vec<(&'static str, String)> {
    let Status { peers, services, .. } = status;
    let ready = if status.ready { "ready" } else { "not ready" };
    let icmp = |socket: &Option<String>| socket.clone().unwrap_or_else(|| NOTHING.to_owned());
    vec![
        ("node", format!("{} of group {}, version {}", status.node, status.group, status.version)),
        ("up for", duration(status.uptime_ms)),
        ("node task", format!("{ready}, published {} ago", duration(status.published_age_ms))),
        ("listens", listen(&status.listen)),
        ("pings by", format!("IPv4 {}, IPv6 {}", icmp(&status.icmp_v4), icmp(&status.icmp_v6))),
        ("certificate", or_dash(status.certificate.expires_in_s, expiry)),
        (
            "peers",
            format!(
                "{} up, {} suspect, {} down, {} connecting",
                peers.up, peers.suspect, peers.down, peers.connecting
            ),
        ),
        (
            "services",
            format!(
                "{} up, {} down, {} learning, {} disabled",
                services.up, services.down, services.learning, services.disabled
            ),
        ),
        ("LDNS", status.ldns.to_string()),
        ("requests", requests(status)),
        ("decisions", decisions(status)),
    ]
}

fn expiry(seconds: i64) -> String {
    let verb = if seconds < 0 { "expired" } else { "expires" };
    format!("{verb} {}", seconds_left(seconds))
}

fn listen(listen: &Listen) -> String {
    let each = |what: &str, addresses: &[std::net::SocketAddr]| match addresses {
        [] => None,
        some => Some(format!("{what} {}", joined(some))),
    };
    let all = [
        each("DNS", &listen.dns),
        each("DNS over TLS", &listen.dns_tls),
        each("MEP", listen.mep.as_slice()),
        each("admin", listen.admin.as_slice()),
    ];
    joined(&all.into_iter().flatten().collect::<Vec<_>>())
}

fn joined(items: &[impl Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn count(status: &Status, name: &str) -> u64 {
    status.counters.get("dns").and_then(|dns| dns.get(name)).copied().unwrap_or(0)
}

fn requests(status: &Status) -> String {
    let count = |name| count(status, name);
    format!("UDP {}, TCP {}, TLS {}", count("udp_requests"), count("tcp_requests"), count("tls_requests"))
}

fn decisions(status: &Status) -> String {
    let count = |name| count(status, name);
    format!(
        "by RTT {}, by backup method {}, all down {}",
        count("by_rtt"),
        count("by_backup"),
        count("all_down")
    )
}

fn problems(problems: &[String]) -> String {
    match problems {
        [] => "\nall is well\n".to_owned(),
        some => {
            let lines: String = some.iter().map(|problem| format!("  {}\n", clean(problem))).collect();
            format!("\nproblems\n{lines}")
        }
    }
}
