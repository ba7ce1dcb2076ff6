//! The worked examples of the articles, end to end: real requests through the proxy to three real services, held as in the
//! example. Each row is one request; who got it, and its N or Nw before and after, must be the article's.
//!
//! - Open transactions are requests whose responses have begun and do not end.
//! - Response times of LRTM are what monitors would report, in microseconds.
//! - Times to first byte of LRT are really measured, by a clock that stands still unless all wait for it: the services take
//!   two or one milliseconds of it, so the N are a thousand times the article's.
//! - Bytes are really counted: each transaction is 4096 bytes on the connection to the service, its head and its response.

#![allow(clippy::unwrap_used, reason = "an integration test is all test")]

mod support;

use gslb_types::{LbMethod, Rtt, ServiceState, Weight};
use lb_proxy::Kind;
use serde::Deserialize;
use std::time::Duration;
use support::service::{Connection, Service};
use support::{Running, eventually, name, start, until, vserver};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// How long traffic counts.
const WINDOW: Duration = Duration::from_secs(lb_core::WINDOW_SECONDS);

/// What one transaction moves, both ways, where bytes are compared.
const UNIT: usize = 4096;

#[derive(Deserialize)]
struct Table {
    method: LbMethod,
    weighted: bool,
    uncounted_in_printed: Option<u32>,
    printed: Vec<Row>,
    calculated: Vec<Row>,
    service: Vec<Member>,
}

#[derive(Deserialize)]
struct Row {
    request: u32,
    service: String,
    before: String,
    after: String,
}

#[derive(Deserialize)]
struct Member {
    weight: Weight,
    active: Option<u32>,
    response_time: Option<u32>,
    bytes: Option<u32>,
}

/// The table's services behind a virtual server, in the state that the example begins with.
struct Stage {
    running: Running,
    _services: Vec<Service>,
    /// Requests that stay open.
    open: Vec<TcpStream>,
    weighted: bool,
    /// How many of the view's units are one of the table's.
    scale: u128,
}

#[tokio::test(start_paused = true)]
async fn least_response_time_with_monitors() {
    play(include_str!("../../lb-core/tests/vectors/lrtm.toml")).await;
}

#[tokio::test(start_paused = true)]
async fn least_response_time_with_monitors_and_weights() {
    play(include_str!("../../lb-core/tests/vectors/lrtm-weighted.toml")).await;
}

#[tokio::test(start_paused = true)]
async fn least_response_time() {
    play(include_str!("../../lb-core/tests/vectors/lrt.toml")).await;
}

#[tokio::test(start_paused = true)]
async fn least_response_time_with_weights() {
    play(include_str!("../../lb-core/tests/vectors/lrt-weighted.toml")).await;
}

#[tokio::test(start_paused = true)]
async fn least_bandwidth() {
    play(include_str!("../../lb-core/tests/vectors/bandwidth.toml")).await;
}

#[tokio::test(start_paused = true)]
async fn least_bandwidth_with_weights() {
    play(include_str!("../../lb-core/tests/vectors/bandwidth-weighted.toml")).await;
}

/// Plays both columns of a table. One of them needs a request that leaves no trace, and a real proxy counts all: that one's traffic
/// has left the window before the next comes, and of the rest there is as much in it again.
async fn play(text: &str) {
    let table: Table = toml::from_str(text).unwrap();
    assert_eq!((table.printed.len(), table.calculated.len()), (8, 16));
    for rows in [&table.printed, &table.calculated] {
        let uncounted = table.uncounted_in_printed.filter(|_| rows.len() == 8);
        let mut stage = Stage::set(&table).await;
        for row in rows {
            let picked = row.service.strip_prefix('S').unwrap().parse::<usize>().unwrap() - 1;
            assert_prints(stage.shown(picked), &row.before, &format!("request {}, before", row.request));
            let before = stage.running.requests();
            stage.request().await;
            let after = stage.running.requests();
            let got: Vec<_> = (0..3).filter(|at| after[*at] > before[*at]).collect();
            assert_eq!(
                got,
                [picked],
                "request {}: N {:?}",
                row.request,
                stage.running.view().balancer.members
            );
            if uncounted == Some(row.request) {
                tokio::time::advance(WINDOW).await;
                stage.warm_all(&table).await;
            }
            assert_prints(stage.shown(picked), &row.after, &format!("request {}, after", row.request));
        }
        println!("{:?}: {} rows as in the article", table.method, rows.len());
    }
}

