//! `gslb-dns pki`: the group's certificates in a folder.

use crate::cli::Pki;
use mep_io::GroupName;
use mep_io::pki::{self, Overwrite, PkiError, Validity};

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("--group: {0}")]
    Group(gslb_types::NameError),
    #[error("{0}; --renew replaces the node's certificate and key")]
    Exists(PkiError),
    #[error(transparent)]
    Pki(#[from] PkiError),
}

/// Does what was asked, and says which files came of it.
pub(crate) fn run(command: &Pki) -> Result<(), Error> {
    match command {
        Pki::Init { dir, group } => {
            let group: GroupName = group.parse().map_err(Error::Group)?;
            let files = pki::init(dir, &group)?;
            say!("CA of group {}:", group.as_str());
            say!("  {}  goes to every node", files.certificate.display());
            say!("  {}  stays here, secret", files.key.display());
        }
        Pki::Issue { dir, node, days, renew } => {
            let overwrite = if *renew { Overwrite::Yes } else { Overwrite::No };
            let files =
                pki::issue(dir, node, Validity::days(*days), overwrite).map_err(|error| match error {
                    PkiError::Exists(_) => Error::Exists(error),
                    error => Error::Pki(error),
                })?;
            say!("node {node}, valid for {days} days:");
            say!("  {}", files.certificate.display());
            say!("  {}  secret", files.key.display());
        }
    }
    Ok(())
}
