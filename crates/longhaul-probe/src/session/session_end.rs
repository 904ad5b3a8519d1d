//! The end of a session, always with a named reason.

use super::{SessionRole, SessionState};
use crate::wire::{ByeReason, ProtocolVersions};
use longhaul_model::sanitize::sanitize_line;

/// The reason why a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEnd {
    /// The session completed normally.
    Finished,
    VersionDiffers {
        theirs: ProtocolVersions,
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
        step: SessionState,
        why: String,
    },
    /// Nothing arrived in time.
    TimedOut {
        step: SessionState,
        what: String,
    },
    /// The peer reports that nothing arrived from this end in time.
    PeerTimedOut {
        step: SessionState,
        what: String,
    },
    /// The peer sent a message that is not permitted.
    PeerViolation {
        step: SessionState,
        what: String,
    },
    /// The peer reports that this end sent a message that is not permitted.
    OwnViolation {
        step: SessionState,
        what: String,
    },
    /// The peer's host failed.
    PeerFailure {
        step: SessionState,
        what: String,
    },
    /// This host failed.
    OwnFailure {
        step: SessionState,
        what: String,
    },
}

/// The maximum length of a peer's text.
const MAX_PEER_TEXT_CHARS: usize = 500;

impl SessionEnd {
    /// Returns the `bye` for the peer; `None` if the peer has sent its own or cannot receive.
    pub(super) fn bye_message(&self) -> Option<ByeReason> {
        Some(match self {
            SessionEnd::Finished => ByeReason::Finished,
            SessionEnd::VersionDiffers { .. } => ByeReason::Version(ProtocolVersions::OURS),
            SessionEnd::PeerTokenMissing => ByeReason::TokenMissing,
            SessionEnd::PeerTokenWrong | SessionEnd::PeerUnproven => ByeReason::TokenWrong,
            SessionEnd::WeRefused { what } => ByeReason::Refused(what.clone()),
            SessionEnd::PeerViolation { what, .. } => ByeReason::Violation(what.clone()),
            SessionEnd::TimedOut { step, what } => {
                ByeReason::Timeout(format!("{what} ({})", step.describe()))
            }
            SessionEnd::OwnFailure { what, .. } => ByeReason::Failed(what.clone()),
            _ => return None,
        })
    }

    /// Returns the reason that a received `bye` means for this end.
    pub(super) fn from_bye(role: SessionRole, step: SessionState, bye: ByeReason) -> SessionEnd {
        let early = |step: SessionState| {
            // Only the client ends a session normally, and only after it has all results.
            let over = matches!(step, SessionState::Exchanging | SessionState::Asking);
            let finished = role == SessionRole::Server && over;
            if finished {
                SessionEnd::Finished
            } else {
                SessionEnd::Cut { step, why: "the peer ended the session early".to_owned() }
            }
        };
        match bye {
            ByeReason::Finished => early(step),
            ByeReason::Version(theirs) => SessionEnd::VersionDiffers { theirs },
            ByeReason::TokenMissing => SessionEnd::TokenMissing,
            ByeReason::TokenWrong => SessionEnd::TokenWrong,
            ByeReason::Refused(what) => {
                SessionEnd::PeerRefused { what: sanitize_line(&what, MAX_PEER_TEXT_CHARS) }
            }
            ByeReason::Violation(what) => {
                SessionEnd::OwnViolation { step, what: sanitize_line(&what, MAX_PEER_TEXT_CHARS) }
            }
            ByeReason::Timeout(what) => {
                SessionEnd::PeerTimedOut { step, what: sanitize_line(&what, MAX_PEER_TEXT_CHARS) }
            }
            ByeReason::Failed(what) => {
                SessionEnd::PeerFailure { step, what: sanitize_line(&what, MAX_PEER_TEXT_CHARS) }
            }
        }
    }
}

impl std::fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SessionEnd::Finished => f.write_str("finished"),
            SessionEnd::VersionDiffers { theirs } => {
                write!(
                    f,
                    "the peer speaks protocol {theirs}, this end speaks {}",
                    ProtocolVersions::OURS
                )
            }
            SessionEnd::TokenMissing => f.write_str("the peer requires a token"),
            SessionEnd::TokenWrong => f.write_str("the peer rejects the token"),
            SessionEnd::PeerUnproven => {
                f.write_str("the peer did not prove that it knows the token")
            }
            SessionEnd::PeerTokenMissing => f.write_str("the client sent no token"),
            SessionEnd::PeerTokenWrong => f.write_str("the token of the client is wrong"),
            SessionEnd::PeerRefused { what } => write!(f, "the peer refuses: {what}"),
            SessionEnd::WeRefused { what } => write!(f, "refused: {what}"),
            SessionEnd::Cut { step, why } => {
                write!(f, "connection lost while {}: {why}", step.describe())
            }
            SessionEnd::TimedOut { step, what } => {
                write!(f, "timed out while {}: {what}", step.describe())
            }
            SessionEnd::PeerTimedOut { step, what } => {
                write!(f, "the peer timed out while {}: {what}", step.describe())
            }
            SessionEnd::PeerViolation { step, what } => {
                write!(f, "the peer violated the protocol while {}: {what}", step.describe())
            }
            SessionEnd::OwnViolation { step, what } => {
                write!(f, "the peer reports a protocol violation while {}: {what}", step.describe())
            }
            SessionEnd::PeerFailure { step, what } => {
                write!(f, "the peer failed while {}: {what}", step.describe())
            }
            SessionEnd::OwnFailure { step, what } => {
                write!(f, "failed while {}: {what}", step.describe())
            }
        }
    }
}
