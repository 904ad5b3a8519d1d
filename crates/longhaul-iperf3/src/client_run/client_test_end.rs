//! The end of a test with an iperf3 server, and advice for it.

use super::client_protocol::ClientStep;
use crate::iperf3_messages::ServerRefusal;

/// The reason why a test ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientTestEnd {
    #[error("the test is over")]
    Finished,
    /// The server runs one test at a time.
    #[error("the server is busy with another test")]
    Busy,
    /// The server denied access in a later step, with the same state as `Busy`.
    #[error("the server denied access while {}", step.describe())]
    Denied { step: ClientStep },
    /// The server refused the test with an error code.
    #[error("the server refused while {}: {refusal}", step.describe())]
    Refused { step: ClientStep, refusal: ServerRefusal },
    /// The test was ended on the server.
    #[error("the server ended the test while {}", step.describe())]
    Terminated { step: ClientStep },
    /// No answer arrived in time.
    #[error("the server did not answer in time while {}", step.describe())]
    TimedOut { step: ClientStep },
    /// The server's message is not iperf3's protocol.
    #[error("the server violated the iperf3 protocol while {}: {what}", step.describe())]
    Violation { step: ClientStep, what: String },
    /// The control connection ended.
    #[error("the connection was lost while {}: {why}", step.describe())]
    Cut { step: ClientStep, why: String },
    /// This end could not continue.
    #[error("{0}")]
    Failed(String),
}

impl ClientTestEnd {
    /// Returns advice on what to do next, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            ClientTestEnd::Busy => {
                "try again when its test is over, or run `longhaul serve` there, which serves many at once"
            }
            ClientTestEnd::Denied { .. } => {
                "pass a user if it requires one: `--iperf3-user NAME --iperf3-public-key FILE`"
            }
            ClientTestEnd::Refused { refusal, .. } => match refusal.code {
                5..=37 => "request less, or only what its release supports",
                142 => {
                    "pass a user that it knows: `--iperf3-user NAME --iperf3-public-key FILE`, \
                     and `--iperf3-pkcs1` for a server before 3.17"
                }
                _ => "check what the server printed",
            },
            ClientTestEnd::Terminated { .. } => "start the server again, then measure again",
            ClientTestEnd::TimedOut { step: ClientStep::Greeting } => {
                "check that an iperf3 server listens on this port and is not running a test"
            }
            ClientTestEnd::TimedOut { .. } | ClientTestEnd::Cut { .. } => {
                "check what the server printed, and that no firewall blocks its streams"
            }
            ClientTestEnd::Violation { .. } => {
                "check `--port`, and that the server is iperf3 3.1 or newer"
            }
            ClientTestEnd::Finished | ClientTestEnd::Failed(_) => return None,
        })
    }
}
