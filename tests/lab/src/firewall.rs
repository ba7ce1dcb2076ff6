//! Packet filters of nodes that answer instead of keeping silent, by nftables.

use std::fmt::Write;

/// The table that holds our rules in a node.
const TABLE: &str = "inet lab";

/// How a node turns a packet away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// TCP RST; for TCP alone.
    Reset,
    /// ICMP port unreachable.
    PortUnreachable,
    /// ICMP host unreachable, although the host itself says so.
    HostUnreachable,
    /// ICMP communication administratively prohibited.
    Prohibited,
    /// Nothing at all.
    Silence,
}

impl Rejection {
    fn verdict(self) -> &'static str {
        match self {
            Rejection::Reset => "reject with tcp reset",
            Rejection::PortUnreachable => "reject with icmpx type port-unreachable",
            Rejection::HostUnreachable => "reject with icmpx type host-unreachable",
            Rejection::Prohibited => "reject with icmpx type admin-prohibited",
            Rejection::Silence => "drop",
        }
    }
}

/// The rules of a node: those it had are replaced. A rule is what nftables matches ("udp dport 53") and what happens.
pub(crate) fn ruleset(rules: &[(&str, Rejection)]) -> String {
    // Adding first makes the deletion work where there is nothing yet.
    let mut text = format!("table {TABLE}\ndelete table {TABLE}\ntable {TABLE} {{\n chain input {{\n");
    text.push_str("  type filter hook input priority 0;\n");
    for (matches, rejection) in rules {
        // Writing into a string does not fail.
        let _ = writeln!(text, "  {matches} {}", rejection.verdict());
    }
    text.push_str(" }\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_replace_those_before() {
        let text = ruleset(&[("udp dport 53", Rejection::Prohibited), ("tcp dport 53", Rejection::Reset)]);
        assert!(text.starts_with("table inet lab\ndelete table inet lab\n"));
        assert!(text.contains("  udp dport 53 reject with icmpx type admin-prohibited\n"));
        assert!(text.contains("  tcp dport 53 reject with tcp reset\n"));
    }
}
