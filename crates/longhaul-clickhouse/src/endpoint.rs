//! One URL of the database.

use clickhouse::{Client, Compression};

/// Settings that every request sends.
const REQUEST_SETTINGS: &[(&str, &str)] = &[
    // The server answers only after the shards have written the data to disk.
    ("insert_distributed_sync", "1"),
    // Tables that are queried together are sharded by the same key.
    ("distributed_product_mode", "local"),
];

const CURRENT_REQUEST_SETTINGS: &[(&str, &str)] = &[
    // Imports of old measurements may touch the partitions of many months at once.
    ("max_partitions_per_insert_block", "0"),
    ("async_insert", "0"),
    // The partition key is part of the sorting key.
    ("do_not_merge_across_partitions_select_final", "1"),
    // A deletion waits for this replica only, not for one that is down.
    ("lightweight_deletes_sync", "1"),
    ("max_query_size", "16777216"),
];

pub struct DatabaseEndpoint {
    pub url: String,
    pub http: Client,
    /// A client without database and settings, which may not exist yet; for queries about the
    /// server.
    pub http_without_database: Client,
}

impl DatabaseEndpoint {
    pub fn new(url: &str, options: &ClickHouseOptions) -> DatabaseEndpoint {
        let url = url.trim_end_matches('/');
        let outside = build_client(url, options);
        DatabaseEndpoint {
            url: url.to_owned(),
            http: add_database_settings(&outside, options),
            http_without_database: outside,
        }
    }
}

fn build_client(url: &str, options: &ClickHouseOptions) -> Client {
    let mut http = Client::default()
        .with_url(url)
        .with_user(&options.user)
        .with_compression(Compression::Lz4)
        .with_validation(options.adapt_sql.is_none());
    if let Some(password) = &options.password {
        http = http.with_password(password);
    }
    http
}

fn add_database_settings(outside: &Client, options: &ClickHouseOptions) -> Client {
    let mut http = outside.clone().with_database(&options.database);
    let current = options.adapt_sql.map_or(CURRENT_REQUEST_SETTINGS, |_| &[]);
    for (name, value) in REQUEST_SETTINGS.iter().chain(current) {
        http = http.with_setting(*name, *value);
    }
    http
}

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
    /// Rewrites the statements that create tables and delete rows, for tests of a cluster with servers
    /// that are too old for anything else.
    pub adapt_sql: Option<fn(&str) -> String>,
}

impl ClickHouseOptions {
    /// Returns a statement in the dialect of the servers.
    pub(crate) fn adapt_statement(&self, statement: &str) -> String {
        self.adapt_sql.map_or_else(|| statement.to_owned(), |adapt| adapt(statement))
    }
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
