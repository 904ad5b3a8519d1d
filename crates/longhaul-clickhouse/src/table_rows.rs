//! Table rows, as the driver writes them. Field names are column names.

use clickhouse::Row;
use serde::Serialize;

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

#[derive(Debug, Row, Serialize)]
pub struct ValueInsertRow<'a> {
    pub quantity: &'a str,
    pub sender: &'a str,
    pub receiver: &'a str,
    pub at_us: i64,
    pub value: f64,
}

#[derive(Debug, Row, Serialize)]
pub struct PlannedInsertRow<'a> {
    pub id: &'a str,
    pub due_us: i64,
    pub measurement: &'a str,
    pub sender: &'a str,
    pub receiver: &'a str,
    pub state: u8,
    pub told: &'a str,
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
pub struct SchemaStepRow {
    pub step: u32,
}
