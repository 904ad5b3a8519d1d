//! Answers that people may also read as a document.

use super::api_error::ApiError;
use super::query_params::QueryParams;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

/// The format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentFormat {
    Text,
    Html,
    Json,
}

impl DocumentFormat {
    /// Takes `format` out of the parameters.
    pub fn take(params: &mut QueryParams) -> Result<Option<DocumentFormat>, ApiError> {
        let formats = [
            ("text", DocumentFormat::Text),
            ("html", DocumentFormat::Html),
            ("json", DocumentFormat::Json),
        ];
        params.one_of("format", &formats)
    }

    /// Answers with a text that is in this format already.
    pub fn answer(self, text: String) -> Response {
        let kind = match self {
            DocumentFormat::Text => "text/plain; charset=utf-8",
            DocumentFormat::Html => "text/html; charset=utf-8",
            DocumentFormat::Json => "application/json",
        };
        ([(CONTENT_TYPE, kind)], text).into_response()
    }
}
