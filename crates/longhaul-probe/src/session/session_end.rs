//! The end of a session, always with a named reason.

use super::{SessionRole, SessionState};
use crate::probe_error::TokenFailure;
use crate::wire::{ByeReason, ProtocolVersions};

/// The reason why a session ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionEnd {
    /// The session completed normally.
    #[error("finished")]
    Finished,
    #[error("the peer speaks protocol {theirs}, this end speaks {}", ProtocolVersions::OURS)]
    VersionDiffers { theirs: ProtocolVersions },
    /// Client: the tokens of both ends do not agree.
    #[error("{0}")]
    Token(TokenFailure),
    /// This end requires a token; the peer sent none.
    #[error("the client sent no token")]
    PeerTokenMissing,
    /// The peer's token is wrong.
    #[error("the token of the client is wrong")]
    PeerTokenWrong,
    /// The peer refuses this.
    #[error("the peer refuses: {what}")]
    PeerRefused { what: String },
    /// This end refuses this.
    #[error("refused: {what}")]
    WeRefused { what: String },
    /// The control connection ended.
    #[error("connection lost while {}: {why}", step.describe())]
    Cut { step: SessionState, why: String },
    /// Nothing arrived in time.
    #[error("timed out while {}: {what}", step.describe())]
    TimedOut { step: SessionState, what: String },
    /// The peer reports that nothing arrived from this end in time.
    #[error("the peer timed out while {}: {what}", step.describe())]
    PeerTimedOut { step: SessionState, what: String },
    /// The peer sent a message that is not permitted.
    #[error("the peer violated the protocol while {}: {what}", step.describe())]
    PeerViolation { step: SessionState, what: String },
    /// The peer reports that this end sent a message that is not permitted.
    #[error("the peer reports a protocol violation while {}: {what}", step.describe())]
    OwnViolation { step: SessionState, what: String },
    /// The peer's host failed.
    #[error("the peer failed while {}: {what}", step.describe())]
    PeerFailure { step: SessionState, what: String },
    /// This host failed.
    #[error("failed while {}: {what}", step.describe())]
    OwnFailure { step: SessionState, what: String },
}

impl SessionEnd {
    /// Returns the `bye` for the peer; `None` if the peer has sent its own or cannot receive.
    pub(super) fn bye_message(&self) -> Option<ByeReason> {
        Some(match self {
            SessionEnd::Finished => ByeReason::Finished,
            SessionEnd::VersionDiffers { .. } => ByeReason::Version(ProtocolVersions::OURS),
            SessionEnd::PeerTokenMissing => ByeReason::TokenMissing,
            SessionEnd::PeerTokenWrong | SessionEnd::Token(_) => ByeReason::TokenWrong,
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
        // Only the client ends a session normally, and only after it has all results.
        let over = matches!(step, SessionState::Exchanging | SessionState::Asking);
        match bye {
            ByeReason::Finished if role == SessionRole::Server && over => SessionEnd::Finished,
            ByeReason::Finished => {
                SessionEnd::Cut { step, why: "the peer ended the session early".to_owned() }
            }
            ByeReason::Version(theirs) => SessionEnd::VersionDiffers { theirs },
            ByeReason::TokenMissing => SessionEnd::Token(TokenFailure::Missing),
            ByeReason::TokenWrong => SessionEnd::Token(TokenFailure::Wrong),
            ByeReason::Refused(what) => SessionEnd::PeerRefused { what },
            ByeReason::Violation(what) => SessionEnd::OwnViolation { step, what },
            ByeReason::Timeout(what) => SessionEnd::PeerTimedOut { step, what },
            ByeReason::Failed(what) => SessionEnd::PeerFailure { step, what },
        }
    }
}
