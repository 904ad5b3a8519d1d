//! Requests to the database, each with a timeout, tried at one URL after the other.
//!
//! The async runtime is private and used by one thread at a time, so callers need not be async
//! (docs/decisions/0019). Every write is idempotent: a write without an answer is repeated, at
//! another server if necessary.
//!
//! # Request error
//!
//! Errors of requests to the database, with hints for the user.

use crate::endpoint::{ClickHouseOptions, DatabaseEndpoint};
use clickhouse::error::Error;
use clickhouse::{Client, RowWrite};
use longhaul_store::StoreError;
use std::cell::Cell;
use std::future::Future;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The timeout of one request.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The timeout of one retention step, which rewrites data.
pub const RETENTION_STEP_TIMEOUT: Duration = Duration::from_secs(600);

pub struct DatabaseClient {
    /// Taken out when the client is dropped.
    runtime: Option<Runtime>,
    endpoints: Vec<DatabaseEndpoint>,
    /// Index of the server that answered last.
    current_endpoint: Cell<usize>,
    pub options: ClickHouseOptions,
}

impl DatabaseClient {
    pub fn new(options: ClickHouseOptions) -> Result<DatabaseClient, StoreError> {
        if let Some(index) = options.urls.iter().position(|url| url.contains('@')) {
            // The URL may hold a password, so it is not repeated.
            let what = format!("URL {} of the database", index + 1);
            let why = "set the user and the password with their own settings";
            return Err(StoreError::Refused { what, why });
        }
        let doors = options.urls.iter().map(|url| DatabaseEndpoint::new(url, &options));
        let doors: Vec<DatabaseEndpoint> = doors.collect();
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            let place = describe_location(&options, &doors[0]);
            RequestError::Other(error.to_string()).into_store_error("prepare requests", place)
        })?;
        Ok(DatabaseClient {
            runtime: Some(runtime),
            endpoints: doors,
            current_endpoint: Cell::new(0),
            options,
        })
    }

    /// Runs a request against the database.
    pub fn request<T, F>(
        &self,
        doing: &'static str,
        work: impl Fn(Client) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.request_within(ANSWER_TIMEOUT, doing, |endpoint| work(endpoint.http.clone()))
    }

    /// Inserts rows into a table.
    pub fn insert<T: RowWrite>(
        &self,
        doing: &'static str,
        table: &str,
        rows: &[T::Value<'_>],
    ) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.request(doing, |at| async move {
            let mut insert = at.insert::<T>(table).await?;
            for row in rows {
                insert.write(row).await?;
            }
            insert.end().await
        })
    }

    /// Makes one more attempt than there are URLs, because a kept-alive connection may have been
    /// closed.
    pub fn request_within<T, F>(
        &self,
        deadline: Duration,
        doing: &'static str,
        work: impl Fn(&DatabaseEndpoint) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let first = self.current_endpoint.get();
        let mut attempt = 0;
        loop {
            let number = (first + attempt) % self.endpoints.len();
            let endpoint = &self.endpoints[number];
            let trouble = match self.attempt(deadline, work(endpoint)) {
                Ok(done) => {
                    self.current_endpoint.set(number);
                    return Ok(done);
                }
                Err(trouble) => trouble,
            };
            attempt += 1;
            // After a timeout the same server is not tried a second time.
            let most = match trouble {
                RequestError::TimedOut(_) => self.endpoints.len(),
                _ => self.endpoints.len() + 1,
            };
            if attempt >= most || !trouble.is_transient() {
                return Err(
                    trouble.into_store_error(doing, describe_location(&self.options, endpoint))
                );
            }
        }
    }

    fn attempt<T>(
        &self,
        deadline: Duration,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, RequestError> {
        let runtime = self.runtime.as_ref();
        let runtime =
            runtime.ok_or_else(|| RequestError::Other(String::from("the client is closed")))?;
        let answer = runtime.block_on(async { tokio::time::timeout(deadline, work).await });
        match answer {
            Ok(done) => done.map_err(|error| RequestError::from_driver(&error, &self.options)),
            Err(_) => Err(RequestError::TimedOut(deadline.as_secs())),
        }
    }

    /// Describes the current server, for messages.
    pub fn location(&self) -> String {
        describe_location(&self.options, &self.endpoints[self.current_endpoint.get()])
    }
}

fn describe_location(options: &ClickHouseOptions, endpoint: &DatabaseEndpoint) -> String {
    format!("the database {} at {}", options.database, endpoint.url)
}

impl Drop for DatabaseClient {
    /// Drops the runtime without waiting for resolver threads, which may hang for seconds.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The maximum number of characters quoted from a server message.
const MAX_MESSAGE_CHARS: usize = 400;

/// The reason why one attempt failed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("{0}")]
    Unreachable(String),
    #[error("no answer within {0} s")]
    TimedOut(u64),
    #[error("{0}")]
    ServerError(String),
    #[error("{0}")]
    Other(String),
}

