//! Whether files have changed, without reading them.

use crate::pem::Files;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What the file system says of the three files. A link is followed, so one that is pointed elsewhere is a change too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Prints([Option<Print>; 3]);

/// Another content, another mode and another file all show: the time of change can't be set by a program.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Print {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Prints {
    /// To be taken before the files are read: what changes meanwhile is then seen the next time.
    pub(super) fn take(files: &Files) -> Self {
        Prints([&files.ca, &files.certificate, &files.key].map(|path| print(path)))
    }
}

fn print(path: &Path) -> Option<Print> {
    let file = fs::metadata(path).ok()?;
    Some(Print {
        file: (file.dev(), file.ino()),
        size: file.size(),
        modified: (file.mtime(), file.mtime_nsec()),
        changed: (file.ctime(), file.ctime_nsec()),
    })
}
