//! The end of a test with an iperf3 server, and advice for it.

use super::role::Step;
use crate::iperf3::wire::Refusal;

/// The reason why a test ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    #[error("the test is over")]
    Finished,
    /// The server runs one test at a time.
    #[error("it is busy with another test")]
    Busy,
    /// The server denied access in a later step, with the same state as `Busy`.
    #[error("it denied access while {}", step.doing())]
    Denied { step: Step },
    /// The server refused the test with an error code.
    #[error("it refuses while {}: {refusal}", step.doing())]
    Refused { step: Step, refusal: Refusal },
    /// The test was ended on the server.
    #[error("it was ended there while {}", step.doing())]
    Terminated { step: Step },
    /// No answer arrived in time.
    #[error("it did not answer in time while {}", step.doing())]
    TimedOut { step: Step },
    /// The server's message is not iperf3's protocol.
    #[error("it does not speak as iperf3 does while {}: {what}", step.doing())]
    Violation { step: Step, what: String },
    /// The control connection ended.
    #[error("the connection ended while {}: {why}", step.doing())]
    Cut { step: Step, why: String },
    /// This end could not continue.
    #[error("{0}")]
    Failed(String),
}

impl Closed {
    /// Returns advice on what to do next, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Closed::Busy => {
                "try again when its test is over; `longhaul serve` in its place serves many at once"
            }
            Closed::Denied { .. } => {
                "it may want a user and a password: `--iperf3-user`, `--iperf3-public-key`"
            }
            Closed::Refused { refusal, .. } => match refusal.code {
                5..=37 => "ask for less, or for what its release knows",
                142 => {
                    "it wants a user and a password that it knows: `--iperf3-user`, \
                     `--iperf3-public-key`, and before 3.17 `--iperf3-pkcs1`"
                }
                _ => "look at what it printed there",
            },
            Closed::Terminated { .. } => "start it again, and measure again",
            Closed::TimedOut {
                step: Step::Greeting,
            } => {
                "check that an iperf3 server listens on this port, and is not in the middle of a test"
            }
            Closed::TimedOut { .. } | Closed::Cut { .. } => {
                "look at what it printed there, and whether a firewall lets its streams pass"
            }
            Closed::Violation { .. } => "check `--port`, and that it is iperf3 3.1 or newer",
            Closed::Finished | Closed::Failed(_) => return None,
        })
    }
}
