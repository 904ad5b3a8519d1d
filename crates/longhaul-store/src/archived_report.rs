//! Archived reports: their JSON, and the check of schema and kind when it is read.

use crate::store_error::StoreError;
use longhaul_model::foreign_text::{ForeignDeserializer, sanitize_foreign};
use longhaul_model::report::v1::{AnyReport, ReportKind, SCHEMA};
use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};

/// Parses a stored report of any kind; its texts are sanitized and cut.
pub fn parse_report(id: &str, text: &str) -> Result<AnyReport, StoreError> {
    let fail = |source| StoreError::Report { id: id.to_owned(), source };
    // The schema and the kind are checked first, because a later version may not fit our types.
    let kind = read_leading_kind(text).map_or_else(|| read_kind(id, text), Ok)?;
    let mut source = serde_json::Deserializer::from_str(text);
    let report = AnyReport::deserialize_kind(kind, ForeignDeserializer(&mut source));
    report.and_then(|report| source.end().map(|()| report)).map_err(fail)
}

/// Returns the kind of a report of this schema that begins as longhaul writes it.
fn read_leading_kind(text: &str) -> Option<ReportKind> {
    let rest = text.strip_prefix("{\"schema\":\"")?.strip_prefix(SCHEMA)?;
    let (word, _) = rest.strip_prefix("\",\"kind\":\"")?.split_once('"')?;
    ReportKind::deserialize(StrDeserializer::<Error>::new(word)).ok()
}

/// Returns the kind of any report of this schema, after a look at the whole text.
fn read_kind(id: &str, text: &str) -> Result<ReportKind, StoreError> {
    #[derive(Deserialize)]
    struct ReportHeader {
        #[serde(default)]
        schema: serde_json::Value,
        #[serde(default)]
        kind: serde_json::Value,
    }
    let unknown = |found: &str| StoreError::UnknownReport {
        id: id.to_owned(),
        found: sanitize_foreign(found).into_owned(),
        known: SCHEMA,
    };
    let header: ReportHeader = serde_json::from_str(text)
        .map_err(|source| StoreError::Report { id: id.to_owned(), source })?;
    let schema = header.schema.as_str().unwrap_or_default();
    if schema != SCHEMA {
        return Err(unknown(schema));
    }
    ReportKind::deserialize(&header.kind).map_err(|_| unknown(&format!("kind {}", header.kind)))
}
