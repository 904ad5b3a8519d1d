//! One URL of the database.

use crate::options::{Dialect, Options};
use clickhouse::{Client, Compression};
use std::cell::Cell;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// A server that does not take a connection within this is passed by.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// A server that answered so lately is not tried for a connection first.
const FRESH: Duration = Duration::from_secs(2);

/// What every request says of how it is to be done.
const SETTINGS: &[(&str, &str)] = &[
    // An answer means that it is on the disks of the shards.
    ("insert_distributed_sync", "1"),
    // Tables that are asked together are spread alike.
    ("distributed_product_mode", "local"),
];

const SETTINGS_OF_CURRENT: &[(&str, &str)] = &[
    // Old measurements may come for many months at once.
    ("max_partitions_per_insert_block", "0"),
    ("async_insert", "0"),
    // The key of a partition is part of the sorting key.
    ("do_not_merge_across_partitions_select_final", "1"),
    // Removal waits for this replica and not for one that is down.
    ("lightweight_deletes_sync", "1"),
    ("max_query_size", "16777216"),
];

pub struct Door {
    pub url: String,
    /// `host:port`, for a first try.
    address: String,
    pub http: Client,
    /// The same without database and settings, which may not exist: to ask who is there.
    pub outside: Client,
    answered: Cell<Option<Instant>>,
}

impl Door {
    /// Says why, where the URL is none.
    pub fn new(url: &str, options: &Options) -> Result<Door, &'static str> {
        let address = address(url)?;
        let url = url.trim_end_matches('/');
        let outside = outside(url, options);
        Ok(Door {
            url: url.to_owned(),
            address,
            http: inside(&outside, options),
            outside,
            answered: Cell::new(None),
        })
    }

    /// Whether a connection can be had; asked of those who have been silent.
    pub fn knock(&self) -> std::io::Result<()> {
        if self.answered.get().is_some_and(|at| at.elapsed() < FRESH) {
            return Ok(());
        }
        let mut last = std::io::Error::other("the name has no address");
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
                Ok(_) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub fn answered(&self, well: bool) {
        self.answered.set(well.then(Instant::now));
    }
}

fn outside(url: &str, options: &Options) -> Client {
    let compression = if options.compressed {
        Compression::Lz4
    } else {
        Compression::None
    };
    let mut http = Client::default()
        .with_url(url)
        .with_user(&options.user)
        .with_compression(compression)
        .with_validation(options.dialect == Dialect::Current);
    if let Some(password) = &options.password {
        http = http.with_password(password);
    }
    http
}

fn inside(outside: &Client, options: &Options) -> Client {
    let mut http = outside.clone().with_database(&options.database);
    let current = match options.dialect {
        Dialect::Current => SETTINGS_OF_CURRENT,
        Dialect::Of2018 => &[],
    };
    for (name, value) in SETTINGS.iter().chain(current) {
        http = http.with_setting(*name, *value);
    }
    http
}

/// `host:port` of a URL.
fn address(url: &str) -> Result<String, &'static str> {
    let (rest, port) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (rest, 8123),
        (_, Some(rest)) => (rest, 8443),
        _ => return Err("it does not begin with http:// or https://"),
    };
    let rest = rest.trim_end_matches('/');
    if rest.contains('@') {
        return Err("user and password have settings of their own");
    }
    if rest.is_empty() || rest.contains(['/', '?', '#', ' ']) {
        return Err("it is not scheme, host and port alone");
    }
    let after_brackets = rest.rsplit(']').next().unwrap_or(rest);
    if after_brackets.contains(':') {
        return Ok(rest.to_owned());
    }
    Ok(format!("{rest}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn a_url_is_scheme_host_and_port() {
        for (url, expected) in [
            ("http://db", "db:8123"),
            ("https://db/", "db:8443"),
            ("http://db:80", "db:80"),
            ("http://[::1]", "[::1]:8123"),
            ("http://[::1]:9/", "[::1]:9"),
        ] {
            assert_eq!(address(url).as_deref(), Ok(expected), "{url}");
        }
        for url in [
            "db:8123",
            "ftp://db",
            "http://",
            "http://u:p@db",
            "http://db/x",
        ] {
            assert!(address(url).is_err(), "{url}");
        }
    }
}
