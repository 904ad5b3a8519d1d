//! Generates docs/openapi.json from the handlers.
//!
//! Common errors and the token are added here once. Responses omit absent fields, so no field is
//! described as nullable.

use crate::api::api_router::build_guarded_routes;
use crate::api::shape::ErrorBody;
use longhaul_store::history_store::PlannedRunState;
use serde_json::{Map, Value, json};
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

/// The text of docs/openapi.json.
pub fn document_text() -> String {
    let text = serde_json::to_string_pretty(&build_document()).expect("JSON");
    format!("{text}\n")
}

fn build_document() -> Value {
    let (_, described) = build_guarded_routes(DocumentHead::openapi()).split_for_parts();
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
