//! How a test with an iperf3 server ended, and what to do about it.

use super::role::Step;
use crate::iperf3::wire::Refusal;

/// Why it is over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    #[error("the test is over")]
    Finished,
    /// It serves one test at a time.
    #[error("it is busy with another test")]
    Busy,
    /// The same word, later on.
    #[error("it denied access while {}", step.doing())]
    Denied { step: Step },
    /// It says no, and why.
    #[error("it refuses while {}: {refusal}", step.doing())]
    Refused { step: Step, refusal: Refusal },
    /// Somebody ended it there.
    #[error("it was ended there while {}", step.doing())]
    Terminated { step: Step },
    /// Nothing came in time.
    #[error("it did not answer in time while {}", step.doing())]
    TimedOut { step: Step },
    /// What it says is not iperf3's.
    #[error("it does not speak as iperf3 does while {}: {what}", step.doing())]
    Violation { step: Step, what: String },
    /// The control connection ended.
    #[error("the connection ended while {}: {why}", step.doing())]
    Cut { step: Step, why: String },
    /// This end could not go on.
    #[error("{0}")]
    Failed(String),
}

impl Closed {
    /// What to do next, where that can be said.
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
