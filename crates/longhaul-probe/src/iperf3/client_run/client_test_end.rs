//! The end of a test with an iperf3 server, and advice for it.

use super::client_protocol::ClientStep;
use crate::iperf3::iperf3_messages::ServerRefusal;

/// The reason why a test ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientTestEnd {
    #[error("the test is over")]
    Finished,
    /// The server runs one test at a time.
    #[error("it is busy with another test")]
    Busy,
    /// The server denied access in a later step, with the same state as `Busy`.
    #[error("it denied access while {}", step.describe())]
    Denied { step: ClientStep },
    /// The server refused the test with an error code.
    #[error("it refuses while {}: {refusal}", step.describe())]
    Refused {
        step: ClientStep,
        refusal: ServerRefusal,
    },
    /// The test was ended on the server.
    #[error("it was ended there while {}", step.describe())]
    Terminated { step: ClientStep },
    /// No answer arrived in time.
    #[error("it did not answer in time while {}", step.describe())]
    TimedOut { step: ClientStep },
    /// The server's message is not iperf3's protocol.
    #[error("it does not speak as iperf3 does while {}: {what}", step.describe())]
    Violation { step: ClientStep, what: String },
    /// The control connection ended.
    #[error("the connection ended while {}: {why}", step.describe())]
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
                "try again when its test is over; `longhaul serve` in its place serves many at once"
            }
            ClientTestEnd::Denied { .. } => {
                "it may want a user and a password: `--iperf3-user`, `--iperf3-public-key`"
            }
            ClientTestEnd::Refused { refusal, .. } => match refusal.code {
                5..=37 => "ask for less, or for what its release knows",
                142 => {
                    "it wants a user and a password that it knows: `--iperf3-user`, \
                     `--iperf3-public-key`, and before 3.17 `--iperf3-pkcs1`"
                }
                _ => "look at what it printed there",
            },
            ClientTestEnd::Terminated { .. } => "start it again, and measure again",
            ClientTestEnd::TimedOut {
                step: ClientStep::Greeting,
            } => {
                "check that an iperf3 server listens on this port, and is not in the middle of a test"
            }
            ClientTestEnd::TimedOut { .. } | ClientTestEnd::Cut { .. } => {
                "look at what it printed there, and whether a firewall lets its streams pass"
            }
            ClientTestEnd::Violation { .. } => "check `--port`, and that it is iperf3 3.1 or newer",
            ClientTestEnd::Finished | ClientTestEnd::Failed(_) => return None,
        })
    }
}
