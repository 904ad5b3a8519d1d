//! Scans in the archive: start, resume, and reuse for a path.

use crate::archive::Archive;
use crate::archived_report;
use crate::store_error::StoreError;
use longhaul_model::report::v1::{ReportContent, ThroughputReport, scan};
use rusqlite::{OptionalExtension, Params, params};

/// A scan that was started and has no report yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedScan {
    pub id: String,
    /// UTC, RFC 3339.
    pub started_at: String,
}

/// The path whose earlier runs are read; absent fields match all.
#[derive(Debug, Clone, Copy, Default)]
pub struct PathSelector<'a> {
    /// The name of the server, as typed, or its address.
    pub host: Option<&'a str>,
    /// The address of the server.
    pub address: Option<&'a str>,
    /// `network`, which includes runs of an unknown environment; `loopback`; `lab`, which includes
    /// all emulated paths; or `lab:NAME`.
    pub environment: Option<&'a str>,
}

/// Returns the condition that a run is in the environment of parameter `number`, if there is one.
pub(crate) fn environment_condition(number: usize) -> String {
    format!(
        "(?{number} IS NULL OR coalesce(environment, 'network') = ?{number} \
         OR (?{number} = 'lab' AND substr(environment, 1, 4) = 'lab:'))"
    )
}

impl Archive {
    /// Records the start of a scan, so that it can be resumed after an interruption. Appending a
    /// report under this id deletes the record.
    pub fn begin_scan(
        &mut self,
        begun: &UnfinishedScan,
        target: &str,
        plan: &scan::ScanPlan,
    ) -> Result<(), StoreError> {
        let plan = serialize_plan(&begun.id, plan)?;
        self.write("record the start of the scan", |to| {
            let row = params![begun.id, begun.started_at, target, plan];
            to.execute("INSERT INTO begun VALUES (?1, ?2, ?3, ?4)", row).map(drop)
        })
    }

    /// Returns the latest unfinished scan to `target` with exactly this plan that started at or
    /// after `since` (UTC, RFC 3339).
    pub fn find_unfinished_scan(
        &self,
        target: &str,
        plan: &scan::ScanPlan,
        since: &str,
    ) -> Result<Option<UnfinishedScan>, StoreError> {
        let plan = serialize_plan("of an unfinished scan", plan)?;
        self.read("find an unfinished scan", |from| {
            from.query_row(
                "SELECT id, started_at FROM begun \
                 WHERE target = ?1 AND plan = ?2 AND started_at >= ?3 \
                 ORDER BY started_at DESC, id DESC LIMIT 1",
                params![target, plan, since],
                |row| Ok(UnfinishedScan { id: row.get(0)?, started_at: row.get(1)? }),
            )
            .optional()
        })
    }

    /// Returns the finished probes of a scan or a proof, by index.
    pub fn throughput_parts(&self, id: &str) -> Result<Vec<ThroughputReport>, StoreError> {
        self.query_reports(
            "read the probes",
            "SELECT id, report FROM run WHERE part_of = ?1 ORDER BY part_index, id",
            [id],
        )
    }

    /// Returns the latest reports of a kind, newest first, at most `limit`. Throughput runs include
    /// the probes of scans.
    pub fn recent_reports<R: ReportContent>(
        &self,
        path: &PathSelector<'_>,
        limit: u32,
    ) -> Result<Vec<R>, StoreError> {
        let query = format!(
            "SELECT id, report FROM run WHERE kind = ?1 \
             AND (?2 IS NULL OR responder_host = ?2 OR responder_address = ?2) \
             AND (?3 IS NULL OR responder_address = ?3) AND {} \
             ORDER BY started_at DESC, id DESC LIMIT ?5",
            environment_condition(4)
        );
        let PathSelector { host, address, environment } = path;
        let values = params![R::KIND.word(), host, address, environment, limit];
        self.query_reports("read earlier runs", &query, values)
    }

    /// Returns the reports of one kind that a query of ids and reports finds.
    fn query_reports<R: ReportContent>(
        &self,
        doing: &'static str,
        query: &str,
        values: impl Params,
    ) -> Result<Vec<R>, StoreError> {
        let rows = self.read(doing, |from| {
            from.prepare(query)?
                .query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<Vec<(String, String)>>>()
        })?;
        let mut found = Vec::new();
        for (id, text) in rows {
            found.extend(R::from_any(archived_report::parse_report(&id, &text)?));
        }
        Ok(found)
    }
}

fn serialize_plan(id: &str, plan: &scan::ScanPlan) -> Result<String, StoreError> {
    serde_json::to_string(plan).map_err(|source| StoreError::Report { id: id.to_owned(), source })
}
