//! The OpenAPI description, generated from the handlers.
//!
//! Common errors and the token are added here once. Responses omit absent fields, so no field is
//! described as nullable.

use super::shape::ErrorBody;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use longhaul_store::history_store::PlannedRunState;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "longhaul watch",
        description = "Measurements, events and planned runs of a longhaul agent. Times are microseconds since 1970-01-01T00:00:00Z; `_bps` is bit/s, `_ratio` 0 to 1; an absent field was not measured. See docs/api.md.",
        version = "1",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    components(schemas(ErrorBody, PlannedRunState)),
    tags(
        (name = "agent", description = "The agent and its hosts"),
        (name = "mesh", description = "Series and routes of pairs"),
        (name = "events", description = "Lasting changes"),
        (name = "runs", description = "Finished, planned and requested runs"),
        (name = "news", description = "Live updates"),
    )
)]
struct DocumentHead;

/// Returns the document without paths.
pub fn build_head() -> utoipa::openapi::OpenApi {
    DocumentHead::openapi()
}

static TEXT: LazyLock<String> = LazyLock::new(|| {
    let mut text = serde_json::to_string_pretty(&build_document()).unwrap_or_default();
    text.push('\n');
    text
});

/// This description.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "agent",
    responses((status = 200, description = "OpenAPI 3.1", content_type = "application/json", body = Object)))]
pub async fn document() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str())
}

/// Returns the text of docs/openapi.json.
#[cfg(test)]
pub fn document_text() -> &'static str {
    &TEXT
}

fn build_document() -> Value {
    let (_, described) = super::api_router::build_guarded_routes().split_for_parts();
    let mut value = serde_json::to_value(described).unwrap_or_default();
    let paths = value["paths"].as_object_mut();
    for methods in paths.into_iter().flat_map(Map::values_mut) {
        let methods = methods.as_object_mut();
        methods.into_iter().flat_map(Map::values_mut).for_each(add_common_errors);
    }
    value["components"]["securitySchemes"] = json!({
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "Required if token_file is set in [api] of the watch file.",
        },
    });
    value["security"] = json!([{}, { "token": [] }]);
    remove_null_types(&mut value);
    value
}

/// Adds the errors that any operation may return.
fn add_common_errors(operation: &mut Value) {
    let mut failures = vec![
        ("400", "A parameter is invalid"),
        ("401", "The token is missing or wrong"),
        ("421", "The Host header does not name the agent, which has no token"),
        ("500", "A bug in longhaul"),
        ("503", "Temporarily unavailable: the archive or the agent is busy or does not respond"),
    ];
    let path = operation["parameters"].as_array();
    if path.is_some_and(|all| all.iter().any(|it| it["in"] == "path")) {
        failures.push(("404", "Not found"));
    }
    if !operation["requestBody"].is_null() {
        failures.extend([
            ("403", "The request comes from another site, or the agent is read-only"),
            ("404", "The watch file has no such run"),
            ("413", "The body is too large"),
            ("415", "The body is not application/json"),
        ]);
    }
    for (status, description) in failures {
        operation["responses"][status] = json!({
            "description": description,
            "content": {
                "application/json": { "schema": { "$ref": "#/components/schemas/ErrorBody" } },
            },
        });
    }
}

/// Replaces `T or null` by `T`; `required` states which fields may be absent.
fn remove_null_types(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(remove_null_types),
        Value::Object(fields) => {
            if let Some(Value::Array(kinds)) = fields.get_mut("type") {
                kinds.retain(|kind| kind != "null");
                if let [kind] = kinds.as_slice() {
                    let kind = kind.clone();
                    fields.insert("type".to_owned(), kind);
                }
            }
            if let Some(Value::Array(kinds)) = fields.get_mut("oneOf") {
                kinds.retain(|kind| kind["type"] != "null");
                if let [Value::Object(only)] = kinds.as_slice() {
                    let only = only.clone();
                    fields.remove("oneOf");
                    fields.extend(only);
                }
            }
            fields.values_mut().for_each(remove_null_types);
        }
        _ => {}
    }
}
