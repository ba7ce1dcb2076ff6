//! What an operator sets about LDNS probes.

use gslb_types::{LdnsMasks, ProbeKind};
use ipnet::IpNet;
use std::net::IpAddr;
use std::time::Duration;

/// How LDNS are probed, and which (behaviour 3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The kinds, preferred first; none twice.
    pub order: Vec<ProbeKind>,
    /// From the start of one round to the start of the next, at least.
    pub interval: Duration,
    /// How long one probe waits; less than the interval.
    pub timeout: Duration,
    /// The preferred order is tried from the top again after this long.
    pub retry_order: Duration,
    /// Failed rounds in a row before the value is withdrawn; 0 counts as 1.
    pub failed_rounds: u32,
    /// Probes a second at most, all kinds together.
    pub per_second: u32,
    /// LDNS a second that may be probed for the first time.
    pub new_per_second: u32,
    /// Probes a second towards one prefix (/24, /56).
    pub per_prefix: u32,
    /// Entries at most.
    pub cap: usize,
    /// An LDNS that has asked nobody in the group for this long is forgotten.
    pub idle_timeout: Duration,
    /// How many leading bits make an entry.
    pub masks: LdnsMasks,
    /// Whether LDNS in private ranges are probed.
    pub private: bool,
    /// Never probed.
    pub exclude: Vec<IpNet>,
    /// Probed although loopback, link-local or private.
    pub include: Vec<IpNet>,
    /// The node's own addresses, and those it answers with: never probed (threat T4).
    pub own: Vec<IpAddr>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            order: ProbeKind::DEFAULT_ORDER.to_vec(),
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
            retry_order: Duration::from_secs(60),
            failed_rounds: 3,
            per_second: 500,     // threat T3
            new_per_second: 100, // a fifth of it, so that a flood of newcomers leaves room for the rounds they begin
            per_prefix: 2,       // threat T3
            cap: 100_000,
            idle_timeout: Duration::from_secs(180),
            masks: LdnsMasks::default(),
            private: true,
            exclude: Vec::new(),
            include: Vec::new(),
            own: Vec::new(),
        }
    }
}

impl Settings {
    /// Whether these settings let an address be probed, and so have an entry.
    pub fn probes(&self, address: IpAddr) -> bool {
        super::admission::is_probed(self, address)
    }

    /// Failed rounds in a row that make an LDNS unreachable.
    pub(super) fn fatal_rounds(&self) -> u32 {
        self.failed_rounds.max(1)
    }

    /// From round to round after so many failed ones: doubled with each once the LDNS is unreachable, up to 45 s.
    ///
    /// An address that answers nothing costs its owner and us little (threat T3), and is noticed within a minute when it
    /// answers again. With jitter and the timeouts of a round it stays below the minute after which a value that nothing
    /// confirms is taken as unknown: what is unreachable shows as unreachable all the time.
    pub(super) fn period(&self, failed_rounds: u32) -> Duration {
        const LONGEST: Duration = Duration::from_secs(45);
        let Some(beyond) = failed_rounds.checked_sub(self.fatal_rounds()) else { return self.interval };
        let doubled = 2_u32.checked_pow(beyond.saturating_add(1)).unwrap_or(u32::MAX);
        self.interval.saturating_mul(doubled).min(LONGEST.max(self.interval))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_doubles_the_interval_once_the_ldns_is_unreachable() {
        let settings = Settings::default();
        let secs: Vec<u64> = (0..9).map(|n| settings.period(n).as_secs()).collect();
        assert_eq!(secs, [5, 5, 5, 10, 20, 40, 45, 45, 45]);
        assert_eq!(settings.period(u32::MAX).as_secs(), 45);
        let slow = Settings { interval: Duration::from_secs(300), ..settings };
        assert_eq!(slow.period(7).as_secs(), 300);
    }
}
