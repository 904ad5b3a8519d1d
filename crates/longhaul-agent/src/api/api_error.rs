//! Error responses: status, a stable code, a sentence, and a hint.

use super::shape::{ErrorBody, ErrorText};
use crate::agent::export::format_error_chain;
use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use longhaul_store::StoreError;

/// An error response. All of it is sent to the client, so it must not contain secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    pub status: StatusCode,
    pub code: &'static str,
    pub text: String,
    pub hint: Option<String>,
}

impl ApiError {
    pub fn new(status: StatusCode, code: &'static str, text: impl Into<String>) -> ApiError {
        ApiError { status, code, text: text.into(), hint: None }
    }

    pub fn hint(self, hint: impl Into<String>) -> ApiError {
        ApiError { hint: Some(hint.into()), ..self }
    }

    /// 400: invalid parameter.
    pub fn bad_request(text: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "bad_request", text)
    }

    /// 400 or 415: a body that cannot be read; `form` shows a valid one.
    pub fn from_rejection(rejection: &JsonRejection, form: &str) -> ApiError {
        let status = match rejection.status() {
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
            other => other,
        };
        ApiError::new(status, "bad_request", rejection.body_text())
            .hint(format!("send application/json like {form}"))
    }

    /// 404: not found.
    pub fn not_found(text: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "not_found", text)
    }

    /// 503: temporarily unavailable.
    pub fn unavailable(code: &'static str, text: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, text)
    }

    /// 500: a bug in longhaul.
    pub fn internal(what: &str) -> ApiError {
        let text = format!("{what} failed because of a bug in longhaul");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "defect", text)
            .hint("report this bug with the message in the agent's log")
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let (status, code) = match &error {
            StoreError::NoSuchRun { .. } | StoreError::NoSuchPlanned { .. } => {
                (StatusCode::NOT_FOUND, "not_found")
            }
            StoreError::Refused { .. } | StoreError::Ambiguous { .. } => {
                (StatusCode::BAD_REQUEST, "bad_request")
            }
            StoreError::Full { .. } => (StatusCode::INSUFFICIENT_STORAGE, "disk_full"),
            StoreError::Locked { .. } => (StatusCode::SERVICE_UNAVAILABLE, "archive_busy"),
            StoreError::UnknownReport { .. } | StoreError::Report { .. } => {
                (StatusCode::INTERNAL_SERVER_ERROR, "report_unreadable")
            }
            _ => (StatusCode::SERVICE_UNAVAILABLE, "archive_failed"),
        };
        ApiError { status, code, text: format_error_chain(&error), hint: error.hint() }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            error: ErrorText { code: self.code.to_owned(), text: self.text, hint: self.hint },
        };
        (self.status, Json(body)).into_response()
    }
}
