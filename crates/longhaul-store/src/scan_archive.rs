//! Scans in the archive: start, resume, and reuse for a path.

use crate::archive::Archive;
use crate::archived_report;
use crate::store_error::StoreError;
use longhaul_model::report::v1::{ReportContent, ThroughputReport, scan};
use rusqlite::{OptionalExtension, params};

/// A scan that was started and has no report yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedScan {
    pub id: String,
    /// UTC, RFC 3339.
    pub started_at: String,
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
        self.connection
            .execute(
                "INSERT INTO begun VALUES (?1, ?2, ?3, ?4)",
                params![begun.id, begun.started_at, target, plan],
            )
            .map(drop)
            .map_err(|e| StoreError::from_sqlite("record the start of the scan", &self.path, e))
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
        self.connection
            .query_row(
                "SELECT id, started_at FROM begun \
                 WHERE target = ?1 AND plan = ?2 AND started_at >= ?3 \
                 ORDER BY started_at DESC, id DESC LIMIT 1",
                params![target, plan, since],
                |row| Ok(UnfinishedScan { id: row.get(0)?, started_at: row.get(1)? }),
            )
            .optional()
            .map_err(|e| StoreError::from_sqlite("find an unfinished scan", &self.path, e))
    }

    /// Returns the finished probes of a scan or a proof, by index.
    pub fn throughput_parts(&self, id: &str) -> Result<Vec<ThroughputReport>, StoreError> {
        let sql = |e| StoreError::from_sqlite("read the probes", &self.path, e);
        let mut statement = self
            .connection
            .prepare("SELECT id, report FROM run WHERE part_of = ?1 ORDER BY part_index, id")
            .map_err(sql)?;
        let rows = statement
            .query_map([id], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
            .map_err(sql)?;
        let mut found = Vec::new();
        for row in rows {
            let (id, text) = row.map_err(sql)?;
            found.extend(ThroughputReport::from_any(archived_report::parse_report(&id, &text)?));
        }
        Ok(found)
    }

    /// Returns the latest reports of a kind, to one responder or to all, newest first, at most
    /// `limit`. Throughput runs include the probes of scans.
    pub fn recent_reports<R: ReportContent>(
        &self,
        responder_host: Option<&str>,
        limit: u32,
    ) -> Result<Vec<R>, StoreError> {
        let sql = |e| StoreError::from_sqlite("read earlier runs", &self.path, e);
        let mut statement = self
            .connection
            .prepare(
                "SELECT id, report FROM run WHERE kind = ?1 AND (?2 IS NULL OR responder_host = ?2) \
                 ORDER BY started_at DESC, id DESC LIMIT ?3",
            )
            .map_err(sql)?;
        let rows = statement
            .query_map(params![R::KIND.word(), responder_host, limit], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })
            .map_err(sql)?;
        let mut found = Vec::new();
        for row in rows {
            let (id, text) = row.map_err(sql)?;
            found.extend(R::from_any(archived_report::parse_report(&id, &text)?));
        }
        Ok(found)
    }
}

fn serialize_plan(id: &str, plan: &scan::ScanPlan) -> Result<String, StoreError> {
    serde_json::to_string(plan).map_err(|source| StoreError::Report { id: id.to_owned(), source })
}
