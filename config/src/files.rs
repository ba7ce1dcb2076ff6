//! Files, opened through the closure the caller gave: this crate itself touches none.

use crate::error::{Error, Log};
use crate::reader::Item;
use crate::text::{Source, Spot};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

/// How the caller reads a file.
pub(crate) type Read<'a> = &'a mut dyn FnMut(&Path) -> io::Result<Vec<u8>>;

/// Opens files and says where it was asked for those that can't be read.
pub(crate) struct Files<'a> {
    read: Read<'a>,
    log: &'a Log,
}

impl<'a> Files<'a> {
    pub(crate) fn new(read: Read<'a>, log: &'a Log) -> Self {
        Files { read, log }
    }

    /// The file everything starts from.
    pub(crate) fn open_main(&mut self, path: &Path) -> Option<Rc<Source>> {
        let bytes =
            (self.read)(path).map_err(|e| self.log.push(Error::of_file(path, unreadable(&e)))).ok()?;
        self.utf8(path, bytes)
    }

    /// A TOML file that an item of another names.
    pub(crate) fn open_included(&mut self, path: &Path, item: &Item<'_>) -> Option<Rc<Source>> {
        let bytes = (self.read)(path).map_err(|e| item.refuse(named(path, &e))).ok()?;
        self.utf8(path, bytes)
    }

    /// A file of zone data. Bytes that are no UTF-8 are fine in its comments; elsewhere they are refused in their line.
    pub(crate) fn open_zone(&mut self, path: &Path, spot: &Spot, key: &str) -> Option<Rc<Source>> {
        match (self.read)(path) {
            Ok(bytes) => Some(Source::new(path, String::from_utf8_lossy(&bytes).into_owned())),
            Err(e) => {
                self.log.push(Error::at(spot, key, named(path, &e)));
                None
            }
        }
    }

    /// A file of one secret, of which no error shows anything.
    pub(crate) fn open_secret(&mut self, path: &Path, item: &Item<'_>) -> Option<String> {
        let bytes = (self.read)(path).map_err(|e| item.refuse(named(path, &e))).ok()?;
        String::from_utf8(bytes).map_err(|_| item.refuse(format!("{} is no UTF-8 text", path.display()))).ok()
    }

    fn utf8(&self, path: &Path, bytes: Vec<u8>) -> Option<Rc<Source>> {
        match String::from_utf8(bytes) {
            Ok(text) => Some(Source::new(path, text)),
            Err(e) => {
                let at = e.utf8_error().valid_up_to();
                let source = Source::new(path, String::from_utf8_lossy(e.as_bytes()).into_owned());
                self.log.push(Error::at(&Spot::new(&source, at..at), "", "this is no UTF-8 text".to_owned()));
                None
            }
        }
    }
}

fn unreadable(e: &io::Error) -> String {
    format!("cannot be read: {e}")
}

fn named(path: &Path, e: &io::Error) -> String {
    format!("{} cannot be read: {e}", path.display())
}

/// The path relative to the file that names it.
pub(crate) fn beside(file: &Path, path: &str) -> PathBuf {
    folder(file).join(path)
}

/// The same, if it stays below the folder of the file (threat T10). Decided by the text of the path alone.
pub(crate) fn below(file: &Path, path: &str) -> Option<PathBuf> {
    let mut steps: Vec<&std::ffi::OsStr> = Vec::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(step) => steps.push(step),
            Component::CurDir => {}
            Component::ParentDir => {
                steps.pop()?;
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    if steps.is_empty() { None } else { Some(folder(file).join(steps.iter().collect::<PathBuf>())) }
}

fn folder(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_the_folder_or_is_refused() {
        let below = |p| below(Path::new("/etc/gslb/gslb.toml"), p).map(|p| p.display().to_string());
        assert_eq!(below("group.toml").as_deref(), Some("/etc/gslb/group.toml"));
        assert_eq!(below("./a/../b/group.toml").as_deref(), Some("/etc/gslb/b/group.toml"));
        for bad in ["/etc/passwd", "../x", "a/../../x", "", ".", "a/.."] {
            assert_eq!(below(bad), None, "{bad}");
        }
    }
}
