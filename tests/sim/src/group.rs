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
const LISTED: [&str; 3] = ["monitor", "vserver", "domain"];

/// Sites with one node each, one or more services, one virtual server, one domain.
///
/// Everything else stands at the product's defaults unless set.
#[derive(Clone, Debug)]
pub struct Group {
    sites: Vec<String>,
    services: Vec<(String, String)>,
    settings: BTreeMap<String, String>,
    /// What one site's node is told otherwise, by site and setting.
    odd: BTreeMap<(String, String), String>,
}

impl Group {
    /// Sites with a service `web-SITE` each.
    pub fn new(sites: &[&str]) -> Self {
        Group {
            sites: sites.iter().map(|s| (*s).to_owned()).collect(),
            services: sites.iter().map(|s| (format!("web-{s}"), (*s).to_owned())).collect(),
            settings: BTreeMap::new(),
            odd: BTreeMap::new(),
        }
    }

    /// Sets what the configuration calls `table.key`, in TOML: `mep.down_delay = "15s"`. Beside the tables of the
    /// configuration there are `monitor`, `vserver` and `domain`, of which the group has one each.
    #[must_use]
    pub fn with(mut self, setting: &str, value: &str) -> Self {
        self.settings.insert(setting.to_owned(), value.to_owned());
        self
    }

    /// Sets it for one site's node only, as an operator does who forgets the others.
    #[must_use]
    pub fn with_at(mut self, site: &str, setting: &str, value: &str) -> Self {
        self.odd.insert((site.to_owned(), setting.to_owned()), value.to_owned());
        self
    }

    /// Whether a setting is in a table that there is: others would be left out of the text.
    pub fn has_table_of(setting: &str) -> bool {
        let table = setting.split_once('.').map_or("", |(table, _)| table);
        TABLES.contains(&table) || LISTED.contains(&table)
    }

    /// Adds a service to a site.
    #[must_use]
    pub fn with_service(mut self, name: &str, site: &str) -> Self {
        self.services.push((name.to_owned(), site.to_owned()));
        self
    }

    /// The sites, in order.
    pub fn sites(&self) -> impl ExactSizeIterator<Item = &str> {
        self.sites.iter().map(String::as_str)
    }

    /// The place of a site in the order.
    pub fn site(&self, name: &str) -> Option<usize> {
        self.sites.iter().position(|s| s == name)
    }

    /// The address of the n-th service.
    pub fn service_address(n: usize) -> IpAddr {
        Ipv4Addr::from_bits(0xcb00_7100 + u32::try_from(n).unwrap_or(0) + 1).into()
    }

    /// What the n-th site's node runs with.
    pub fn config(&self, site: usize) -> Result<Config, Errors> {
        let name = self.sites.get(site).map_or("", String::as_str);
        let text = self.text(name);
        let mut read = |path: &Path| match path.to_str() {
            Some("gslb.toml") => Ok(text.clone().into_bytes()),
            Some(_) | None => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        config::load(Path::new("gslb.toml"), &mut read, Some(&format!("{name}/1")))
    }

    /// The configuration of one site's node.
    pub fn text(&self, site: &str) -> String {
        let mut text = String::from("version = 1\n");
        for table in TABLES {
            self.table(&mut text, site, &format!("[{table}]"), table);
        }
        for (n, name) in self.sites.iter().enumerate() {
            let _ = writeln!(text, "[[sites]]\nname = \"{name}\"");
            let _ = writeln!(text, "[[nodes]]\nname = \"{name}/1\"\nmep = \"198.18.{}.1:4353\"", n + 1);
        }
        let _ = writeln!(
            text,
            "[[zones]]\nname = \"gslb.test\"\nrecords = '''\n@ SOA ns1 hostmaster 1 1h 15m 1w 5s"
        );
        let _ = writeln!(text, "  NS ns1\nns1 A 198.18.1.1\n'''");
        self.table(&mut text, site, "[[monitors]]\nname = \"web\"\nkind = \"tcp\"", "monitor");
        for (n, (service, site)) in self.services.iter().enumerate() {
            let address = Group::service_address(n);
            let _ = writeln!(
                text,
                "[[services]]\nname = \"{service}\"\nsite = \"{site}\"\naddress = \"{address}\""
            );
            let _ = writeln!(text, "port = 80\nmonitors = [\"web\"]");
        }
        let services: Vec<&str> = self.services.iter().map(|(name, _)| name.as_str()).collect();
        self.table(
            &mut text,
            site,
            &format!("[[vservers]]\nname = \"www\"\nservices = {services:?}"),
            "vserver",
        );
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
    fn a_setting_that_does_not_exist_is_refused_by_the_product_itself() {
        let errors = Group::new(&["fra"]).with("mep.down_dely", "\"5s\"").config(0).unwrap_err();
        assert!(errors.to_string().contains("down_dely"), "{errors}");
        assert!(Group::has_table_of("mep.down_dely"));
        assert!(!Group::has_table_of("mepp.down_delay") && !Group::has_table_of("down_delay"));
    }
}
