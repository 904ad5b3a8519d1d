//! The OpenAPI description of the API.
//!
//! docs/openapi.json is generated from the handlers by a test, which fails if the file differs.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

const DOCUMENT: &str = include_str!("../../../../docs/openapi.json");

/// This description.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "agent",
    responses((status = 200, description = "OpenAPI 3.1", content_type = "application/json", body = Object)))]
pub async fn document() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT)
}
