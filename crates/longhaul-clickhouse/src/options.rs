//! Which ClickHouse, and as whom.

use std::fmt;

/// How the database is reached.
#[derive(Clone)]
pub struct Options {
    /// `http://host:8123` or `https://host:8443`, one or several of the same database: where one
    /// does not answer, the next is asked.
    pub urls: Vec<String>,
    /// Made where there is none.
    pub database: String,
    pub user: String,
    pub password: Option<String>,
    /// A cluster of the servers' configuration: tables are made on all of it, replicated, and
    /// spread over its shards. None: one server.
    pub cluster: Option<String>,
    pub dialect: Dialect,
    /// LZ4 for what is sent.
    pub compressed: bool,
}

/// What the server understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// ClickHouse from [`crate::version::FLOOR`] on.
    Current,
    /// The server of 2018 that Debian packs: without codecs, indices of data, TTL and light
    /// removal. For tests of clusters alone, since its columns and its retention are not those of
    /// use.
    Of2018,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            urls: vec![String::from("http://127.0.0.1:8123")],
            database: String::from("longhaul"),
            user: String::from("default"),
            password: None,
            cluster: None,
            dialect: Dialect::Current,
            compressed: true,
        }
    }
}

impl fmt::Debug for Options {
    /// Without the password.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Options")
            .field("urls", &self.urls)
            .field("database", &self.database)
            .field("user", &self.user)
            .field("cluster", &self.cluster)
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}
