//! The shared database that `[database]` names, to which results are sent.

use crate::watch::watch_file::DatabaseSection;
use longhaul_clickhouse::{ClickHouseOptions, ClickHouseSink};
use longhaul_store::StoreError;
use std::path::Path;

/// Opens another connection. Relative paths refer to `folder`.
///
/// This call and all deliveries block; use a thread for blocking work.
pub fn open_database(
    section: &DatabaseSection,
    folder: &Path,
) -> Result<ClickHouseSink, StoreError> {
    let password = section.password_file.as_ref().map(|file| read_password(&folder.join(file)));
    ClickHouseSink::open(ClickHouseOptions {
        urls: section.urls.clone(),
        database: section.name.clone(),
        user: section.user.clone(),
        password: password.transpose()?,
        cluster: section.cluster.clone(),
        adapt_sql: None,
    })
}

fn read_password(path: &Path) -> Result<String, StoreError> {
    crate::secret_file::read_secret(path).map_err(|source| StoreError::Database {
        doing: "read the password",
        at: path.display().to_string(),
        source: Box::new(source),
        hint: Some(String::from("make it readable by the agent's user only")),
    })
}
