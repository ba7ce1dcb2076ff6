//! Rules about manifests: one place for versions, a reason for each crate, the same settings everywhere.

use crate::{Manifest, Text};
use std::collections::BTreeSet;

/// Outside crates in `[workspace.dependencies]` whose line does not say what they are for.
pub fn uncommented_dependencies(root_manifest: &Text) -> Vec<String> {
    let outside = dependency_lines(root_manifest).filter(|line| !line.contains("path = "));
    let silent = outside.filter(|line| line.rsplit_once(" # ").is_none_or(|(_, why)| why.trim().len() < 10));
    silent.map(|line| format!("Cargo.toml: what is it for? {line}")).collect()
}

/// Outside crates in `[workspace.dependencies]` that no crate names.
pub fn unused_dependencies(root_manifest: &Text, manifests: &[Manifest]) -> Vec<String> {
    let named: BTreeSet<&str> =
        manifests.iter().flat_map(|m| &m.dependencies).map(|d| d.name.as_str()).collect();
    let declared = dependency_lines(root_manifest)
        .filter(|line| !line.contains("path = "))
        .filter_map(|line| line.split(' ').next());
    declared
        .filter(|name| !named.contains(name))
        .map(|name| format!("Cargo.toml: nobody uses {name}"))
        .collect()
}

/// The lines of `[workspace.dependencies]` that declare something.
fn dependency_lines(root_manifest: &Text) -> impl Iterator<Item = &str> {
    let section = root_manifest.content.lines().skip_while(|l| *l != "[workspace.dependencies]").skip(1);
    section.take_while(|l| !l.starts_with('[')).filter(|l| !l.trim().is_empty() && !l.starts_with('#'))
}

/// Settings that every crate must take from the workspace.
const INHERITED: [&str; 5] = ["version", "edition", "rust-version", "license", "publish"];

/// Crates that do not keep what all crates keep.
pub fn unkept_manifest_rules(manifests: &[Manifest]) -> Vec<String> {
    manifests.iter().flat_map(|m| unkept(m).into_iter().map(|what| format!("{}: {what}", m.path))).collect()
}

fn unkept(manifest: &Manifest) -> Vec<String> {
    let setting = |section: &str, key: &str| manifest.table.get(section)?.get(key);
    let inherits = |value: Option<&toml::Value>| {
        value.and_then(|v| v.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
    };
    let mut wrong: Vec<String> = INHERITED
        .iter()
        .filter(|key| !inherits(setting("package", key)))
        .map(|key| format!("{key}.workspace = true is missing"))
        .collect();
    if setting("lints", "workspace").and_then(toml::Value::as_bool) != Some(true) {
        wrong.push("[lints] workspace = true is missing".to_owned());
    }
    if setting("package", "description").and_then(toml::Value::as_str).is_none_or(|d| d.len() < 10) {
        wrong.push("description is missing".to_owned());
    }
    if manifest.table.contains_key("features") {
        wrong.push("no feature flags inside the workspace".to_owned());
    }
    let astray = manifest.dependencies.iter().filter(|d| !d.from_workspace);
    wrong.extend(astray.map(|d| format!("{} must take its version from the workspace", d.name)));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace.dependencies]\n# --- ours\nconfig = { path = \"config\" }\n# --- others\n\
                        bytes = \"1\" # cheap slices of buffers\nrand = \"0.10\"\ntime = \"0.3\" # dates\n\n[profile.dev]\nx = 1\n";

    fn manifest(text: &str) -> Manifest {
        Manifest::parse(&Text::new("a/Cargo.toml", text)).unwrap()
    }

    #[test]
    fn an_outside_crate_needs_a_reason_of_more_than_a_word() {
        let found = uncommented_dependencies(&Text::new("Cargo.toml", ROOT));
        assert_eq!(
            found,
            [
                "Cargo.toml: what is it for? rand = \"0.10\"",
                "Cargo.toml: what is it for? time = \"0.3\" # dates"
            ]
        );
    }

    #[test]
    fn a_crate_nobody_names_is_found() {
        let user = manifest(
            "[package]\nname = \"a\"\n[dependencies]\nbytes.workspace = true\n[dev-dependencies]\nrand.workspace = true",
        );
        assert_eq!(
            unused_dependencies(&Text::new("Cargo.toml", ROOT), &[user]),
            ["Cargo.toml: nobody uses time"]
        );
    }

    #[test]
    fn a_crate_takes_its_settings_from_the_workspace() {
        let good = "[package]\nname = \"a\"\ndescription = \"Does one thing.\"\nversion.workspace = true\nedition.workspace = true\n\
                    rust-version.workspace = true\nlicense.workspace = true\npublish.workspace = true\n\
                    [dependencies]\nbytes.workspace = true\n[lints]\nworkspace = true\n";
        assert_eq!(unkept_manifest_rules(&[manifest(good)]), [""; 0]);
        for (from, to) in [
            ("license.workspace = true", "license = \"MIT\""),
            ("edition.workspace = true\n", ""),
            ("[lints]\nworkspace = true", ""),
            ("[lints]", "[features]\nx = []\n[lints]"),
            ("Does one thing.", ""),
            ("bytes.workspace = true", "bytes = \"1\""),
        ] {
            let bad = good.replace(from, to);
            assert_eq!(unkept_manifest_rules(&[manifest(&bad)]).len(), 1, "{to}");
        }
    }
}
