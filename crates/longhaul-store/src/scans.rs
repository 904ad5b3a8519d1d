//! Scans in the archive: start, resume, and reuse for a path.

use crate::archive::Archive;
use crate::error::StoreError;
use crate::filed;
use longhaul_model::report::v1::{
    AnyReport, Available, Imported, Kind, Path, Scan, Throughput, scan,
};
use rusqlite::{OptionalExtension, params};

/// A scan that was started and has no report yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    pub id: String,
    /// UTC, RFC 3339.
    pub started_at: String,
}

impl Archive {
    /// Records the start of a scan, so that it can be resumed after an interruption. Appending a
    /// report under this id deletes the record.
    pub fn begin(
        &mut self,
        begun: &Begun,
        target: &str,
        plan: &scan::Plan,
    ) -> Result<(), StoreError> {
        let plan = plan_text(&begun.id, plan)?;
        self.connection
            .execute(
                "INSERT INTO begun VALUES (?1, ?2, ?3, ?4)",
                params![begun.id, begun.started_at, target, plan],
            )
            .map(drop)
            .map_err(|e| StoreError::sql("note the begin of the scan", &self.path, e))
    }

    /// Returns the latest unfinished scan to `target` with exactly this plan that started at or
    /// after `since` (UTC, RFC 3339).
    pub fn unfinished(
        &self,
        target: &str,
        plan: &scan::Plan,
        since: &str,
    ) -> Result<Option<Begun>, StoreError> {
        let plan = plan_text("of an unfinished scan", plan)?;
        self.connection
            .query_row(
                "SELECT id, started_at FROM begun \
                 WHERE target = ?1 AND plan = ?2 AND started_at >= ?3 \
                 ORDER BY started_at DESC, id DESC LIMIT 1",
                params![target, plan, since],
                |row| {
                    Ok(Begun {
                        id: row.get(0)?,
                        started_at: row.get(1)?,
                    })
                },
            )
            .optional()
            .map_err(|e| StoreError::sql("look for an unfinished scan", &self.path, e))
    }

    /// Returns the finished probes of a scan or a proof, by index.
    pub fn parts(&self, id: &str) -> Result<Vec<Throughput>, StoreError> {
        let sql = |e| StoreError::sql("read the probes", &self.path, e);
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
            if let AnyReport::Throughput(report) = filed::parse(&id, &text)? {
                found.push(*report);
            }
        }
        Ok(found)
    }

    /// Returns the latest scans to this responder, newest first, at most `limit`.
    pub fn scans(&self, responder_host: &str, limit: u32) -> Result<Vec<Scan>, StoreError> {
        let found = self.of_kind(Kind::Scan, Some(responder_host), limit)?;
        Ok(of_type(found, |report| match report {
            AnyReport::Scan(scan) => Some(*scan),
            _ => None,
        }))
    }

    /// Returns the latest throughput runs, including probes of scans, newest first, at most
    /// `limit`.
    pub fn throughput_runs(&self, limit: u32) -> Result<Vec<Throughput>, StoreError> {
        let found = self.of_kind(Kind::Throughput, None, limit)?;
        Ok(of_type(found, |report| match report {
            AnyReport::Throughput(run) => Some(*run),
            _ => None,
        }))
    }

    /// Returns the latest path reports to this responder, newest first, at most `limit`.
    pub fn paths(&self, responder_host: &str, limit: u32) -> Result<Vec<Path>, StoreError> {
        let found = self.of_kind(Kind::Path, Some(responder_host), limit)?;
        Ok(of_type(found, |report| match report {
            AnyReport::Path(path) => Some(*path),
            _ => None,
        }))
    }

    /// Returns the latest imported runs to this responder, newest first, at most `limit`.
    pub fn imports(&self, responder_host: &str, limit: u32) -> Result<Vec<Imported>, StoreError> {
        let found = self.of_kind(Kind::Imported, Some(responder_host), limit)?;
        Ok(of_type(found, |report| match report {
            AnyReport::Imported(run) => Some(*run),
            _ => None,
        }))
    }

    /// Returns the latest estimates of available bandwidth to this responder, newest first, at most
    /// `limit`.
    pub fn availables(
        &self,
        responder_host: &str,
        limit: u32,
    ) -> Result<Vec<Available>, StoreError> {
        let found = self.of_kind(Kind::Available, Some(responder_host), limit)?;
        Ok(of_type(found, |report| match report {
            AnyReport::Available(available) => Some(*available),
            _ => None,
        }))
    }

    fn of_kind(
        &self,
        kind: Kind,
        responder_host: Option<&str>,
        limit: u32,
    ) -> Result<Vec<AnyReport>, StoreError> {
        let sql = |e| StoreError::sql("read earlier runs", &self.path, e);
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
            found.push(filed::parse(&id, &text)?);
        }
        Ok(found)
    }
}

fn of_type<T>(found: Vec<AnyReport>, take: impl FnMut(AnyReport) -> Option<T>) -> Vec<T> {
    found.into_iter().filter_map(take).collect()
}

fn plan_text(id: &str, plan: &scan::Plan) -> Result<String, StoreError> {
    serde_json::to_string(plan).map_err(|source| StoreError::Report {
        id: id.to_owned(),
        source,
    })
}