/// Error codes for which a retry may succeed.
const TRANSIENT_CODES: &[u32] = &[
    159, // TIMEOUT_EXCEEDED
    202, // TOO_MANY_SIMULTANEOUS_QUERIES
    209, // SOCKET_TIMEOUT
    210, // NETWORK_ERROR
    225, // NO_ZOOKEEPER
    242, // TABLE_IS_READ_ONLY, as a replica is whose keeper is away
    252, // TOO_MANY_PARTS
    279, // ALL_CONNECTION_TRIES_FAILED
    319, // UNKNOWN_STATUS_OF_INSERT
    999, // KEEPER_EXCEPTION
];
const LOGIN_FAILED_CODES: &[u32] = &[192, 193, 194, 516];
const ACCESS_DENIED_CODES: &[u32] = &[164, 291, 452, 497];
const OUT_OF_SPACE_CODES: &[u32] = &[241, 243];
const UNKNOWN_CLUSTER_CODES: &[u32] = &[170, 701];

impl RequestError {
    pub fn from_driver(error: &Error, options: &ClickHouseOptions) -> RequestError {
        match error {
            Error::Network(source) => RequestError::Unreachable(join_error_chain(source.as_ref())),
            Error::TimedOut => RequestError::TimedOut(0),
            Error::BadResponse(words) => RequestError::ServerError(redact_message(words, options)),
            other => RequestError::Other(join_error_chain(other)),
        }
    }

    /// Returns true if another server, or a later attempt, may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            RequestError::Unreachable(_) | RequestError::TimedOut(_) => true,
            RequestError::ServerError(words) => {
                parse_error_code(words).is_some_and(|code| TRANSIENT_CODES.contains(&code))
            }
            RequestError::Other(_) => false,
        }
    }

    fn hint(&self) -> Option<String> {
        let words = match self {
            RequestError::Unreachable(_) | RequestError::TimedOut(_) => {
                "check that the server runs and answers: `curl URL/ping`; the results wait \
                 in the agent's own archive"
            }
            RequestError::Other(_) => return None,
            RequestError::ServerError(words) => match parse_error_code(words)? {
                code if LOGIN_FAILED_CODES.contains(&code) => "check `user` and `password_file`",
                code if ACCESS_DENIED_CODES.contains(&code) => {
                    "grant the user its rights on the database: docs/clickhouse.md, Rights"
                }
                code if OUT_OF_SPACE_CODES.contains(&code) => {
                    "free disk space or memory on the server"
                }
                code if UNKNOWN_CLUSTER_CODES.contains(&code) => {
                    "set `cluster` to a name in the servers' remote_servers: \
                     `SELECT cluster FROM system.clusters` lists them"
                }
                code if TRANSIENT_CODES.contains(&code) => {
                    "check the load of the server and its connection to the keeper; longhaul retries later"
                }
                _ => return None,
            },
        };
        Some(words.to_owned())
    }

    /// Converts the error for the caller; `at` names the server.
    pub fn into_store_error(self, doing: &'static str, at: String) -> StoreError {
        StoreError::Database { doing, at, hint: self.hint(), source: Box::new(self) }
    }
}

/// Parses the number in `Code: 516. DB::Exception: ...`.
fn parse_error_code(words: &str) -> Option<u32> {
    let rest = words.split("Code: ").nth(1)?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Returns the start of a server message on one line, without the password.
fn redact_message(words: &str, options: &ClickHouseOptions) -> String {
    let mut words = words.replace(['\n', '\r'], " ");
    if let Some(password) = options.password.as_deref().filter(|it| !it.is_empty()) {
        words = words.replace(password, "***");
    }
    match words.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{} ...", &words[..end]),
        None => words,
    }
}

fn join_error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = sources.map(ToString::to_string).collect();
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_database_that_never_answers_costs_its_deadline_once() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", silent.local_addr().expect("an address"));
        let options = ClickHouseOptions {
            urls: vec![url.clone()],
            password: Some(String::from("hunter2")),
            ..ClickHouseOptions::default()
        };
        let client = DatabaseClient::new(options).expect("a way");
        let deadline = Duration::from_millis(1100);
        let began = std::time::Instant::now();
        let asked: Result<u8, StoreError> = client.request_within(deadline, "ask", |endpoint| {
            let http = endpoint.http.clone();
            async move { http.query("SELECT 1").fetch_one().await }
        });
        assert!(began.elapsed() >= deadline);
        let error = asked.expect_err("nobody answers");
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(error.to_string(), format!("cannot ask in the database longhaul at {url}"));
        assert_eq!(cause.as_deref(), Some("no answer within 1 s"));
        assert!(error.hint().is_some_and(|hint| hint.contains("/ping")));
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}

#[cfg(test)]
mod request_error_tests {
    use super::*;

    fn said(words: &str) -> RequestError {
        let options = ClickHouseOptions {
            password: Some(String::from("hunter2")),
            ..ClickHouseOptions::default()
        };
        RequestError::from_driver(&Error::BadResponse(words.to_owned()), &options)
    }

    #[test]
    fn what_the_database_says_is_sorted_by_its_code() {
        let denied = said("Code: 516. DB::Exception: default: Authentication failed");
        assert!(!denied.is_transient());
        assert_eq!(denied.hint().unwrap(), "check `user` and `password_file`");
        assert!(said("Code: 242. DB::Exception: Table is in readonly mode").is_transient());
        assert!(said("Code: 999, e.displayText() = Session expired").is_transient());
        assert!(!said("no code").is_transient());
    }

    #[test]
    fn the_password_and_the_length_of_what_is_said_are_kept_back() {
        let text = said(&format!("hunter2 is wrong\n{}", "x".repeat(10_000))).to_string();
        assert!(!text.contains("hunter2") && !text.contains('\n'), "{text}");
        assert!(text.len() < 500);
    }
}
