//! Archived reports: their JSON, and the check of schema and kind when it is read.

use crate::store_error::StoreError;
use longhaul_model::foreign_text::{ForeignDeserializer, sanitize_foreign};
use longhaul_model::report::v1::{AnyReport, ReportKind, SCHEMA};
use serde::Deserialize;

/// Parses a stored report of any kind; its texts are sanitized and cut.
pub fn parse_report(id: &str, text: &str) -> Result<AnyReport, StoreError> {
    #[derive(Deserialize)]
    struct ReportHeader {
        #[serde(default)]
        schema: serde_json::Value,
        #[serde(default)]
        kind: serde_json::Value,
    }
    let fail = |source| StoreError::Report { id: id.to_owned(), source };
    let unknown = |found: &str| StoreError::UnknownReport {
        id: id.to_owned(),
        found: sanitize_foreign(found).into_owned(),
        known: SCHEMA,
    };
    // The schema and the kind are checked first, because a later version may not fit our types.
    let header: ReportHeader = serde_json::from_str(text).map_err(fail)?;
    let schema = header.schema.as_str().unwrap_or_default();
    if schema != SCHEMA {
        return Err(unknown(schema));
    }
    let Ok(kind) = ReportKind::deserialize(&header.kind) else {
        return Err(unknown(&format!("kind {}", header.kind)));
    };
    let mut source = serde_json::Deserializer::from_str(text);
    AnyReport::deserialize_kind(kind, ForeignDeserializer(&mut source)).map_err(fail)
}
