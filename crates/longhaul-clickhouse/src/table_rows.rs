//! Table rows, as the driver writes and reads them. Field names are column names.

use clickhouse::Row;
use serde::{Deserialize, Serialize};

#[derive(Debug, Row, Serialize)]
pub struct PairInsertRow<'a> {
    pub sender: &'a str,
    pub receiver: &'a str,
}

#[derive(Debug, Row, Serialize)]
pub struct ReportInsertRow<'a> {
    pub id: &'a str,
    pub at_us: i64,
    pub report: &'a str,
    pub earliness: u64,
}

#[derive(Debug, Row, Serialize)]
pub struct RunInsertRow<'a> {
    pub sender: &'a str,
    pub receiver: &'a str,
    pub at_us: i64,
    pub id: &'a str,
    pub near: &'a str,
    pub started_at: &'a str,
    pub kind: &'a str,
    pub initiator_host: &'a str,
    pub responder_host: &'a str,
    pub responder_address: Option<&'a str>,
    pub streams: Option<u32>,
    pub goodput_bps: Option<u64>,
    pub limited_by: Option<&'a str>,
    pub analysis_version: u32,
    pub part_of: Option<&'a str>,
    pub earliness: u64,
}

/// The columns of a run in a list.
#[derive(Debug, Row, Deserialize)]
pub struct RunListRow {
    pub id: String,
    pub at_us: i64,
    pub started_at: String,
    pub kind: String,
    pub initiator_host: String,
    pub responder_host: String,
    pub responder_address: Option<String>,
    pub streams: Option<u32>,
    pub goodput_bps: Option<u64>,
    pub limited_by: Option<String>,
    pub analysis_version: u32,
}

#[derive(Debug, Row, Serialize)]
pub struct ValueInsertRow<'a> {
    pub quantity: &'a str,
    pub sender: &'a str,
    pub receiver: &'a str,
    pub at_us: i64,
    pub value: f64,
}

#[derive(Debug, Clone, Row, Serialize, Deserialize)]
pub struct PlannedRunRow {
    pub id: String,
    pub due_us: i64,
    pub measurement: String,
    pub sender: String,
    pub receiver: String,
    pub state: u8,
    pub told: String,
    pub standing: u64,
}

#[derive(Debug, Row, Serialize)]
pub struct EventInsertRow<'a> {
    pub id: &'a str,
    pub sender: &'a str,
    pub receiver: &'a str,
    pub quantity: &'a str,
    pub state: &'a str,
    pub is_open: u8,
    pub begin_us: i64,
    pub end_us: i64,
    pub event: &'a str,
    pub version: u64,
}

#[derive(Debug, Row, Serialize)]
pub struct ClosingHourRow {
    pub before_hour: i64,
}

#[derive(Debug, Row, Serialize)]
pub struct SchemaStepRow {
    pub step: u32,
}
