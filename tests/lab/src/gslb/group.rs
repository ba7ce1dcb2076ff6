//! A whole group of nodes: one configuration, one CA, a node in each site.

use super::binary::gslb_dns;
use super::node::Node;
use crate::namespace::run;
use crate::{Lab, LabError};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The nodes of a group, each on the laboratory's node that bears its site's name.
pub struct Group<'lab> {
    nodes: Vec<Node<'lab>>,
    // After the nodes: they log into it.
    _folder: TempDir,
}

impl<'lab> Group<'lab> {
    /// Makes the certificates of the group `name` with `gslb-dns pki` in the folder `pki` beside the configuration, starts
    /// the nodes `ids` (SITE/NODE), all with the same configuration text, and waits until all are ready.
    pub fn start(lab: &'lab Lab, name: &str, config: &str, ids: &[&str]) -> Result<Group<'lab>, LabError> {
        let folder = tempfile::tempdir().map_err(LabError::system("temporary folder"))?;
        let file = write_config(folder.path(), config)?;
        make_certificates(folder.path(), name, ids)?;
        let mut group = Group { nodes: Vec::new(), _folder: folder };
        for id in ids {
            let site = id.split('/').next().unwrap_or(id);
            group.nodes.push(Node::start(lab, site, id, &file)?);
        }
        group.nodes.iter_mut().for_each(Node::wait_until_ready);
        Ok(group)
    }

    /// The nodes, in the order of their ids.
    pub fn nodes(&self) -> &[Node<'lab>] {
        &self.nodes
    }

    /// The nodes, to be killed and restarted.
    pub fn nodes_mut(&mut self) -> &mut [Node<'lab>] {
        &mut self.nodes
    }

    /// The node of this id.
    ///
    /// # Panics
    /// If there is none.
    pub fn node(&self, id: &str) -> &Node<'lab> {
        let found = self.nodes.iter().find(|node| node.id() == id);
        match found {
            Some(node) => node,
            None => panic!("no node {id} in this group"),
        }
    }
}

fn write_config(folder: &Path, config: &str) -> Result<PathBuf, LabError> {
    let file = folder.join("gslb.toml");
    fs::write(&file, config).map_err(LabError::system(file.display().to_string()))?;
    Ok(file)
}

fn make_certificates(folder: &Path, group: &str, ids: &[&str]) -> Result<(), LabError> {
    let pki = |arguments: &[&str]| {
        run(Command::new(gslb_dns()?).current_dir(folder).arg("pki").args(arguments), "")
    };
    pki(&["init", "pki", "--group", group])?;
    ids.iter().try_for_each(|id| pki(&["issue", "pki", id]))
}
