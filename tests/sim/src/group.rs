//! The group under test, as the configuration text its nodes are given.

use config::{Config, Errors};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

/// The GSLB domain that every group has.
pub const DOMAIN: &str = "www.gslb.test";

/// Tables of the configuration that stand in it once, in the order of the text.
const TABLES: [&str; 5] = ["group", "dns", "mep", "probe", "ldns"];

/// Those of which it could hold several, and holds one.
const LISTED: [&str; 4] = ["monitor", "vserver", "backup", "domain"];

/// Those of which it holds several, all with the same settings.
const REPEATED: [&str; 3] = ["site", "node", "service"];

/// Sites with one or more nodes, services, one virtual server, one domain.
///
/// Everything else stands at the product's defaults unless set. Nodes are called SITE/1, SITE/2 and so on; their order is that
/// of the sites.
#[derive(Clone, Debug)]
pub struct Group {
    sites: Vec<(String, usize)>,
    services: Vec<(String, String)>,
    settings: BTreeMap<String, String>,
    /// What one site's nodes are told otherwise, by site and setting.
    odd: BTreeMap<(String, String), String>,
}

impl Group {
    /// Sites with one node and a service `web-SITE` each.
    pub fn new(sites: &[&str]) -> Self {
        Group {
            sites: sites.iter().map(|s| ((*s).to_owned(), 1)).collect(),
            services: sites.iter().map(|s| (format!("web-{s}"), (*s).to_owned())).collect(),
            settings: BTreeMap::new(),
            odd: BTreeMap::new(),
        }
    }

    /// Sets what the configuration calls `table.key`, in TOML: `mep.down_delay = "15s"`. Beside the tables of the
    /// configuration there are `monitor`, `vserver` and `domain`, of which the group has one each, and `site`, `node` and
    /// `service`, for all of them.
    #[must_use]
    pub fn with(mut self, setting: &str, value: &str) -> Self {
        self.settings.insert(setting.to_owned(), value.to_owned());
        self
    }

    /// Gives a site so many nodes.
    #[must_use]
    pub fn with_nodes(mut self, site: &str, nodes: usize) -> Self {
        if let Some((_, count)) = self.sites.iter_mut().find(|(name, _)| name == site) {
            *count = nodes;
        }
        self
    }

    /// Sets it for one site's nodes only, as an operator does who forgets the others.
    #[must_use]
    pub fn with_at(mut self, site: &str, setting: &str, value: &str) -> Self {
        self.odd.insert((site.to_owned(), setting.to_owned()), value.to_owned());
        self
    }

    /// Whether a setting is in a table that there is: others would be left out of the text.
    pub fn has_table_of(setting: &str) -> bool {
        let table = setting.split_once('.').map_or("", |(table, _)| table);
        [TABLES.as_slice(), &LISTED, &REPEATED].iter().any(|tables| tables.contains(&table))
    }

    /// Adds a service to a site.
    #[must_use]
    pub fn with_service(mut self, name: &str, site: &str) -> Self {
        self.services.push((name.to_owned(), site.to_owned()));
        self
    }

    /// The sites, in order.
    pub fn sites(&self) -> impl ExactSizeIterator<Item = &str> {
        self.sites.iter().map(|(name, _)| name.as_str())
    }

    /// The place of a site in the order.
    pub fn site(&self, name: &str) -> Option<usize> {
        self.sites().position(|site| site == name)
    }

