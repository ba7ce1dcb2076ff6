//! A crate's Cargo.toml, as far as the rules look at it.

use crate::Text;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A crate's manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The crate's name.
    pub name: String,
    /// Where it stands, from the root.
    pub path: String,
    /// All it depends on, whatever for.
    pub dependencies: Vec<Dependency>,
    /// The whole file.
    pub table: toml::Table,
}

/// One crate that another one names.
#[derive(Clone, Debug, PartialEq)]
pub struct Dependency {
    /// The name of the crate named, also if it is renamed.
    pub name: String,
    /// What for.
    pub for_use: Use,
    /// Whether version and source come from the workspace.
    pub from_workspace: bool,
}

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The crate itself, or its build script.
    Product,
    /// Its tests and benches.
    Tests,
}

impl Manifest {
    /// Reads a Cargo.toml.
    pub fn parse(text: &Text) -> Result<Self, toml::de::Error> {
        let parts: Parts = toml::from_str(&text.content)?;
        let mut dependencies = Vec::new();
        for tables in std::iter::once(&parts.tables).chain(parts.target.values()) {
            tables.gather(&mut dependencies);
        }
        let table = toml::from_str(&text.content)?;
        Ok(Manifest { name: parts.package.name, path: text.path.clone(), dependencies, table })
    }
}

#[derive(Deserialize)]
struct Parts {
    package: Package,
    #[serde(flatten)]
    tables: Tables,
    #[serde(default)]
    target: BTreeMap<String, Tables>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Tables {
    #[serde(default)]
    dependencies: toml::Table,
    #[serde(default)]
    build_dependencies: toml::Table,
    #[serde(default)]
    dev_dependencies: toml::Table,
}

impl Tables {
    fn gather(&self, into: &mut Vec<Dependency>) {
        let product = self.dependencies.iter().chain(&self.build_dependencies);
        into.extend(product.map(|(name, value)| dependency(name, value, Use::Product)));
        into.extend(self.dev_dependencies.iter().map(|(name, value)| dependency(name, value, Use::Tests)));
    }
}

fn dependency(key: &str, value: &toml::Value, for_use: Use) -> Dependency {
    let name = value.get("package").and_then(toml::Value::as_str).unwrap_or(key).to_owned();
    let from_workspace = value.get("workspace").and_then(toml::Value::as_bool).unwrap_or(false);
    Dependency { name, for_use, from_workspace }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_dependency_is_found() {
        let text = "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\nnick = { package = \"real\", version = \"1\" }\n\
                    [build-dependencies]\nc = \"1\"\n[dev-dependencies]\nd.workspace = true\n\
                    [target.'cfg(unix)'.dependencies]\ne.workspace = true\n";
        let manifest = Manifest::parse(&Text::new("a/Cargo.toml", text)).unwrap();
        let found: Vec<_> =
            manifest.dependencies.iter().map(|d| (d.name.as_str(), d.for_use, d.from_workspace)).collect();
        assert_eq!(
            found,
            [
                ("b", Use::Product, true),
                ("real", Use::Product, false),
                ("c", Use::Product, false),
                ("d", Use::Tests, true),
                ("e", Use::Product, true),
            ]
        );
    }
}
