//! Paths on this host: unrestricted, because the local user names them.

use super::CopyError;
use crate::copy_source::CopySource;
use longhaul_sys::confined_dir::ConfinedDir;
use std::io;
use std::path::{Path, PathBuf};

pub(super) fn open_local_source(path: &Path, direct: bool) -> Result<CopySource, CopyError> {
    let failed =
        |error: io::Error| CopyError::Local(format!("cannot read {}: {error}", path.display()));
    // A symbolic link named by the user stands for its target.
    let path = path.canonicalize().map_err(failed)?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (folder, inner) = split_path(&path).map_err(CopyError::Local)?;
    CopySource::list(folder, &inner, name.to_owned(), direct).map_err(CopyError::Local)
}

/// Opens the folder of a local path; returns it with the rest of the path.
pub(super) fn open_local_folder(path: &Path) -> Result<(ConfinedDir, PathBuf), String> {
    let path = std::path::absolute(path)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    if path.is_dir() {
        let folder = ConfinedDir::open(&path);
        let folder = folder.map_err(|error| format!("cannot open {}: {error}", path.display()))?;
        return Ok((folder, PathBuf::new()));
    }
    split_path(&path)
}

fn split_path(path: &Path) -> Result<(ConfinedDir, PathBuf), String> {
    let (parent, name) = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => (parent, PathBuf::from(name)),
        _ => (path, PathBuf::new()),
    };
    let folder = ConfinedDir::open(parent)
        .map_err(|error| format!("cannot open the folder {}: {error}", parent.display()))?;
    Ok((folder, name))
}
