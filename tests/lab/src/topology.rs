//! What a laboratory is made of, before it stands.

use crate::error::LabError;
use crate::link::{Delay, Link};
use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The delay of links that were not named, one way.
const DEFAULT_DELAY: Duration = Duration::from_millis(60);

/// Nodes at most: the n-th has 198.18.n.0/24.
const MAX_NODES: usize = 250;

/// What a node is for. The laboratory treats all alike, but for pools, and asks only sites for the truth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A data centre.
    Site,
    /// A client's resolver.
    Ldns,
    /// Anything else: services, attackers, watchers.
    Host,
    /// 65,536 IPv4 addresses, each with its own distance on links with a spread.
    Pool,
}

/// One node as declared.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) v4: Ipv4Net,
    pub(crate) v6: Ipv6Net,
}

impl Node {
    /// Its address of this family: .1 or ::1 of its prefix.
    pub(crate) fn v4(&self) -> Ipv4Addr {
        nth_v4(self.v4, 1)
    }

    pub(crate) fn v6(&self) -> Ipv6Addr {
        nth_v6(self.v6, 1)
    }

    pub(crate) fn has(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.v4.contains(&v4),
            IpAddr::V6(v6) => self.v6.contains(&v6),
        }
    }
}

/// The n-th address of a prefix; counting starts again where the prefix ends.
pub(crate) fn nth_v4(prefix: Ipv4Net, n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(prefix.network().to_bits() | (n & prefix.hostmask().to_bits()))
}

/// The n-th address of a prefix; counting starts again where the prefix ends.
pub(crate) fn nth_v6(prefix: Ipv6Net, n: u128) -> Ipv6Addr {
    Ipv6Addr::from_bits(prefix.network().to_bits() | (n & prefix.hostmask().to_bits()))
}

/// The plan of a laboratory; [`Topology::up`] builds it.
///
/// Node number i, counted from 1 in the order of declaration, has 198.18.i.0/24 and 2001:db8:i::/48; its own address
/// is .1 and ::1. The j-th pool has 198.19.0.0/16 (there is room for one) and 2001:db8:ff00::/40. Links that are not
/// named have 60 ms each way.
#[derive(Clone, Debug)]
pub struct Topology {
    pub(crate) name: String,
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<(String, String, Link)>,
    pub(crate) default_link: Link,
    pub(crate) seed: u64,
    pub(crate) mtu: u16,
}

impl Topology {
    /// A laboratory without nodes. The name is for people who look at a hanging test; it need not be unique.
    pub fn new(name: &str) -> Topology {
        Topology {
            name: name.to_owned(),
            nodes: Vec::new(),
            links: Vec::new(),
            default_link: DEFAULT_DELAY.into(),
            seed: 1,
            mtu: 1500,
        }
    }

    /// Adds a data centre.
    pub fn site(self, name: &str) -> Topology {
        self.node(name, Role::Site)
    }

    /// Adds a resolver.
    pub fn ldns(self, name: &str) -> Topology {
        self.node(name, Role::Ldns)
    }

    /// Adds a node for anything else.
    pub fn host(self, name: &str) -> Topology {
        self.node(name, Role::Host)
    }

    /// Adds the pool: every address of 198.19.0.0/16 and 2001:db8:ff00::/40 answers ping.
    pub fn pool(self, name: &str) -> Topology {
        self.node(name, Role::Pool)
    }

    /// Sets the way between two nodes, in both directions: the delay is one way, the round trip is twice that.
    pub fn link(mut self, a: &str, b: &str, link: impl Into<Link>) -> Topology {
        let link = link.into();
        self.links.push((a.to_owned(), b.to_owned(), link));
        self.links.push((b.to_owned(), a.to_owned(), link));
        self
    }

    /// Sets one direction alone.
    pub fn one_way(mut self, from: &str, to: &str, link: impl Into<Link>) -> Topology {
        self.links.push((from.to_owned(), to.to_owned(), link.into()));
        self
    }

    /// Sets the way between nodes without a link of their own.
    pub fn default_link(self, link: impl Into<Link>) -> Topology {
        Topology { default_link: link.into(), ..self }
    }

    /// Decides losses, jitter and the distances of pool addresses.
    pub fn seed(self, seed: u64) -> Topology {
        Topology { seed, ..self }
    }

    /// Sets the MTU of every node.
    pub fn mtu(self, mtu: u16) -> Topology {
        Topology { mtu, ..self }
    }

