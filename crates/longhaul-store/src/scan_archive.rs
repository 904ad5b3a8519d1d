//! Scans in the archive: start, resume, and reuse for a path.

use crate::archive::Archive;
use crate::archived_report;
use crate::store_error::StoreError;
use longhaul_model::report::v1::{
    AnyReport, AvailableReport, ImportedReport, PathReport, ReportKind, ScanReport,
    ThroughputReport, scan,
};
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
                |row| {
                    Ok(UnfinishedScan {
                        id: row.get(0)?,
                        started_at: row.get(1)?,
                    })
                },
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
            .query_map([id], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })
            .map_err(sql)?;
        let mut found = Vec::new();
        for row in rows {
            let (id, text) = row.map_err(sql)?;
            if let AnyReport::Throughput(report) = archived_report::parse_report(&id, &text)? {
                found.push(*report);
            }
        }
        Ok(found)
    }

    /// Returns the latest scans to this responder, newest first, at most `limit`.
    pub fn recent_scans(
        &self,
        responder_host: &str,
        limit: u32,
    ) -> Result<Vec<ScanReport>, StoreError> {
        let found = self.reports_of_kind(ReportKind::Scan, Some(responder_host), limit)?;
        Ok(take_reports(found, |report| match report {
            AnyReport::Scan(scan) => Some(*scan),
            _ => None,
        }))
    }

    /// Returns the latest throughput runs, including probes of scans, newest first, at most
    /// `limit`.
    pub fn recent_throughput_runs(&self, limit: u32) -> Result<Vec<ThroughputReport>, StoreError> {
        let found = self.reports_of_kind(ReportKind::Throughput, None, limit)?;
        Ok(take_reports(found, |report| match report {
            AnyReport::Throughput(run) => Some(*run),
            _ => None,
        }))
    }

    /// Returns the latest path reports to this responder, newest first, at most `limit`.
    pub fn recent_paths(
        &self,
        responder_host: &str,
        limit: u32,
    ) -> Result<Vec<PathReport>, StoreError> {
        let found = self.reports_of_kind(ReportKind::Path, Some(responder_host), limit)?;
        Ok(take_reports(found, |report| match report {
            AnyReport::Path(path) => Some(*path),
            _ => None,
        }))
    }

    /// Returns the latest imported runs to this responder, newest first, at most `limit`.
    pub fn recent_imports(
        &self,
        responder_host: &str,
        limit: u32,
    ) -> Result<Vec<ImportedReport>, StoreError> {
        let found = self.reports_of_kind(ReportKind::Imported, Some(responder_host), limit)?;
        Ok(take_reports(found, |report| match report {
            AnyReport::Imported(run) => Some(*run),
            _ => None,
        }))
    }

    /// Returns the latest estimates of available bandwidth to this responder, newest first, at most
    /// `limit`.
    pub fn recent_availables(
        &self,
        responder_host: &str,
        limit: u32,
    ) -> Result<Vec<AvailableReport>, StoreError> {
        let found = self.reports_of_kind(ReportKind::Available, Some(responder_host), limit)?;
        Ok(take_reports(found, |report| match report {
            AnyReport::Available(available) => Some(*available),
            _ => None,
        }))
    }

    fn reports_of_kind(
        &self,
        kind: ReportKind,
        responder_host: Option<&str>,
        limit: u32,
    ) -> Result<Vec<AnyReport>, StoreError> {
        let sql = |e| StoreError::from_sqlite("read earlier runs", &self.path, e);
        let mut statement = self
            .connection
            .prepare(
                "SELECT id, report FROM run WHERE kind = ?1 AND (?2 IS NULL OR responder_host = ?2) \
                 ORDER BY started_at DESC, id DESC LIMIT ?3",
            )
            .map_err(sql)?;
        let rows = statement
            .query_map(params![kind.word(), responder_host, limit], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })
            .map_err(sql)?;
        let mut found = Vec::new();
        for row in rows {
            let (id, text) = row.map_err(sql)?;
            found.push(archived_report::parse_report(&id, &text)?);
        }
        Ok(found)
    }
}

fn take_reports<T>(found: Vec<AnyReport>, take: impl FnMut(AnyReport) -> Option<T>) -> Vec<T> {
    found.into_iter().filter_map(take).collect()
}

fn serialize_plan(id: &str, plan: &scan::ScanPlan) -> Result<String, StoreError> {
    serde_json::to_string(plan).map_err(|source| StoreError::Report {
        id: id.to_owned(),
        source,
    })
}
