//! Why the engine cannot do what the plan asks.

use std::io;

/// Something was refused by this host's kernel.
#[derive(Debug, thiserror::Error)]
#[error("cannot {tried}: {source}{}", hint.as_deref().map(|hint| format!(" ({hint})")).unwrap_or_default())]
pub struct EngineError {
    /// `choose congestion control bbr for 192.0.2.1:5201`.
    pub tried: String,
    /// What to do next.
    pub hint: Option<String>,
    #[source]
    pub source: io::Error,
}

impl EngineError {
    pub(super) fn new(tried: impl Into<String>, source: io::Error) -> EngineError {
        EngineError {
            tried: tried.into(),
            hint: None,
            source,
        }
    }

    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> EngineError {
        self.hint = Some(hint.into());
        self
    }
}