    /// The nodes, in order, as SITE/NODE.
    pub fn nodes(&self) -> impl Iterator<Item = String> + '_ {
        self.sites.iter().flat_map(|(name, nodes)| (1..=*nodes).map(move |n| format!("{name}/{n}")))
    }

    /// The address of the n-th service.
    pub fn service_address(n: usize) -> IpAddr {
        Ipv4Addr::from_bits(0xcb00_7100 + u32::try_from(n).unwrap_or(0) + 1).into()
    }

    /// What the n-th node runs with.
    pub fn config(&self, node: usize) -> Result<Config, Errors> {
        let name = self.nodes().nth(node).unwrap_or_default();
        let text = self.text(name.split('/').next().unwrap_or_default());
        let mut read = |path: &Path| match path.to_str() {
            Some("gslb.toml") => Ok(text.clone().into_bytes()),
            Some(_) | None => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        config::load(Path::new("gslb.toml"), &mut read, Some(&name))
    }

    /// The configuration of one site's nodes.
    pub fn text(&self, site: &str) -> String {
        let mut text = String::from("version = 1\n");
        for table in TABLES {
            self.table(&mut text, site, &format!("[{table}]"), table);
        }
        for (n, (name, nodes)) in self.sites.iter().enumerate() {
            self.table(&mut text, site, &format!("[[sites]]\nname = \"{name}\""), "site");
            for node in 1..=*nodes {
                let mep = format!("198.18.{}.{node}:4353", n + 1);
                let head = format!("[[nodes]]\nname = \"{name}/{node}\"\nmep = \"{mep}\"");
                self.table(&mut text, site, &head, "node");
            }
        }
        let _ = writeln!(
            text,
            "[[zones]]\nname = \"gslb.test\"\nrecords = '''\n@ SOA ns1 hostmaster 1 1h 15m 1w 5s"
        );
        let _ = writeln!(text, "  NS ns1\nns1 A 198.18.1.1\n'''");
        self.table(&mut text, site, "[[monitors]]\nname = \"web\"\nkind = \"tcp\"", "monitor");
        for (n, (service, stands_at)) in self.services.iter().enumerate() {
            let address = Group::service_address(n);
            let head = format!(
                "[[services]]\nname = \"{service}\"\nsite = \"{stands_at}\"\naddress = \"{address}\"\nport = 80\n\
                 monitors = [\"web\"]"
            );
            self.table(&mut text, site, &head, "service");
        }
        let services: Vec<&str> = self.services.iter().map(|(name, _)| name.as_str()).collect();
        // Where they are set with orders or weights they stand among the settings.
        let services = match self.settings.contains_key("vserver.services") {
            true => String::new(),
            false => format!("\nservices = {services:?}"),
        };
        self.table(&mut text, site, &format!("[[vservers]]\nname = \"www\"{services}"), "vserver");
        if self.settings.keys().any(|setting| setting.starts_with("backup.")) {
            self.table(&mut text, site, "[[vservers]]\nname = \"backup\"", "backup");
        }
        self.table(
            &mut text,
            site,
            &format!("[[domains]]\nname = \"{DOMAIN}\"\nvserver = \"www\""),
            "domain",
        );
        text
    }

    fn table(&self, text: &mut String, site: &str, head: &str, table: &str) {
        let _ = writeln!(text, "{head}");
        let mut keys = BTreeMap::new();
        let odd =
            self.odd.iter().filter(|((s, _), _)| s == site).map(|((_, setting), value)| (setting, value));
        for (setting, value) in self.settings.iter().chain(odd) {
            if let Some((_, key)) = setting.split_once('.').filter(|(t, _)| *t == table) {
                keys.insert(key, value);
            }
        }
        for (key, value) in keys {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_group_is_a_configuration_for_each_node() {
        let group = Group::new(&["fra", "iad"])
            .with("group.rtt_tolerance", "\"7ms\"")
            .with_at("iad", "group.rtt_tolerance", "\"50ms\"")
            .with_service("api-fra", "fra");
        let (fra, iad) = (group.config(0).unwrap(), group.config(1).unwrap());
        assert_eq!((fra.this_node().id.to_string().as_str(), fra.this_site().get()), ("fra/1", 0));
        assert_eq!(fra.group.rtt_tolerance, Duration::from_millis(7));
        assert_eq!(iad.group.rtt_tolerance, Duration::from_millis(50));
        assert_eq!(fra.services.len(), 3);
        assert_eq!(fra.services[2].address, Group::service_address(2));
    }

    #[test]
    fn a_site_may_have_several_nodes() {
        let group = Group::new(&["fra", "iad"]).with_nodes("fra", 2).with_at("iad", "mep.max_age", "\"30s\"");
        assert_eq!(group.nodes().collect::<Vec<_>>(), ["fra/1", "fra/2", "iad/1"]);
        let nodes: Vec<Config> = (0..3).map(|n| group.config(n).unwrap()).collect();
        assert_eq!(nodes[1].this_node().id.to_string(), "fra/2");
        assert_eq!(nodes.iter().map(|c| c.this_site().get()).collect::<Vec<_>>(), [0, 0, 1]);
        assert_eq!(nodes[2].mep.max_age, Duration::from_secs(30));
    }

    #[test]
    fn a_setting_that_does_not_exist_is_refused_by_the_product_itself() {
        let errors = Group::new(&["fra"]).with("mep.down_dely", "\"5s\"").config(0).unwrap_err();
        assert!(errors.to_string().contains("down_dely"), "{errors}");
        assert!(Group::has_table_of("mep.down_dely"));
        assert!(!Group::has_table_of("mepp.down_delay") && !Group::has_table_of("down_delay"));
    }
}
