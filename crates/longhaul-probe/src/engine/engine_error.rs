//! The error of the engine.

use std::io;

/// An operation that this host's kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation}: {source}{}", hint.as_deref().map(|hint| format!(" ({hint})")).unwrap_or_default())]
pub struct EngineError {
    /// The operation, for example `choose congestion control bbr for 192.0.2.1:5201`.
    pub operation: String,
    /// Advice on what to do next.
    pub hint: Option<String>,
    #[source]
    pub source: io::Error,
}

impl EngineError {
    pub fn new(tried: impl Into<String>, source: io::Error) -> EngineError {
        EngineError { operation: tried.into(), hint: None, source }
    }

    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> EngineError {
        self.hint = Some(hint.into());
        self
    }
}

/// Names the operation of a failed call.
pub(crate) trait EngineContext<T> {
    fn during(self, tried: impl Into<String>) -> Result<T, EngineError>;
}

impl<T> EngineContext<T> for io::Result<T> {
    fn during(self, tried: impl Into<String>) -> Result<T, EngineError> {
        self.map_err(|source| EngineError::new(tried, source))
    }
}
