//! The files of the repository, as texts.

use crate::Manifest;
use std::fs;
use std::path::{Path, PathBuf};

/// One file: its path from the root, with slashes, and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// `lb-core/src/lib.rs`
    pub path: String,
    /// What stands in it.
    pub content: String,
}

impl Text {
    /// A file that a test made up.
    pub fn new(path: &str, content: &str) -> Self {
        Text { path: path.to_owned(), content: content.to_owned() }
    }

    /// Whether its name ends like this.
    pub fn ends(&self, suffix: &str) -> bool {
        self.path.ends_with(suffix)
    }

    /// Whether a program wrote it, and is responsible for how it looks.
    pub fn is_generated(&self) -> bool {
        self.path.split('/').any(|folder| folder == "gen")
    }
}

/// This repository.
pub struct Repository {
    texts: Vec<Text>,
}

/// Folders that hold nothing of ours.
const OUTSIDE: [&str; 3] = [".git", "target", "node_modules"];

impl Repository {
    /// Reads every text file of the repository this crate is part of.
    ///
    /// # Panics
    /// If the folder cannot be read: then no rule can be checked.
    #[allow(clippy::panic, reason = "a rule that cannot be checked is a rule that fails")]
    pub fn read() -> Self {
        let mut texts = Vec::new();
        if let Err(error) = collect(&root(), &root(), &mut texts) {
            panic!("the repository cannot be read: {error}");
        }
        texts.sort_by(|a, b| a.path.cmp(&b.path));
        Repository { texts }
    }

    /// All its texts, by path.
    pub fn texts(&self) -> &[Text] {
        &self.texts
    }

    /// The Rust sources.
    pub fn sources(&self) -> Vec<&Text> {
        self.texts.iter().filter(|t| t.ends(".rs")).collect()
    }

    /// One file.
    ///
    /// # Panics
    /// If there is none: the rules about it are broken then.
    #[allow(clippy::panic, reason = "a file that a rule is about must be there")]
    pub fn text(&self, path: &str) -> &Text {
        self.texts.iter().find(|t| t.path == path).unwrap_or_else(|| panic!("{path} is missing"))
    }

    /// The manifests of all crates of the workspace.
    ///
    /// # Panics
    /// If one is not a manifest.
    #[allow(clippy::panic, reason = "a manifest that cannot be read breaks every rule about manifests")]
    pub fn manifests(&self) -> Vec<Manifest> {
        let crates = self.texts.iter().filter(|t| t.ends("/Cargo.toml") && !t.path.starts_with("fuzz/"));
        crates.map(|t| Manifest::parse(t).unwrap_or_else(|e| panic!("{}: {e}", t.path))).collect()
    }
}

/// Asked of cargo when the test runs, not when it was built: two checkouts may share a target folder.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&here).join("../..")
}

fn collect(root: &Path, folder: &Path, texts: &mut Vec<Text>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_symlink() || OUTSIDE.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, texts)?;
        } else if let Ok(content) = fs::read_to_string(&path) {
            let relative = path.strip_prefix(root).unwrap_or(&path);
            texts.push(Text { path: relative.to_string_lossy().into_owned(), content });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_read_from_its_root() {
        let here = Repository::read();
        assert!(here.text("Cargo.toml").content.contains("[workspace]"));
        assert!(here.text("tests/repo/src/lib.rs").content.starts_with("//!"));
        assert!(here.texts().iter().all(|t| !t.path.starts_with("target/") && !t.path.starts_with(".git/")));
    }

    #[test]
    fn a_generated_file_is_known_by_its_folder() {
        assert!(Text::new("mep/core/src/gen/a.rs", "").is_generated());
        assert!(!Text::new("mep/core/src/general.rs", "").is_generated());
    }
}
