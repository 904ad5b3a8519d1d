//! One URL of the database.

use crate::connection_options::{ClickHouseOptions, SqlDialect};
use clickhouse::{Client, Compression};
use std::cell::Cell;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The time limit for a TCP connection; a server that exceeds it is skipped.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A server that answered within this time is not probed with a TCP connection first.
const RECENT_ANSWER: Duration = Duration::from_secs(2);

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
    /// `host:port`, for the connection check.
    host_port: String,
    pub http: Client,
    /// A client without database and settings, which may not exist yet; for queries about the
    /// server.
    pub http_without_database: Client,
    last_answer: Cell<Option<Instant>>,
}

impl DatabaseEndpoint {
    /// Returns an error that says what is wrong with the URL.
    pub fn new(url: &str, options: &ClickHouseOptions) -> Result<DatabaseEndpoint, &'static str> {
        let address = parse_host_port(url)?;
        let url = url.trim_end_matches('/');
        let outside = build_client(url, options);
        Ok(DatabaseEndpoint {
            url: url.to_owned(),
            host_port: address,
            http: add_database_settings(&outside, options),
            http_without_database: outside,
            last_answer: Cell::new(None),
        })
    }

    /// Checks that the server accepts connections, unless it has answered recently.
    pub fn check_reachable(&self) -> std::io::Result<()> {
        if self.last_answer.get().is_some_and(|at| at.elapsed() < RECENT_ANSWER) {
            return Ok(());
        }
        let mut last = std::io::Error::other("the name has no address");
        for address in self.host_port.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(_) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub fn record_answer(&self, well: bool) {
        self.last_answer.set(well.then(Instant::now));
    }
}

fn build_client(url: &str, options: &ClickHouseOptions) -> Client {
    let mut http = Client::default()
        .with_url(url)
        .with_user(&options.user)
        .with_compression(Compression::Lz4)
        .with_validation(options.dialect == SqlDialect::Current);
    if let Some(password) = &options.password {
        http = http.with_password(password);
    }
    http
}

fn add_database_settings(outside: &Client, options: &ClickHouseOptions) -> Client {
    let mut http = outside.clone().with_database(&options.database);
    let current = match options.dialect {
        SqlDialect::Current => CURRENT_REQUEST_SETTINGS,
        SqlDialect::Legacy2018 => &[],
    };
    for (name, value) in REQUEST_SETTINGS.iter().chain(current) {
        http = http.with_setting(*name, *value);
    }
    http
}

/// Parses a URL into `host:port`.
fn parse_host_port(url: &str) -> Result<String, &'static str> {
    let (rest, port) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (rest, 8123),
        (_, Some(rest)) => (rest, 8443),
        _ => return Err("it must begin with http:// or https://"),
    };
    let rest = rest.trim_end_matches('/');
    if rest.contains('@') {
        return Err("set the user and the password with their own settings");
    }
    if rest.is_empty() || rest.contains(['/', '?', '#', ' ']) {
        return Err("it must contain only scheme, host and port");
    }
    let after_brackets = rest.rsplit(']').next().unwrap_or(rest);
    if after_brackets.contains(':') {
        return Ok(rest.to_owned());
    }
    Ok(format!("{rest}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::parse_host_port;

    #[test]
    fn a_url_is_scheme_host_and_port() {
        for (url, expected) in [
            ("http://db", "db:8123"),
            ("https://db/", "db:8443"),
            ("http://db:80", "db:80"),
            ("http://[::1]", "[::1]:8123"),
            ("http://[::1]:9/", "[::1]:9"),
        ] {
            assert_eq!(parse_host_port(url).as_deref(), Ok(expected), "{url}");
        }
        for url in ["db:8123", "ftp://db", "http://", "http://u:p@db", "http://db/x"] {
            assert!(parse_host_port(url).is_err(), "{url}");
        }
    }
}
