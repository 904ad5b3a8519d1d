//! Requests to the database, each with a timeout, tried at one URL after the other.
//!
//! The async runtime is private and used by one thread at a time, so callers need not be async
//! (docs/decisions/0019). Every write is idempotent: a write without an answer is repeated, at
//! another server if necessary.

use crate::connection_options::ClickHouseOptions;
use crate::endpoint::DatabaseEndpoint;
use crate::request_error::RequestError;
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
