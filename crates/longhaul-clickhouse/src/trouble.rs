//! Errors of requests to the database, with hints for the user.

use crate::options::Options;
use clickhouse::error::Error;
use longhaul_store::StoreError;

/// The maximum number of characters quoted from a server message.
const WORDS_MAX: usize = 400;

/// The reason why one attempt failed.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error("{0}")]
    Unreachable(String),
    #[error("no answer within {0} s")]
    Late(u64),
    #[error("{0}")]
    Said(String),
    #[error("{0}")]
    Wrong(String),
}

/// Error codes for which a retry may succeed.
const PASSING: &[u32] = &[
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
const DENIED: &[u32] = &[192, 193, 194, 516];
const NOT_ALLOWED: &[u32] = &[164, 291, 452, 497];
const NO_ROOM: &[u32] = &[241, 243];
const UNKNOWN_CLUSTER: &[u32] = &[170, 701];

impl Trouble {
    pub fn of(error: &Error, options: &Options) -> Trouble {
        match error {
            Error::Network(source) => Trouble::Unreachable(chain(source.as_ref())),
            Error::TimedOut => Trouble::Late(0),
            Error::BadResponse(words) => Trouble::Said(discreet(words, options)),
            other => Trouble::Wrong(chain(other)),
        }
    }

    /// Returns true if another server, or a later attempt, may succeed.
    pub fn is_passing(&self) -> bool {
        match self {
            Trouble::Unreachable(_) | Trouble::Late(_) => true,
            Trouble::Said(words) => code(words).is_some_and(|code| PASSING.contains(&code)),
            Trouble::Wrong(_) => false,
        }
    }

    fn hint(&self) -> Option<String> {
        let words = match self {
            Trouble::Unreachable(_) | Trouble::Late(_) => {
                "see that the server runs and answers: `curl URL/ping`; what was measured waits \
                 in the agent's own archive"
            }
            Trouble::Wrong(_) => return None,
            Trouble::Said(words) => match code(words)? {
                code if DENIED.contains(&code) => "check `user` and `password_file`",
                code if NOT_ALLOWED.contains(&code) => {
                    "give the user its rights on the database: docs/clickhouse.md, Rights"
                }
                code if NO_ROOM.contains(&code) => "make room on the server: disk or memory",
                code if UNKNOWN_CLUSTER.contains(&code) => {
                    "`cluster` is a name in the servers' remote_servers: \
                     `SELECT cluster FROM system.clusters` lists them"
                }
                code if PASSING.contains(&code) => {
                    "the server is overloaded or parted from its keeper; it is tried again later"
                }
                _ => return None,
            },
        };
        Some(words.to_owned())
    }

    /// Converts the error for the caller; `at` names the server.
    pub fn told(self, doing: &'static str, at: String) -> StoreError {
        StoreError::Database {
            doing,
            at,
            hint: self.hint(),
            source: Box::new(self),
        }
    }
}

/// Returns true if the user lacks a permission.
pub fn is_denied(error: &StoreError) -> bool {
    let said = std::error::Error::source(error).map(ToString::to_string);
    let code = said.as_deref().and_then(code);
    code.is_some_and(|code| NOT_ALLOWED.contains(&code))
}

/// Parses the number in `Code: 516. DB::Exception: ...`.
pub fn code(words: &str) -> Option<u32> {
    let rest = words.split("Code: ").nth(1)?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Returns the start of a server message on one line, without the password.
fn discreet(words: &str, options: &Options) -> String {
    let mut words = words.replace(['\n', '\r'], " ");
    if let Some(password) = options.password.as_deref().filter(|it| !it.is_empty()) {
        words = words.replace(password, "***");
    }
    match words.char_indices().nth(WORDS_MAX) {
        Some((end, _)) => format!("{} ...", &words[..end]),
        None => words,
    }
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = sources.map(ToString::to_string).collect();
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &str) -> Trouble {
        let options = Options {
            password: Some(String::from("hunter2")),
            ..Options::default()
        };
        Trouble::of(&Error::BadResponse(words.to_owned()), &options)
    }

    #[test]
    fn what_the_database_says_is_sorted_by_its_code() {
        let denied = said("Code: 516. DB::Exception: default: Authentication failed");
        assert!(!denied.is_passing());
        assert_eq!(denied.hint().unwrap(), "check `user` and `password_file`");
        assert!(said("Code: 242. DB::Exception: Table is in readonly mode").is_passing());
        assert!(said("Code: 999, e.displayText() = Session expired").is_passing());
        assert!(!said("no code").is_passing());
    }

    #[test]
    fn the_password_and_the_length_of_what_is_said_are_kept_back() {
        let text = said(&format!("hunter2 is wrong\n{}", "x".repeat(10_000))).to_string();
        assert!(!text.contains("hunter2") && !text.contains('\n'), "{text}");
        assert!(text.len() < 500);
    }
}
