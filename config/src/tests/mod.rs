//! Tests of the whole way from text to configuration.

mod example;
mod exchange;
mod faults;
mod hashes;
mod lb;
mod location;
mod meaning;
mod monitors;
mod policy;
mod printed;
mod random;
mod sources;
mod zone_rules;
mod zones;

use crate::{Config, Errors, load};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// A folder of files that exists only here.
#[derive(Default)]
pub(crate) struct Folder(BTreeMap<PathBuf, Vec<u8>>);

impl Folder {
    pub(crate) fn with(mut self, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.0.insert(PathBuf::from(path), text.as_ref().to_vec());
        self
    }

    pub(crate) fn load(&self, node: Option<&str>) -> Result<Config, Errors> {
        let mut read =
            |path: &Path| self.0.get(path).cloned().ok_or(io::Error::from(io::ErrorKind::NotFound));
        load(Path::new("gslb.toml"), &mut read, node)
    }

    /// What is wrong, one line for each error.
    pub(crate) fn errors(&self) -> Vec<String> {
        match self.load(None) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.iter().map(|e| without_main(e.headline())).collect(),
        }
    }
}

fn without_main(headline: String) -> String {
    match headline.strip_prefix("gslb.toml:") {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => rest.to_owned(),
        Some(_) | None => headline,
    }
}

pub(crate) fn folder(main: &str) -> Folder {
    Folder::default().with("gslb.toml", main)
}

/// A configuration of one node, with a zone, a service, a virtual server and a domain. Line 1 is empty, for a key or two.
pub(crate) const SMALL: &str = r#"
version = 1

[[sites]]
name = "fra"

[[nodes]]
name = "fra/1"
mep = "198.18.1.1:4353"

[[zones]]
name = "gslb.test"
records = '''
@   SOA ns1 hostmaster 1 1h 15m 1w 5s
    NS  ns1
ns1 A   198.18.1.1
'''

[[services]]
name = "web"
site = "fra"
address = "198.18.1.80"
port = 80

[[vservers]]
name = "www"
services = ["web"]

[[domains]]
name = "www.gslb.test"
vserver = "www"
"#;

/// The small configuration with one text in it replaced, which must be there.
pub(crate) fn with(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    SMALL.replacen(from, to, 1)
}

pub(crate) fn and(more: &str) -> String {
    format!("{SMALL}{more}")
}
