//! Monitors in the canonical text that the must-match hashes are taken over: see [`crate::hash`].

use crate::hash::{listed, sorted};
use crate::model::{Config, Monitor, Watch};
use gslb_types::{Check, Exchange, HttpCheck, TlsCheck, Weight};

/// A monitor. Left out is what may differ from node to node: addresses, files, passwords.
pub(crate) fn canonical(m: &Monitor) -> String {
    let mut text = format!(
        "{} {} {} {} {} {}",
        m.name,
        check(&m.check),
        m.interval.as_micros(),
        m.timeout.as_micros(),
        m.rise,
        m.fall
    );
    let more = [
        m.port.map(|port| format!(" port {port}")),
        m.down_time.map(|d| format!(" down {}", d.as_micros())),
        m.reverse.then(|| " reverse".to_owned()),
        (!m.measures).then(|| " unmeasured".to_owned()),
    ];
    text.extend(more.into_iter().flatten());
    text
}

fn check(check: &Check) -> String {
    let kind = check.kind();
    match check {
        Check::Ping | Check::Tcp => kind.to_owned(),
        Check::TcpEcv(e) | Check::UdpEcv(e) => format!("{kind} {}", exchange(e)),
        Check::Http(h) => format!("{kind} {}", http(h)),
        Check::Dns(d) => {
            format!(
                "{kind} {} {} {} {} [{}]",
                d.name,
                d.rtype,
                d.recurse,
                d.rcode,
                sorted(texts(&d.addresses))
            )
        }
        Check::Ssl(tls) => format!("{kind} {}", tls_words(tls)),
        Check::Ftp(f) => format!("{kind} {:?}", f.user),
        Check::User(u) => {
            let load = u.load_label.as_ref().map_or(String::new(), |label| format!(" load {label:?}"));
            format!("{kind} {:?} {:?}{load}", u.command, u.perf_label)
        }
    }
}

fn exchange(e: &Exchange) -> String {
    format!("{} {} {}", e.send.escape_ascii(), e.receive.pattern, e.receive.reverse)
}

fn http(h: &HttpCheck) -> String {
    let mut text = format!("{:?} {:?} [{}]", h.path, h.host, sorted(texts(&h.expect)));
    let more = [
        (h.method != "GET").then(|| format!(" {}", h.method)),
        (!h.headers.is_empty()).then(|| format!(" {:?}", h.headers)),
        (!h.body.is_empty()).then(|| format!(" body {}", h.body.escape_ascii())),
        h.tls.as_ref().map(|tls| format!(" {}", tls_words(tls))),
        h.receive.as_ref().map(|r| format!(" receive {} {}", r.pattern, r.reverse)),
    ];
    text.extend(more.into_iter().flatten());
    text
}

fn tls_words(tls: &TlsCheck) -> String {
    format!("{:?} {}", tls.server_name, tls.verify.is_some())
}

fn texts<T: ToString>(items: &[T]) -> impl Iterator<Item = String> {
    items.iter().map(T::to_string)
}

/// The monitors of a service with weights other than 1, and its threshold.
pub(crate) fn canonical_watch(c: &Config, watched: &[Watch], threshold: Option<u32>) -> String {
    let name = |w: &Watch| {
        let name = &c.monitors.get(w.monitor)?.name;
        Some(if w.weight == Weight::ONE { name.clone() } else { format!("{name}*{}", w.weight.get()) })
    };
    let names = sorted(watched.iter().filter_map(name));
    match threshold {
        Some(threshold) => listed([names, format!(">={threshold}")]),
        None => names,
    }
}
