//! Requests to the database, each with a timeout, tried at one URL after the other.
//!
//! The async runtime is private and used by one thread at a time, so callers need not be async
//! (docs/decisions/0019). Every write is idempotent: a write without an answer is repeated, at
//! another server if necessary.

use crate::door::Door;
use crate::options::{Dialect, Options};
use crate::trouble::Trouble;
use clickhouse::Client;
use clickhouse::error::Error;
use longhaul_store::StoreError;
use std::cell::Cell;
use std::future::Future;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The timeout of one request.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The timeout of one retention step, which rewrites data.
pub const STEP_WITHIN: Duration = Duration::from_secs(600);

pub struct Reach {
    /// Taken out when the client is dropped.
    runtime: Option<Runtime>,
    doors: Vec<Door>,
    /// Index of the server that answered last.
    at: Cell<usize>,
    pub options: Options,
}

impl Reach {
    pub fn new(options: Options) -> Result<Reach, StoreError> {
        let refuse = |what: &str, why| StoreError::Refused {
            what: what.to_owned(),
            why,
        };
        if options.urls.is_empty() {
            return Err(refuse("a database without a URL", "name at least one"));
        }
        let doors = options.urls.iter().enumerate().map(|(number, url)| {
            // The URL may hold a password, so it is not repeated.
            let name = || format!("URL {} of the database", number + 1);
            Door::new(url, &options).map_err(|why| refuse(&name(), why))
        });
        let doors = doors.collect::<Result<Vec<Door>, StoreError>>()?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            let place = place(&options, &doors[0]);
            Trouble::Wrong(error.to_string()).told("prepare requests", place)
        })?;
        Ok(Reach {
            runtime: Some(runtime),
            doors,
            at: Cell::new(0),
            options,
        })
    }

    pub fn is_current(&self) -> bool {
        self.options.dialect == Dialect::Current
    }

    /// Runs a request against the database.
    pub fn ask<T, F>(
        &self,
        doing: &'static str,
        work: impl Fn(Client) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.within(ANSWER_WITHIN, doing, |door| work(door.http.clone()))
    }

    /// Runs a request with the timeout of a retention step.
    pub fn step<T, F>(
        &self,
        doing: &'static str,
        work: impl Fn(Client) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.within(STEP_WITHIN, doing, |door| work(door.http.clone()))
    }

    /// Runs a request that does not need the database to exist.
    pub fn ask_outside<T, F>(
        &self,
        doing: &'static str,
        work: impl Fn(Client) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.within(ANSWER_WITHIN, doing, |door| work(door.outside.clone()))
    }

    /// Makes one more attempt than there are URLs, because a kept-alive connection may have been
    /// closed.
    fn within<T, F>(
        &self,
        deadline: Duration,
        doing: &'static str,
        work: impl Fn(&Door) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let first = self.at.get();
        let mut attempt = 0;
        loop {
            let number = (first + attempt) % self.doors.len();
            let door = &self.doors[number];
            let trouble = match self.once(door, deadline, work(door)) {
                Ok(done) => {
                    self.at.set(number);
                    return Ok(done);
                }
                Err(trouble) => trouble,
            };
            attempt += 1;
            // After a timeout the same server is not tried a second time.
            let most = match trouble {
                Trouble::Late(_) => self.doors.len(),
                _ => self.doors.len() + 1,
            };
            if attempt >= most || !trouble.is_passing() {
                return Err(trouble.told(doing, place(&self.options, door)));
            }
        }
    }

    fn once<T>(
        &self,
        door: &Door,
        deadline: Duration,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Trouble> {
        door.knock()
            .map_err(|error| Trouble::Unreachable(format!("no connection: {error}")))?;
        let runtime = self.runtime.as_ref();
        let runtime = runtime.ok_or_else(|| Trouble::Wrong(String::from("it is closed")))?;
        let answer = runtime.block_on(async { tokio::time::timeout(deadline, work).await });
        door.answered(matches!(answer, Ok(Ok(_))));
        match answer {
            Ok(done) => done.map_err(|error| Trouble::of(&error, &self.options)),
            Err(_) => Err(Trouble::Late(deadline.as_secs())),
        }
    }

    /// Describes the current server, for messages.
    pub fn place(&self) -> String {
        place(&self.options, &self.doors[self.at.get()])
    }
}

fn place(options: &Options, door: &Door) -> String {
    format!("the database {} at {}", options.database, door.url)
}

impl Drop for Reach {
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
        let options = Options {
            urls: vec![url.clone()],
            password: Some(String::from("hunter2")),
            ..Options::default()
        };
        let reach = Reach::new(options).expect("a way");
        let deadline = Duration::from_millis(1100);
        let began = std::time::Instant::now();
        let asked: Result<u8, StoreError> = reach.within(deadline, "ask", |door| {
            let http = door.http.clone();
            async move { http.query("SELECT 1").fetch_one().await }
        });
        assert!(began.elapsed() >= deadline);
        let error = asked.expect_err("nobody answers");
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(
            error.to_string(),
            format!("cannot ask in the database longhaul at {url}")
        );
        assert_eq!(cause.as_deref(), Some("no answer within 1 s"));
        assert!(error.hint().is_some_and(|hint| hint.contains("/ping")));
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}
