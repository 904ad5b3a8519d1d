//! Errors of requests to the database, with hints for the user.

use crate::connection_options::ClickHouseOptions;
use clickhouse::error::Error;
use longhaul_store::StoreError;

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
