//! Connection settings for ClickHouse.

/// Settings of a connection to ClickHouse.
#[derive(Clone)]
pub struct ClickHouseOptions {
    /// One or more URLs of the same database, `http://host:8123` or `https://host:8443`; if one
    /// does not answer, the next one is tried.
    pub urls: Vec<String>,
    /// Created if it does not exist.
    pub database: String,
    pub user: String,
    pub password: Option<String>,
    /// A cluster from the servers' configuration: tables are created on all of its servers,
    /// replicated, and distributed over its shards. None: a single server.
    pub cluster: Option<String>,
    /// Rewrites the statements that create tables, for tests of a cluster with servers that are too
    /// old for anything else.
    pub adapt_sql: Option<fn(&str) -> String>,
}

impl Default for ClickHouseOptions {
    fn default() -> Self {
        ClickHouseOptions {
            urls: vec![String::from("http://127.0.0.1:8123")],
            database: String::from("longhaul"),
            user: String::from("default"),
            password: None,
            cluster: None,
            adapt_sql: None,
        }
    }
}
