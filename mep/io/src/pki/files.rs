//! A group's certificates in a folder: `ca.crt`, `ca.key`, and `SITE-NODE.crt`, `SITE-NODE.key` for each node.
//!
//! Keys are never readable by others, not even while they are being written, and a file appears whole or not at all.

use super::{Authority, PkiError, Validity};
use crate::name::{GroupName, Subject};
use crate::pem::{Files, Source};
use gslb_types::NodeId;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where the files of a CA stand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaFiles {
    /// Its certificate: copied to every node.
    pub certificate: PathBuf,
    /// Its key: stays where nodes are made.
    pub key: PathBuf,
}

impl CaFiles {
    fn within(dir: &Path) -> Self {
        CaFiles { certificate: dir.join("ca.crt"), key: dir.join("ca.key") }
    }
}

/// Whether files of a node that are there already may be replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overwrite {
    /// Leave them, with an error.
    No,
    /// Replace them: the certificate is renewed with a new key.
    Yes,
}

/// Makes the CA of a group in a folder, which is created if it is not there. Never replaces a CA: all certificates it signed
/// would be worthless.
pub fn init(dir: &Path, group: &GroupName) -> Result<CaFiles, PkiError> {
    fs::create_dir_all(dir).map_err(|e| PkiError::Write(dir.to_owned(), e))?;
    let files = CaFiles::within(dir);
    refuse_existing([&files.key, &files.certificate])?;
    let authority = Authority::new(group)?;
    write(&files.key, &authority.key_pem(), SECRET, Overwrite::No)?;
    write(&files.certificate, authority.certificate(), PUBLIC, Overwrite::No)?;
    Ok(files)
}

/// Makes key and certificate of a node, signed by the CA in the same folder, which also says the group.
pub fn issue(dir: &Path, node: &NodeId, validity: Validity, overwrite: Overwrite) -> Result<Files, PkiError> {
    let ca = CaFiles::within(dir);
    let authority = Authority::read(&Source::file(&ca.certificate)?, &Source::secret_file(&ca.key)?)?;
    let stem = format!("{}-{}", node.site, node.node);
    let files = Files {
        ca: ca.certificate,
        certificate: dir.join(format!("{stem}.crt")),
        key: dir.join(format!("{stem}.key")),
    };
    match overwrite {
        Overwrite::No => refuse_existing([&files.key, &files.certificate])?,
        Overwrite::Yes => refuse_other_node(&files.certificate, node, authority.group())?,
    }
    let pem = authority.issue_for(node, validity)?;
    write(&files.key, &pem.key, SECRET, overwrite)?;
    write(&files.certificate, &pem.certificate, PUBLIC, overwrite)?;
    Ok(files)
}

const SECRET: u32 = 0o600;
const PUBLIC: u32 = 0o644;

fn refuse_existing(paths: [&PathBuf; 2]) -> Result<(), PkiError> {
    match paths.into_iter().find(|path| fs::symlink_metadata(path).is_ok()) {
        Some(path) => Err(PkiError::Exists(path.clone())),
        None => Ok(()),
    }
}

/// `a-b/c` and `a/b-c` have the same file names. Replacing one by the other would take a node its certificate.
fn refuse_other_node(certificate: &Path, node: &NodeId, group: &GroupName) -> Result<(), PkiError> {
    if fs::symlink_metadata(certificate).is_err() {
        return Ok(());
    }
    let found = Source::file(certificate)?.certificates()?;
    match found.first().and_then(|leaf| Subject::read(leaf, group).ok()) {
        Some(subject) if subject.node == *node => Ok(()),
        _ => Err(PkiError::Occupied(certificate.to_owned(), node.clone())),
    }
}

/// Writes beside the target and then moves in one step. A link, unlike a rename, refuses to replace.
fn write(path: &Path, text: &str, mode: u32, overwrite: Overwrite) -> Result<(), PkiError> {
    let beside = beside(path);
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => PkiError::Exists(path.to_owned()),
        _ => PkiError::Write(path.to_owned(), error),
    };
    fill(&beside, text, mode).map_err(|e| PkiError::Write(beside.clone(), e))?;
    let moved = match overwrite {
        Overwrite::Yes => fs::rename(&beside, path),
        Overwrite::No => fs::hard_link(&beside, path).and_then(|()| fs::remove_file(&beside)),
    };
    moved.map_err(|error| {
        let _ = fs::remove_file(&beside); // the first error is the one to report
        failed(error)
    })
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
}

/// Born with its final mode: there is no moment at which others could open it.
fn fill(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(path); // as above
    }
    written
}
