//! Lists of runs, and single reports.

use crate::database_client::DatabaseClient;
use crate::planned_run_rows::clamp_range;
use crate::run_insert::{MAX_IDS_PER_QUERY, NO_NAME, format_placeholders};
use crate::table_rows::RunListRow;
use longhaul_model::report::v1::{AnyReport, ReportKind};
use longhaul_store::archive::RunEntry;
use longhaul_store::history_store::RunFilter;
use longhaul_store::{StoreError, archived_report};
use std::collections::HashMap;

pub fn read_report(client: &DatabaseClient, id: &str) -> Result<Option<AnyReport>, StoreError> {
    let text: Option<String> = client.request("read the run", |at| async move {
        let sql = "SELECT report FROM report WHERE id = ? ORDER BY earliness DESC LIMIT 1";
        at.query(sql).bind(id).fetch_optional().await
    })?;
    text.map(|text| archived_report::parse_report(id, &text)).transpose()
}

pub fn list_runs(client: &DatabaseClient, filter: &RunFilter) -> Result<Vec<RunEntry>, StoreError> {
    let (begin_us, end_us) = clamp_range(filter.range);
    let names = filter.pair.as_ref().map(|pair| (&*pair.from, &*pair.to));
    let (sender, receiver) = names.unwrap_or((NO_NAME, NO_NAME));
    let of_kind = filter.kind.map_or("", |_| " AND kind = ?");
    let sql = format!(
        "SELECT ?fields FROM run WHERE sender = ? AND receiver = ? \
         AND at_us >= ? AND at_us < ?{of_kind} \
         ORDER BY at_us DESC, id DESC, earliness DESC LIMIT 1 BY id LIMIT ?"
    );
    let sql = &sql;
    let lines: Vec<RunListRow> = client.request("list the runs", |at| async move {
        let query = at.query(sql).bind(sender).bind(receiver);
        let mut query = query.bind(begin_us).bind(end_us);
        if let Some(kind) = filter.kind {
            query = query.bind(kind.word());
        }
        query.bind(filter.limit).fetch_all().await
    })?;
    let parts = count_parts(client, &lines)?;
    let entry = |line: RunListRow| RunEntry {
        parts: parts.get(&line.id).copied().unwrap_or(0),
        id: line.id,
        started_at: line.started_at,
        kind: line.kind,
        initiator_host: line.initiator_host,
        responder_host: line.responder_host,
        responder_address: line.responder_address,
        streams: line.streams,
        goodput_bps: line.goodput_bps,
        limited_by: line.limited_by,
        analysis_version: line.analysis_version,
    };
    Ok(lines.into_iter().map(entry).collect())
}

/// Returns, for each scan, the number of its probes that are runs of their own.
fn count_parts(
    client: &DatabaseClient,
    lines: &[RunListRow],
) -> Result<HashMap<String, u32>, StoreError> {
    let scans = lines.iter().filter(|line| line.kind == ReportKind::Scan.word());
    let scans: Vec<&RunListRow> = scans.collect();
    let mut found = HashMap::new();
    for scans in scans.chunks(MAX_IDS_PER_QUERY) {
        let first_us = scans.iter().map(|it| it.at_us).min().unwrap_or(0);
        let rows: Vec<(String, u32)> =
            client.request("count the parts of scans", |at| async move {
                let sql = format!(
                    "SELECT assumeNotNull(part_of), toUInt32(uniqExact(id)) FROM run \
                 WHERE sender = '' AND receiver = '' AND at_us >= ? AND part_of IN ({}) \
                 GROUP BY part_of",
                    format_placeholders(scans.len())
                );
                let query = at.query(&sql).bind(first_us);
                let bound = scans.iter().fold(query, |query, it| query.bind(&it.id));
                bound.fetch_all().await
            })?;
        found.extend(rows);
    }
    Ok(found)
}
