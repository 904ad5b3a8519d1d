//! Errors of setting up or using a lab, classified by the exit code that the caller chooses.

use std::io;

/// The kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabErrorKind {
    /// The request cannot be met as given: exit code 2.
    Usage,
    /// A privilege or a kernel feature is missing: exit code 5.
    Unavailable,
    /// Something unexpectedly failed: exit code 70.
    Internal,
}

/// An error with the attempted action, its cause, and a hint for the user.
#[derive(Debug, thiserror::Error)]
#[error("{attempted}")]
pub struct LabError {
    pub kind: LabErrorKind,
    pub attempted: String,
    pub hint: Option<String>,
    source: Option<io::Error>,
}

impl LabError {
    pub(crate) fn new(kind: LabErrorKind, tried: impl Into<String>) -> Self {
        LabError { kind, attempted: tried.into(), hint: None, source: None }
    }

    /// Creates an error of a failed call; its errno decides whether a privilege or feature is
    /// missing.
    pub(crate) fn from_io(tried: impl Into<String>, source: io::Error) -> Self {
        use io::ErrorKind::{InvalidInput, NotFound, PermissionDenied, Unsupported};
        let kind = match source.kind() {
            PermissionDenied | Unsupported | NotFound | InvalidInput => LabErrorKind::Unavailable,
            _ => LabErrorKind::Internal,
        };
        LabError { source: Some(source), ..LabError::new(kind, tried) }
    }

    /// Reclassifies the failure as one of the request, not of the machine.
    pub(crate) fn into_usage(mut self) -> Self {
        self.kind = LabErrorKind::Usage;
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Adds a description of the attempted action to an I/O error.
pub(crate) trait LabErrorContext<T> {
    fn with_context(self, attempted: impl Into<String>) -> Result<T, LabError>;
}

impl<T> LabErrorContext<T> for io::Result<T> {
    fn with_context(self, attempted: impl Into<String>) -> Result<T, LabError> {
        self.map_err(|source| LabError::from_io(attempted, source))
    }
}
