//! What is configured about the metric exchange, in the field's words.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Which transport a node speaks to its peers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// QUIC; gRPC while QUIC does not come through.
    #[default]
    Auto,
    /// QUIC only.
    Quic,
    /// gRPC over TLS and TCP only: where UDP is blocked for good.
    Grpc,
}

impl Transport {
    /// The word for it in configuration, API and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Transport::Auto => "auto",
            Transport::Quic => "quic",
            Transport::Grpc => "grpc",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// When this node's own monitors decide about a service of another site (behaviour 4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerMonitor {
    /// Always, if some are bound; the site's own word gives only metrics.
    #[default]
    Always,
    /// Only after the site has been silent for the down delay.
    MepDown,
    /// Likewise, and also while the site says that the service is down.
    MepDownOrServiceDown,
}

impl TriggerMonitor {
    /// The word for it in configuration, API and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            TriggerMonitor::Always => "always",
            TriggerMonitor::MepDown => "mep_down",
            TriggerMonitor::MepDownOrServiceDown => "mep_down_or_service_down",
        }
    }
}

impl fmt::Display for TriggerMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
