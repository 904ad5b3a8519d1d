//! Why a lab could not be laid or used, by what the caller decides: the exit code.

use std::fmt;
use std::io;

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabErrorKind {
    /// The request cannot be met as it was put: exit code 2.
    Usage,
    /// A privilege or a feature of the kernel is missing: exit code 5.
    Unavailable,
    /// Something that should have worked did not: exit code 70.
    Internal,
}

/// What was tried, on what, why it failed; and what to do next.
#[derive(Debug)]
pub struct LabError {
    pub kind: LabErrorKind,
    pub tried: String,
    pub hint: Option<String>,
    source: Option<io::Error>,
}

impl LabError {
    pub(crate) fn new(kind: LabErrorKind, tried: impl Into<String>) -> Self {
        LabError {
            kind,
            tried: tried.into(),
            hint: None,
            source: None,
        }
    }

    /// A failed call: a missing privilege or feature is told from the rest by its errno.
    pub(crate) fn call(tried: impl Into<String>, source: io::Error) -> Self {
        use io::ErrorKind::{InvalidInput, NotFound, PermissionDenied, Unsupported};
        let kind = match source.kind() {
            PermissionDenied | Unsupported | NotFound | InvalidInput => LabErrorKind::Unavailable,
            _ => LabErrorKind::Internal,
        };
        LabError {
            source: Some(source),
            ..LabError::new(kind, tried)
        }
    }

    /// The same failure, as one of the request and not of the machine.
    pub(crate) fn of_usage(mut self) -> Self {
        self.kind = LabErrorKind::Usage;
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tried)
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// Says what was tried, where a call can fail.
pub(crate) trait Tried<T> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T, LabError>;
}

impl<T> Tried<T> for io::Result<T> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T, LabError> {
        self.map_err(|source| LabError::call(what(), source))
    }
}