    /// The nodes' names, in order.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.name.as_str())
    }

    fn node(mut self, name: &str, role: Role) -> Topology {
        let i = self.nodes.len() as u32 + 1;
        let (v4, v6) = match role {
            Role::Site | Role::Ldns | Role::Host => {
                let v6 = Ipv6Addr::new(0x2001, 0xdb8, (i & 0xffff) as u16, 0, 0, 0, 0, 0);
                (
                    Ipv4Net::new_assert(Ipv4Addr::from_bits(0xc612_0000 | (i & 0xff) << 8), 24),
                    Ipv6Net::new_assert(v6, 48),
                )
            }
            Role::Pool => (
                Ipv4Net::new_assert(Ipv4Addr::new(198, 19, 0, 0), 16),
                Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0xdb8, 0xff00, 0, 0, 0, 0, 0), 40),
            ),
        };
        self.nodes.push(Node { name: name.to_owned(), role, v4, v6 });
        self
    }

    /// Finds what can't be built, before anything is.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        let wrong = |why: String| Err(LabError::Topology(why));
        if self.nodes.len() > MAX_NODES {
            return wrong(format!("{} nodes; there is room for {MAX_NODES}", self.nodes.len()));
        }
        for (i, node) in self.nodes.iter().enumerate() {
            if !is_node_name(&node.name) {
                return wrong(format!("{:?} is no node name: 1 to 31 of a-z 0-9 -", node.name));
            }
            if self.nodes.iter().take(i).any(|other| other.name == node.name) {
                return wrong(format!("two nodes are named {}", node.name));
            }
        }
        if self.nodes.iter().filter(|node| node.role == Role::Pool).count() > 1 {
            return wrong("two pools; there is room for one".to_owned());
        }
        for (from, to, link) in &self.links {
            let ends: Vec<_> =
                self.nodes.iter().filter(|node| node.name == *from || node.name == *to).collect();
            if ends.len() != 2 {
                return wrong(format!("a link joins two nodes of the laboratory; not {from} and {to}"));
            }
            let spreads = matches!(link.delay, Delay::Spread(..));
            if spreads && !ends.iter().any(|node| node.role == Role::Pool) {
                return wrong(format!("{from} and {to}: only a link to a pool can have a spread"));
            }
        }
        if matches!(self.default_link.delay, Delay::Spread(..)) {
            return wrong("the default link can't have a spread".to_owned());
        }
        Ok(())
    }
}

fn is_node_name(name: &str) -> bool {
    (1..=31).contains(&name.len())
        && name.bytes().all(|octet| octet.is_ascii_lowercase() || octet.is_ascii_digit() || octet == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::spread;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn why(topology: &Topology) -> String {
        topology.check().expect_err("can't be built").to_string()
    }

    #[test]
    fn addresses_follow_from_the_order_of_declaration() {
        let plan = Topology::new("t").site("fra").ldns("ldns-eu").pool("pool").host("web");
        let of = |i: usize| (plan.nodes[i].v4().to_string(), plan.nodes[i].v6().to_string());
        assert_eq!(of(0), ("198.18.1.1".to_owned(), "2001:db8:1::1".to_owned()));
        assert_eq!(of(1), ("198.18.2.1".to_owned(), "2001:db8:2::1".to_owned()));
        assert_eq!(of(2), ("198.19.0.1".to_owned(), "2001:db8:ff00::1".to_owned()));
        assert_eq!(of(3), ("198.18.4.1".to_owned(), "2001:db8:4::1".to_owned()));
        assert!(plan.check().is_ok());
    }

    #[test]
    fn the_nth_address_stays_within_the_prefix() {
        let prefix: Ipv4Net = "198.18.3.0/24".parse().expect("a prefix");
        assert_eq!(nth_v4(prefix, 53).to_string(), "198.18.3.53");
        assert_eq!(nth_v4(prefix, 256).to_string(), "198.18.3.0");
        let prefix: Ipv6Net = "2001:db8:3::/48".parse().expect("a prefix");
        assert_eq!(nth_v6(prefix, 0x53).to_string(), "2001:db8:3::53");
    }

    #[test]
    fn what_cannot_be_built_is_said() {
        let plan = Topology::new("t").site("fra").site("iad");
        assert!(why(&plan.clone().site("fra")).contains("two nodes are named fra"));
        assert!(why(&plan.clone().site("Sin")).contains("\"Sin\" is no node name"));
        assert!(why(&plan.clone().link("fra", "sin", ms(1))).contains("not fra and sin"));
        assert!(why(&plan.clone().link("fra", "fra", ms(1))).contains("not fra and fra"));
        assert!(why(&plan.clone().link("fra", "iad", spread(ms(1), ms(2)))).contains("spread"));
        assert!(why(&plan.clone().default_link(spread(ms(1), ms(2)))).contains("spread"));
        assert!(why(&plan.clone().pool("p").pool("q")).contains("two pools"));
        let many = (0..251).fold(Topology::new("t"), |plan, n| plan.host(&format!("h{n}")));
        assert!(why(&many).contains("251 nodes"));
    }
}
