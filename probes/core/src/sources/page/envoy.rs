//! Envoy's `/clusters?format=json` (envoy.admin.v3.Clusters). Numbers stand there as texts; those that are 0 and flags that
//! are off are left out.

use super::super::reading::{Counts, Health, Reading};
use super::{OTHER_KIND, printable};
use gslb_types::SourceItem;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) fn read(page: &[u8], items: &[SourceItem]) -> Result<Vec<Result<Reading, String>>, String> {
    let page: Page = serde_json::from_slice(page).map_err(|e| format!("no clusters in JSON: {e}"))?;
    let said = items.iter().map(|item| {
        let SourceItem::Envoy { cluster, host } = item else { return Err(OTHER_KIND.to_owned()) };
        let found = page.cluster_statuses.iter().find(|c| c.name == *cluster);
        let hosts = &found.ok_or_else(|| format!("envoy has no cluster '{cluster}'"))?.host_statuses;
        match host {
            None => together(hosts),
            Some(host) => {
                let found = hosts.iter().find(|h| h.address.to_text().as_deref() == Some(host));
                found.ok_or_else(|| format!("envoy has no host {host} in cluster '{cluster}'"))?.reading()
            }
        }
    });
    Ok(said.collect())
}

#[derive(Deserialize)]
struct Page {
    cluster_statuses: Vec<Cluster>,
}

#[derive(Deserialize)]
struct Cluster {
    name: String,
    #[serde(default)]
    host_statuses: Vec<Host>,
}

#[derive(Deserialize)]
struct Host {
    #[serde(default)]
    address: Address,
    #[serde(default)]
    stats: Vec<Stat>,
    #[serde(default)]
    health_status: BTreeMap<String, Value>,
}

#[derive(Deserialize, Default)]
struct Address {
    socket_address: Option<SocketAddress>,
    pipe: Option<Pipe>,
}

#[derive(Deserialize)]
struct SocketAddress {
    #[serde(default)]
    address: String,
    #[serde(default)]
    port_value: u16,
}

#[derive(Deserialize)]
struct Pipe {
    #[serde(default)]
    path: String,
}

#[derive(Deserialize)]
struct Stat {
    #[serde(default)]
    name: String,
    #[serde(default)]
    value: Value,
}

impl Address {
    /// As services name it: `192.0.2.1:80`, `[2001:db8::1]:80`, or a path.
    fn to_text(&self) -> Option<String> {
        match (&self.socket_address, &self.pipe) {
            (Some(at), _) if at.address.contains(':') => Some(format!("[{}]:{}", at.address, at.port_value)),
            (Some(at), _) => Some(format!("{}:{}", at.address, at.port_value)),
            (None, pipe) => pipe.as_ref().map(|pipe| pipe.path.clone()),
        }
    }
}

impl Host {
    fn reading(&self) -> Result<Reading, String> {
        let (health, words) = self.health();
        let requests = self.stat("rq_total")?;
        let name = self.address.to_text().unwrap_or_default();
        Ok(Reading {
            health,
            words,
            active: Some(self.stat("rq_active")?),
            connections: Some(self.stat("cx_active")?),
            requests: Some(Counts::from([(name, requests)])),
            ..Reading::default()
        })
    }

    /// A flag that is set keeps traffic away, whichever it is: also one that a later version invents.
    fn health(&self) -> (Health, String) {
        let eds = self.health_status.get("eds_health_status").and_then(Value::as_str).unwrap_or("UNKNOWN");
        let set = |(name, value): (&String, &Value)| {
            (*value == Value::Bool(true) && !name.contains("degraded")).then(|| name.clone())
        };
        let flags: Vec<String> = self.health_status.iter().filter_map(set).collect();
        if !flags.is_empty() {
            return (Health::Down, printable(&flags.join(", ")));
        }
        let health = match eds {
            // Envoy sends traffic to hosts of which discovery says nothing.
            "HEALTHY" | "DEGRADED" | "UNKNOWN" => Health::Up,
            "UNHEALTHY" | "DRAINING" | "TIMEOUT" => Health::Down,
            _ => Health::Unknown,
        };
        (health, printable(eds))
    }

    fn stat(&self, name: &str) -> Result<u64, String> {
        let Some(stat) = self.stats.iter().find(|stat| stat.name == name) else { return Ok(0) };
        let number = match &stat.value {
            Value::Null => Some(0),
            Value::String(text) => text.parse().ok(),
            value => value.as_u64(),
        };
        let host = self.address.to_text().unwrap_or_default();
        number.ok_or_else(|| {
            format!(
                "host {}, '{name}': {} is no number",
                printable(&host),
                printable(&stat.value.to_string())
            )
        })
    }
}

/// A cluster is up while one of its hosts is.
fn together(hosts: &[Host]) -> Result<Reading, String> {
    let hosts = hosts.iter().map(Host::reading).collect::<Result<Vec<_>, _>>()?;
    let up = hosts.iter().filter(|host| host.health == Health::Up).count();
    let is_unknown = hosts.iter().any(|host| host.health == Health::Unknown);
    let sum = |of: fn(&Reading) -> Option<u64>| hosts.iter().filter_map(of).fold(0, u64::saturating_add);
    Ok(Reading {
        health: match up {
            0 if is_unknown => Health::Unknown,
            0 => Health::Down,
            _ => Health::Up,
        },
        words: format!("{up} of {} hosts healthy", hosts.len()),
        active: Some(sum(|host| host.active)),
        connections: Some(sum(|host| host.connections)),
        requests: Some(hosts.iter().filter_map(|host| host.requests.clone()).flatten().collect()),
        ..Reading::default()
    })
}
