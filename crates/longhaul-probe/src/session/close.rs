//! The end of a session, always with a named reason.

use super::{Role, State};
use crate::wire::{Bye, Versions};

/// The reason why a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// The session completed normally.
    Finished,
    VersionDiffers {
        theirs: Versions,
    },
    /// The peer requires a token; this end sent none.
    TokenMissing,
    /// The peer does not accept this end's token.
    TokenWrong,
    /// The peer did not prove that it knows the token.
    PeerUnproven,
    /// This end requires a token; the peer sent none.
    PeerTokenMissing,
    /// The peer's token is wrong.
    PeerTokenWrong,
    /// The peer refuses this.
    PeerRefused {
        what: String,
    },
    /// This end refuses this.
    WeRefused {
        what: String,
    },
    /// The control connection ended.
    Cut {
        step: State,
        why: String,
    },
    /// Nothing arrived in time.
    TimedOut {
        step: State,
        what: String,
    },
    /// The peer reports that nothing arrived from this end in time.
    PeerTimedOut {
        step: State,
        what: String,
    },
    /// The peer sent a message that is not permitted.
    PeerViolation {
        step: State,
        what: String,
    },
    /// The peer reports that this end sent a message that is not permitted.
    OwnViolation {
        step: State,
        what: String,
    },
    /// The peer's host failed.
    PeerFailure {
        step: State,
        what: String,
    },
    /// This host failed.
    OwnFailure {
        step: State,
        what: String,
    },
}

/// Sanitizes a peer's text: limits its length and replaces control characters.
fn tamed(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(500)
        .collect()
}

impl Closed {
    /// Returns the `bye` for the peer; `None` if the peer has sent its own or cannot receive.
    pub(super) fn goodbye(&self) -> Option<Bye> {
        Some(match self {
            Closed::Finished => Bye::Finished,
            Closed::VersionDiffers { .. } => Bye::Version(Versions::OURS),
            Closed::PeerTokenMissing => Bye::TokenMissing,
            Closed::PeerTokenWrong | Closed::PeerUnproven => Bye::TokenWrong,
            Closed::WeRefused { what } => Bye::Refused(what.clone()),
            Closed::PeerViolation { what, .. } => Bye::Violation(what.clone()),
            Closed::TimedOut { step, what } => Bye::Timeout(format!("{what} ({})", step.doing())),
            Closed::OwnFailure { what, .. } => Bye::Failed(what.clone()),
            _ => return None,
        })
    }

    /// Returns the reason that a received `bye` means for this end.
    pub(super) fn told(role: Role, step: State, bye: Bye) -> Closed {
        let early = |step: State| {
            // Only the client ends a session normally, and only after it has all results.
            let over = matches!(step, State::Exchanging | State::Asking);
            let finished = role == Role::Responder && over;
            if finished {
                Closed::Finished
            } else {
                Closed::Cut {
                    step,
                    why: "the peer left early".to_owned(),
                }
            }
        };
        match bye {
            Bye::Finished => early(step),
            Bye::Version(theirs) => Closed::VersionDiffers { theirs },
            Bye::TokenMissing => Closed::TokenMissing,
            Bye::TokenWrong => Closed::TokenWrong,
            Bye::Refused(what) => Closed::PeerRefused { what: tamed(&what) },
            Bye::Violation(what) => Closed::OwnViolation {
                step,
                what: tamed(&what),
            },
            Bye::Timeout(what) => Closed::PeerTimedOut {
                step,
                what: tamed(&what),
            },
            Bye::Failed(what) => Closed::PeerFailure {
                step,
                what: tamed(&what),
            },
        }
    }
}

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Closed::Finished => f.write_str("finished"),
            Closed::VersionDiffers { theirs } => {
                write!(
                    f,
                    "the peer speaks protocol {theirs}, this end {}",
                    Versions::OURS
                )
            }
            Closed::TokenMissing => f.write_str("the peer asks for a token"),
            Closed::TokenWrong => f.write_str("the peer does not accept the token"),
            Closed::PeerUnproven => f.write_str("the peer did not prove that it knows the token"),
            Closed::PeerTokenMissing => f.write_str("no token was shown"),
            Closed::PeerTokenWrong => f.write_str("the token shown is wrong"),
            Closed::PeerRefused { what } => write!(f, "the peer refuses: {what}"),
            Closed::WeRefused { what } => write!(f, "refused: {what}"),
            Closed::Cut { step, why } => write!(f, "cut while {}: {why}", step.doing()),
            Closed::TimedOut { step, what } => write!(f, "late while {}: {what}", step.doing()),
            Closed::PeerTimedOut { step, what } => {
                write!(f, "the peer gave up while {}: {what}", step.doing())
            }
            Closed::PeerViolation { step, what } => {
                write!(
                    f,
                    "the peer broke the protocol while {}: {what}",
                    step.doing()
                )
            }
            Closed::OwnViolation { step, what } => {
                write!(
                    f,
                    "the peer takes this for a violation while {}: {what}",
                    step.doing()
                )
            }
            Closed::PeerFailure { step, what } => {
                write!(f, "the peer failed while {}: {what}", step.doing())
            }
            Closed::OwnFailure { step, what } => {
                write!(f, "failed while {}: {what}", step.doing())
            }
        }
    }
}