impl Stage {
    async fn set(table: &Table) -> Self {
        let mut services = Vec::new();
        for member in &table.service {
            let (takes, stays) =
                (member.response_time.unwrap_or(0), table.method != LbMethod::LeastBandwidth);
            services.push(service(Duration::from_millis(takes.into()), stays).await);
        }
        let mut settings = vserver(Kind::Http, &services.iter().map(|s| s.address).collect::<Vec<_>>());
        settings.balancer.method = table.method;
        settings.timeouts.idle = Duration::from_secs(3600);
        for (member, given) in settings.balancer.members.iter_mut().zip(&table.service) {
            member.weight = given.weight;
        }
        let scale = match table.method {
            LbMethod::LeastResponseTime => 1000,
            LbMethod::LeastBandwidth => UNIT as u128,
            _ => 1,
        };
        let running = start(settings);
        let mut stage =
            Stage { running, _services: services, open: Vec::new(), weighted: table.weighted, scale };
        stage.warm_all(table).await;
        stage
    }

    /// The last one has the last request: no tie begins elsewhere than at the first.
    async fn warm_all(&mut self, table: &Table) {
        for (at, member) in table.service.iter().enumerate() {
            self.warm(table.method, at, member).await;
        }
        for at in 1..=3 {
            self.running.proxy.set_enabled(&name(&format!("s{at}")), true);
        }
    }

    /// Brings one member into the state that the example begins with, while the others are out.
    async fn warm(&mut self, method: LbMethod, at: usize, member: &Member) {
        for other in 1..=3 {
            self.running.proxy.set_enabled(&name(&format!("s{other}")), other == at + 1);
        }
        match method {
            LbMethod::LeastResponseTimeMonitors => {
                let response_time = member.response_time.map(Rtt::from_micros);
                self.running.proxy.handle_health(
                    &name(&format!("s{}", at + 1)),
                    ServiceState::Up,
                    response_time,
                );
            }
            // Nothing is known of a service before its first response; this one ends.
            LbMethod::LeastResponseTime => self.ask("/whole").await.map_or((), drop),
            _ => (),
        }
        for _ in 0..member.active.or(member.bytes).unwrap() {
            self.request().await;
        }
        let now = self.running.view().balancer.members[at].clone();
        assert_eq!(now.active, member.active.unwrap_or(0));
        if method == LbMethod::LeastResponseTime {
            assert_eq!(now.ttfb, member.response_time.map(|ms| Rtt::from_micros(ms * 1000)));
        }
    }

    async fn request(&mut self) {
        if let Some(open) = self.ask("/").await {
            self.open.push(open);
        }
    }

    /// One request on a connection of its own, up to where its response has begun; or to its end, if it ends.
    async fn ask(&self, path: &str) -> Option<TcpStream> {
        let mut client = self.running.connect().await;
        let ends = path == "/whole" || self.scale == UNIT as u128;
        client.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.unwrap();
        until(&mut client, "\r\n\r\n").await;
        if ends {
            until(&mut client, "z").await;
            let active = || self.running.view().balancer.members.iter().map(|m| m.active).sum::<u32>();
            eventually("over", || active() as usize == self.open.len()).await;
            return None;
        }
        until(&mut client, "y").await;
        Some(client)
    }

    /// The member's N or Nw, in hundredths of what the table counts in.
    fn shown(&self, at: usize) -> u128 {
        let member = self.running.view().balancer.members[at].clone();
        let (n, weight) = (u128::from(member.n.unwrap()), u128::from(member.weight.get()));
        assert_eq!(n % self.scale, 0, "N is no whole number of units");
        assert_eq!(member.nw, Some(n * 10_000 / weight));
        let factor = if self.weighted { 10_000 } else { weight };
        n * factor * 100 / (weight * self.scale)
    }
}

/// A number of the table in hundredths. The article rounds as it likes (70000 / 3 is printed 23333.34).
#[track_caller]
fn assert_prints(shown: u128, text: &str, what: &str) {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let printed = whole.parse::<u128>().unwrap() * 100 + format!("{part:0<2}").parse::<u128>().unwrap();
    assert!(shown.abs_diff(printed) <= u128::from(part != "0"), "{what}: {shown} hundredths, not {text}");
}

/// Answers after so long. `/whole` ends at once; the rest stay open, or are padded to the unit and end.
async fn service(takes: Duration, stays: bool) -> Service {
    Service::start(move |mut connection: Connection| async move {
        while let Some(head) = connection.request().await {
            tokio::time::sleep(takes).await;
            if stays && !head.starts_with("GET /whole") {
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\ny").await;
                connection.request().await;
                return;
            }
            let begin = "HTTP/1.1 200 OK\r\nContent-Length: ";
            let overhead = head.len() + begin.len() + "1234\r\n\r\n".len();
            let length = UNIT - overhead;
            connection.send(format!("{begin}{length}\r\n\r\n{}z", "y".repeat(length - 1))).await;
        }
    })
    .await
}
