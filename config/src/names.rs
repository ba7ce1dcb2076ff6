//! Names that entries are given and referred to by.

use crate::error::instead;
use crate::reader::{Item, Table};
use crate::text::Spot;
use std::collections::BTreeMap;

/// The names of one kind of entry, each with the index of its entry.
pub(crate) struct Names {
    /// "site", "service", ...
    kind: &'static str,
    by_name: BTreeMap<String, (usize, Spot)>,
}

impl Names {
    pub(crate) fn new(kind: &'static str) -> Self {
        Names { kind, by_name: BTreeMap::new() }
    }

    /// Takes the name a table gives; refuses one that was given before.
    ///
    /// It is kept even if the rest of the entry is wrong, lest every reference to it be an error, too.
    pub(crate) fn give(&mut self, name: &str, index: usize, table: &Table<'_>) {
        if let Some((_, first)) = self.by_name.get(name) {
            let place = first.file_and_line();
            table.refuse("name", format!("there is a {} '{name}' already, at {place}", self.kind));
            return;
        }
        self.by_name.insert(name.to_owned(), (index, table.spot().clone()));
    }

    /// The index of the entry an item names.
    pub(crate) fn find(&self, item: &Item<'_>) -> Option<usize> {
        let name = item.text()?;
        let found = self.index(name);
        if found.is_none() {
            let known: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
            item.refuse(format!("there is no {} '{name}', {}", self.kind, instead(name, &known)));
        }
        found
    }

    /// The index of the entry of this name.
    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).map(|(index, _)| *index)
    }

    /// The names, in alphabetical order.
    pub(crate) fn list(&self) -> Vec<&str> {
        self.by_name.keys().map(String::as_str).collect()
    }
}
