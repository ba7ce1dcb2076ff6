//! A whole group of nodes: one configuration, one CA, a node in each site.

use super::binary::gslb_dns;
use super::node::Node;
use crate::namespace::run;
use crate::{Lab, LabError};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The configuration's name in the folder of a group.
const CONFIG: &str = "gslb.toml";

/// The nodes of a group, each on the laboratory's node that bears its site's name.
pub struct Group<'lab> {
    nodes: Vec<Node<'lab>>,
    // After the nodes: they log into it.
    folder: TempDir,
}

impl<'lab> Group<'lab> {
    /// Makes the certificates of the group `name` with `gslb-dns pki` in the folder `pki` beside the configuration, starts
    /// the nodes `ids` (SITE/NODE), all with the same configuration text, and waits until all are ready.
    pub fn start(lab: &'lab Lab, name: &str, config: &str, ids: &[&str]) -> Result<Group<'lab>, LabError> {
        let places: Vec<_> = ids.iter().map(|id| (*id, id.split('/').next().unwrap_or(id))).collect();
        let mut group = Self::prepare(name, config, ids)?;
        group.start_nodes(lab, &places, &[])?;
        Ok(group)
    }

    /// Writes the configuration and makes the certificates, and starts nothing: what a test wants to change first.
    pub fn prepare(name: &str, config: &str, ids: &[&str]) -> Result<Group<'lab>, LabError> {
        let folder = tempfile::tempdir().map_err(LabError::system("temporary folder"))?;
        write_config(folder.path(), config)?;
        make_certificates(folder.path(), name, ids)?;
        Ok(Group { nodes: Vec::new(), folder })
    }

    /// Starts nodes, each as (SITE/NODE, the laboratory's node it runs on), with these variables in their environment, and
    /// waits until they are ready.
    pub fn start_nodes(
        &mut self,
        lab: &'lab Lab,
        places: &[(&str, &str)],
        environment: &[(&str, &str)],
    ) -> Result<(), LabError> {
        let (file, begun) = (self.folder().join(CONFIG), self.nodes.len());
        for (id, place) in places {
            self.nodes.push(Node::start_with(lab, place, id, &file, environment)?);
        }
        self.nodes.iter_mut().skip(begun).for_each(Node::wait_until_ready);
        Ok(())
    }

    /// Where the configuration stands, and the folder `pki` with the certificates.
    pub fn folder(&self) -> &Path {
        self.folder.path()
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

    /// The same, to be killed and restarted.
    ///
    /// # Panics
    /// If there is none.
    pub fn node_mut(&mut self, id: &str) -> &mut Node<'lab> {
        let found = self.nodes.iter_mut().find(|node| node.id() == id);
        match found {
            Some(node) => node,
            None => panic!("no node {id} in this group"),
        }
    }
}

fn write_config(folder: &Path, config: &str) -> Result<PathBuf, LabError> {
    let file = folder.join(CONFIG);
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
