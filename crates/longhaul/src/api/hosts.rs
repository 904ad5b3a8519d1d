//! Hosts of the watch file, their locations, and their newest audits.

use super::Shared;
use super::asked::Asked;
use super::fault::Fault;
use super::shape::agent::HostRow;
use crate::watch::file::WatchFile;
use axum::Json;
use axum::extract::State;
use longhaul_model::report::v1::host::Grade;
use longhaul_model::report::v1::{AnyReport, Host, Kind};
use longhaul_store::watched::{Range, RunFilter};
use longhaul_store::{Entry, StoreError, Watched};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum number of audits that are searched for the newest of each host.
const AUDITS: u32 = 1000;

/// The hosts that the agent knows.
#[utoipa::path(get, path = "/api/v1/hosts", tag = "agent",
    responses((status = 200, description = "Hosts, in the order of the agent's file", body = Vec<HostRow>)))]
pub async fn hosts(
    State(shared): State<Arc<Shared>>,
    asked: Asked,
) -> Result<Json<Vec<HostRow>>, Fault> {
    asked.done()?;
    let file = shared.desk.file();
    let rows = shared.readers.ask(move |archive| rows(archive, &file));
    Ok(Json(rows.await?))
}

fn rows(archive: &dyn Watched, file: &WatchFile) -> Result<Vec<HostRow>, StoreError> {
    let entries = archive.runs(&RunFilter {
        range: Range::ALL,
        pair: None,
        kind: Some(Kind::Host),
        limit: AUDITS,
    })?;
    let mut newest: BTreeMap<String, Entry> = BTreeMap::new();
    for entry in entries {
        newest.entry(entry.initiator_host.clone()).or_insert(entry);
    }
    let mut rows = Vec::with_capacity(file.hosts.len());
    for host in &file.hosts {
        let own = host.name == file.own().name;
        let audit = newest
            .remove(&host.name)
            .or_else(|| newest.remove(&host.address))
            .or_else(|| own.then(|| newest.remove(&own_name()?)).flatten());
        let (latitude, longitude) = host.place.position.unzip();
        let row = HostRow {
            place: host.place.city.clone(),
            latitude,
            longitude,
            ..bare(&host.name)
        };
        rows.push(audited(archive, row, audit)?);
    }
    for (name, audit) in newest {
        rows.push(audited(archive, bare(&name), Some(audit))?);
    }
    Ok(rows)
}

/// Returns the hostname of this host, which its audits contain.
fn own_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned())
}

fn bare(name: &str) -> HostRow {
    HostRow {
        host: name.to_owned(),
        audit_run_id: None,
        audit_at_us: None,
        limits: None,
        advice: None,
        place: None,
        latitude: None,
        longitude: None,
    }
}

fn audited(
    archive: &dyn Watched,
    row: HostRow,
    audit: Option<Entry>,
) -> Result<HostRow, StoreError> {
    let Some(audit) = audit else {
        return Ok(row);
    };
    let Some(AnyReport::Host(report)) = archive.report(&audit.id)? else {
        return Ok(row);
    };
    Ok(HostRow {
        audit_at_us: super::routes::moment_us(&audit.started_at),
        audit_run_id: Some(audit.id),
        limits: Some(graded(&report, Grade::Limits)),
        advice: Some(graded(&report, Grade::Advice)),
        ..row
    })
}

fn graded(report: &Host, grade: Grade) -> u32 {
    let verdicts = report.analysis.verdicts.iter();
    verdicts.filter(|verdict| verdict.grade == grade).count() as u32
}
