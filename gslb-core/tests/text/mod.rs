//! A group's configuration from its parts, as an operator writes it.
#![allow(dead_code, reason = "each test needs some of the parts")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use config::Config;
use std::path::Path;
use std::sync::Arc;

/// A monitor, "web".
pub(crate) const WEB: &str = "[[monitors]]\nname = \"web\"\nkind = \"tcp\"\n";

/// The domain `www.gslb.test` of the virtual server "www", and its zone.
pub(crate) const WWW: &str = "[[domains]]\nname = \"www.gslb.test\"\nvserver = \"www\"
[[zones]]\nname = \"gslb.test\"\nrecords = '''\n@ SOA ns hostmaster 1 1h 15m 1w 5s\n@ NS ns\nns A 198.18.1.1\n'''\n";

pub(crate) fn sites(names: &[&str]) -> String {
    names.iter().map(|name| format!("[[sites]]\nname = \"{name}\"\n")).collect()
}

/// Nodes, the n-th at the n-th address of one network.
pub(crate) fn nodes(ids: &[&str]) -> String {
    let node = |(id, n): (&&str, usize)| format!("[[nodes]]\nname = \"{id}\"\nmep = \"198.18.0.{n}:4353\"\n");
    ids.iter().zip(1..).map(node).collect()
}

pub(crate) fn service(name: &str, site: &str, address: &str, more: &str) -> String {
    format!(
        "[[services]]\nname = \"{name}\"\nsite = \"{site}\"\naddress = \"{address}\"\nport = 80\n{more}\n"
    )
}

/// `more` stands in its table beside the services.
pub(crate) fn vserver(name: &str, services: &[&str], more: &str) -> String {
    format!("[[vservers]]\nname = \"{name}\"\nservices = {services:?}\n{more}\n")
}

/// Loads it, for this node, or for the only one.
pub(crate) fn load(text: &str, node: Option<&str>) -> Arc<Config> {
    let mut read = |_: &Path| Ok(text.as_bytes().to_vec());
    let config = config::load(Path::new("/etc/gslb.toml"), &mut read, node);
    Arc::new(config.unwrap_or_else(|errors| panic!("{errors}")))
}
