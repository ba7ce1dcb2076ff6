//! Methods, probe kinds and weights, in the field's words.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU8;

/// A kind of LDNS probe (behaviour 3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeKind {
    /// ICMP echo request to echo reply.
    Ping,
    /// A query for "." to port 53 over UDP; any DNS reply, or a port unreachable from the LDNS itself.
    DnsUdp,
    /// SYN to SYN-ACK, or to RST, on port 53.
    DnsTcp,
}

impl ProbeKind {
    /// The kinds in the order they are tried unless configured: [S-RTT].
    pub const DEFAULT_ORDER: [ProbeKind; 3] = [ProbeKind::Ping, ProbeKind::DnsUdp, ProbeKind::DnsTcp];

    /// The word for it in configuration, API and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            ProbeKind::Ping => "ping",
            ProbeKind::DnsUdp => "dns-udp",
            ProbeKind::DnsTcp => "dns-tcp",
        }
    }
}

impl fmt::Display for ProbeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a GSLB virtual server chooses a site.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GslbMethod {
    /// The site with the lowest RTT to the LDNS.
    #[default]
    Rtt,
    /// Each site in turn, by weight.
    RoundRobin,
    /// A hash of the LDNS address: the same site as long as it is up.
    SourceIpHash,
    /// The site that is closest by what is known of where the client is, without a measurement.
    StaticProximity,
    /// The site with the fewest open transactions.
    LeastConnections,
    /// The site with the lowest product of open transactions and response time.
    LeastResponseTime,
    /// The site with the fewest bytes both ways over the last 14 s.
    LeastBandwidth,
    /// The site with the fewest packets both ways over the last 14 s.
    LeastPackets,
    /// The site with the lowest load by the operator's own reckoning.
    CustomLoad,
}

impl GslbMethod {
    /// The word for it in configuration, API and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            GslbMethod::Rtt => "rtt",
            GslbMethod::RoundRobin => "round_robin",
            GslbMethod::SourceIpHash => "source_ip_hash",
            GslbMethod::StaticProximity => "static_proximity",
            GslbMethod::LeastConnections => "least_connections",
            GslbMethod::LeastResponseTime => "least_response_time",
            GslbMethod::LeastBandwidth => "least_bandwidth",
            GslbMethod::LeastPackets => "least_packets",
            GslbMethod::CustomLoad => "custom_load",
        }
    }

    /// Whether it decides without anything that would have to be measured first, so that it can stand in for others.
    pub const fn always_can(self) -> bool {
        matches!(self, GslbMethod::RoundRobin | GslbMethod::SourceIpHash | GslbMethod::StaticProximity)
    }
}

/// How a service is chosen within a site (behaviour 5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LbMethod {
    /// LRTM: active transactions times the response time its monitors measured.
    #[default]
    LeastResponseTimeMonitors,
    /// LRT: active transactions times the time to first byte of real responses.
    LeastResponseTime,
    /// Bytes both ways over the last 14 s.
    LeastBandwidth,
    /// Packets both ways over the last 14 s.
    LeastPackets,
    /// Active transactions or connections.
    LeastConnections,
    /// The load by the operator's own reckoning.
    CustomLoad,
    /// Each in turn, by weight.
    RoundRobin,
    /// A consistent hash of the client's address.
    SourceIpHash,
}

impl LbMethod {
    /// The word for it in configuration, API and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            LbMethod::LeastResponseTimeMonitors => "least_response_time_monitors",
            LbMethod::LeastResponseTime => "least_response_time",
            LbMethod::LeastBandwidth => "least_bandwidth",
            LbMethod::LeastPackets => "least_packets",
            LbMethod::LeastConnections => "least_connections",
            LbMethod::CustomLoad => "custom_load",
            LbMethod::RoundRobin => "round_robin",
            LbMethod::SourceIpHash => "source_ip_hash",
        }
    }
}

/// What a GSLB virtual server answers when every service is down (behaviour 6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllDown {
    /// As if all were up.
    #[default]
    All,
    /// No address: NODATA with the zone's SOA, never NXDOMAIN.
    Empty,
    /// The configured backup address.
    BackupIp,
    /// The services that were up last.
    LastGood,
}

/// A share in round robin, and a divisor of scores: 1 to 100.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Weight(NonZeroU8);

impl Weight {
    /// The default.
    pub const ONE: Weight = Weight(NonZeroU8::MIN);

    /// The weight, if it is 1 to 100.
    pub fn new(weight: u64) -> Result<Self, WeightError> {
        u8::try_from(weight)
            .ok()
            .and_then(NonZeroU8::new)
            .filter(|w| w.get() <= 100)
            .map(Weight)
            .ok_or(WeightError(weight))
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0.get()
    }
}

impl Default for Weight {
    fn default() -> Self {
        Weight::ONE
    }
}

impl TryFrom<u64> for Weight {
    type Error = WeightError;

    fn try_from(weight: u64) -> Result<Self, WeightError> {
        Weight::new(weight)
    }
}

impl From<Weight> for u64 {
    fn from(weight: Weight) -> u64 {
        u64::from(weight.get())
    }
}

/// The number is no weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a weight is 1 to 100, not {0}")]
pub struct WeightError(u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_one_to_a_hundred() {
        assert_eq!(Weight::new(100).map(Weight::get), Ok(100));
        assert_eq!(Weight::new(0), Err(WeightError(0)));
        assert_eq!(Weight::new(101), Err(WeightError(101)));
        assert_eq!(Weight::new(257), Err(WeightError(257)));
    }
}
