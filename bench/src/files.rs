//! Where servers have their files, and where their programs are.

use crate::Failure;
use std::path::{Path, PathBuf};

/// Makes a folder in another.
pub fn part(folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let part = folder.join(name);
    std::fs::create_dir(&part).map_err(Failure::system(part.display().to_string()))?;
    Ok(part)
}

/// The path of a program from anywhere: servers run in folders of their own.
pub fn absolute(program: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(program).map_err(Failure::system(program.display().to_string()))
}
