//! What the prober counted.

/// Numbers since the node started, and gauges of the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProberStats {
    /// LDNS with an entry.
    pub ldns: usize,
    /// Of these, protected from eviction by newcomers: with a sample, or having asked in two different seconds and not yet
    /// been found unreachable.
    pub proven: usize,
    /// Of `ldns`, those this node probes; the others are its neighbours' in the site.
    pub ours: usize,
    /// Probes sent, by kind: ping, dns-udp, dns-tcp.
    pub sent: [u64; 3],
    /// Samples, by kind.
    pub samples: [u64; 3],
    /// Probes that timed out.
    pub timeouts: u64,
    /// Of these, probes the sender never reported: it is dead, or far behind (faults I-57).
    pub overdue: u64,
    /// Replies to no probe that is awaited.
    pub late: u64,
    /// ICMP errors from routers, which are no samples.
    pub router_errors: u64,
    /// Probes that could not be sent.
    pub send_failed: u64,
    /// Probes put off because a budget was used up.
    pub over_budget: u64,
    /// Entries pushed out by newcomers.
    pub evicted: u64,
    /// Newcomers turned away because the table was full of proven ones.
    pub turned_away: u64,
    /// How often the LDNS were shared out anew, which walks all entries.
    pub share_walks: u64,
    /// Whether ICMP is permitted, for IPv4 and IPv6 both; `None` until the first ping.
    pub icmp_permitted: Option<bool>,
}
