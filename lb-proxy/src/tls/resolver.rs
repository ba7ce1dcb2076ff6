//! Which certificate a client gets.

use super::certificates::Certificate;
use arc_swap::ArcSwap;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;

/// The certificates in use, replaced as a whole.
#[derive(Debug)]
pub(super) struct Resolver {
    table: ArcSwap<Table>,
}

#[derive(Debug)]
struct Table {
    /// In the order of the configuration.
    all: Vec<Certificate>,
    /// By exact name and by `*.` name, into `all`; the first certificate of a name has it.
    by_name: HashMap<String, usize>,
}

impl Table {
    fn new(all: Vec<Certificate>) -> Self {
        let mut by_name = HashMap::new();
        for (index, certificate) in all.iter().enumerate() {
            for name in &certificate.names {
                by_name.entry(name.clone()).or_insert(index);
            }
        }
        Table { all, by_name }
    }

    /// The exact name, else the wildcard of its parent, else the first of all: a client without a name, or with one that is
    /// nobody's, gets an answer that it can reject and report, rather than an alert that says nothing.
    fn find(&self, name: Option<&str>) -> Option<&Certificate> {
        let name = name.map(str::to_ascii_lowercase).unwrap_or_default();
        let wildcard = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
        let known = self.by_name.get(&name).or_else(|| self.by_name.get(&wildcard?));
        self.all.get(known.copied().unwrap_or(0))
    }
}

impl Resolver {
    pub(super) fn new(all: Vec<Certificate>) -> Self {
        Resolver { table: ArcSwap::from_pointee(Table::new(all)) }
    }

    /// Serves these from here on. Whether they are others than before.
    pub(super) fn replace(&self, all: Vec<Certificate>) -> bool {
        let before = self.table.load();
        let is_same = before.all.len() == all.len()
            && before.all.iter().zip(&all).all(|(old, new)| old.key.cert == new.key.cert);
        if !is_same {
            self.table.store(Arc::new(Table::new(all)));
        }
        !is_same
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.table.load().find(client_hello.server_name()).map(|certificate| certificate.key.clone())
    }
}
