//! The shared database that `[database]` names, to which results are sent.

use crate::watch::watch_file::DatabaseSection;
use longhaul_store::StoreError;
use std::path::Path;

#[cfg(feature = "clickhouse")]
pub use longhaul_clickhouse::ClickHouseSink;
#[cfg(not(feature = "clickhouse"))]
pub use without_driver::UnavailableSink as ClickHouseSink;

/// Opens another connection. Relative paths refer to `folder`.
///
/// This call and all deliveries block; use a thread for blocking work.
#[cfg(feature = "clickhouse")]
pub fn open_database(
    section: &DatabaseSection,
    folder: &Path,
) -> Result<ClickHouseSink, StoreError> {
    let password = section.password_file.as_ref().map(|file| read_password(&folder.join(file)));
    ClickHouseSink::open(longhaul_clickhouse::ClickHouseOptions {
        urls: section.urls.clone(),
        database: section.name.clone(),
        user: section.user.clone(),
        password: password.transpose()?,
        cluster: section.cluster.clone(),
        dialect: longhaul_clickhouse::SqlDialect::Current,
    })
}

#[cfg(feature = "clickhouse")]
fn read_password(path: &Path) -> Result<String, StoreError> {
    crate::secret_file::read_secret(path).map_err(|source| StoreError::Database {
        doing: "read the password",
        at: path.display().to_string(),
        source: Box::new(source),
        hint: Some(String::from("make it readable by the agent's user only")),
    })
}

/// Fails because this program was built without the driver. Parsing the watch file reports it
/// first.
#[cfg(not(feature = "clickhouse"))]
pub fn open_database(section: &DatabaseSection, _: &Path) -> Result<ClickHouseSink, StoreError> {
    Err(StoreError::Database {
        doing: "open the database",
        at: section.urls.join(", "),
        source: "this program was built without ClickHouse".into(),
        hint: Some(crate::watch::watch_file::BUILD_WITH_CLICKHOUSE.to_owned()),
    })
}

#[cfg(not(feature = "clickhouse"))]
mod without_driver {
    use longhaul_store::StoreError;
    use longhaul_store::history_store::{AgentDelivery, IngestResult};

    /// The database of a build without the driver, which is never opened.
    pub enum UnavailableSink {}

    impl UnavailableSink {
        pub fn receive(&mut self, _: &AgentDelivery) -> Result<IngestResult, StoreError> {
            match *self {}
        }

        pub fn delete_before(&self, _: i64) -> Result<(), StoreError> {
            match *self {}
        }
    }
}
