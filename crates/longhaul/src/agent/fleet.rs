//! The database that agents share, as the watch file names it.

use crate::watch::file::Database;
use longhaul_clickhouse::{Dialect, Options};
use longhaul_store::{StoreError, Watched};
use std::fs;
use std::path::Path;

/// Opens one more connection. Names of files count from `folder`.
///
/// Blocks, as its answers do: from a thread for blocking work.
pub fn open(section: &Database, folder: &Path) -> Result<Box<dyn Watched>, StoreError> {
    longhaul_clickhouse::open(Options {
        urls: section.urls.clone(),
        database: section.name.clone(),
        user: section.user.clone(),
        password: password(section, folder)?,
        cluster: section.cluster.clone(),
        dialect: Dialect::Current,
        compressed: true,
    })
}

/// The first line of its file.
fn password(section: &Database, folder: &Path) -> Result<Option<String>, StoreError> {
    let Some(file) = &section.password_file else {
        return Ok(None);
    };
    let path = folder.join(file);
    let text = fs::read_to_string(&path).map_err(|source| StoreError::Database {
        doing: "read the password",
        at: path.display().to_string(),
        source: Box::new(source),
        hint: Some(String::from("make it readable for the agent's user alone")),
    })?;
    Ok(text.lines().next().map(|line| line.trim().to_owned()))
}
