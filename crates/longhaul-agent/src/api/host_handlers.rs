//! Hosts of the watch file, their locations, and their newest audits.

use super::ApiState;
use super::api_error::ApiError;
use super::query_params::QueryParams;
use super::shape::HostRow;
use crate::agent::read_hostname;
use crate::watch::watch_file::{HostSet, HostSetKind, WatchFile};
use axum::Json;
use axum::extract::State;
use longhaul_model::report::v1::host::AuditGrade;
use longhaul_model::report::v1::{AnyReport, HostReport, ReportKind};
use longhaul_store::history_store::RunFilter;
use longhaul_store::{Archive, RunEntry, StoreError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum number of audits that are searched for the newest of each host.
const MAX_AUDITS: u32 = 1000;

/// The hosts that the agent knows.
#[utoipa::path(get, path = "/api/v1/hosts", tag = "agent",
    responses((status = 200, description = "Hosts, in the order of the agent's file", body = Vec<HostRow>)))]
pub async fn hosts(
    State(shared): State<Arc<ApiState>>,
    params: QueryParams,
) -> Result<Json<Vec<HostRow>>, ApiError> {
    params.reject_rest()?;
    let file = shared.state.file();
    let rows = shared.archive.query(move |archive| build_host_rows(archive, &file));
    Ok(Json(rows.await?))
}

fn build_host_rows(archive: &Archive, file: &WatchFile) -> Result<Vec<HostRow>, StoreError> {
    let entries = archive
        .runs(&RunFilter { kind: Some(ReportKind::Host), ..RunFilter::newest(MAX_AUDITS) })?;
    let mut newest: BTreeMap<String, RunEntry> = BTreeMap::new();
    for entry in entries {
        newest.entry(entry.initiator_host.clone()).or_insert(entry);
    }
    let mut rows = Vec::with_capacity(file.hosts.len());
    for host in &file.hosts {
        let own = host.name == file.own_host().name;
        let audit = newest
            .remove(&host.name)
            .or_else(|| newest.remove(&host.address))
            .or_else(|| own.then(|| newest.remove(&read_hostname()?)).flatten());
        let row = HostRow {
            host: host.name.clone(),
            place: host.city.clone(),
            groups: list_groups(file, &host.name),
            latitude: host.latitude,
            longitude: host.longitude,
            ..HostRow::default()
        };
        rows.push(add_audit(archive, row, audit)?);
    }
    for (name, audit) in newest {
        let row = HostRow { host: name, ..HostRow::default() };
        rows.push(add_audit(archive, row, Some(audit))?);
    }
    Ok(rows)
}

fn list_groups(file: &WatchFile, host: &str) -> Vec<String> {
    let own = file.own_host().name == host;
    let has_host = |set: &&HostSet| {
        let is_member = set.hosts.iter().any(|index| file.hosts[*index].name == host);
        match set.kind {
            HostSetKind::Group => is_member || own,
            HostSetKind::Mesh => is_member,
            HostSetKind::Target => false,
        }
    };
    file.sets.iter().filter(has_host).map(|set| set.name.clone()).collect()
}

fn add_audit(
    archive: &Archive,
    row: HostRow,
    audit: Option<RunEntry>,
) -> Result<HostRow, StoreError> {
    let Some(audit) = audit else {
        return Ok(row);
    };
    let Some(AnyReport::Host(report)) = archive.report(&audit.id)? else {
        return Ok(row);
    };
    Ok(HostRow {
        audit_at_us: crate::path_traces::parse_time_us(&audit.started_at),
        audit_run_id: Some(audit.id),
        limits: Some(count_verdicts(&report, AuditGrade::Limits)),
        advice: Some(count_verdicts(&report, AuditGrade::Advice)),
        ..row
    })
}

fn count_verdicts(report: &HostReport, grade: AuditGrade) -> u32 {
    let verdicts = report.analysis.verdicts.iter();
    verdicts.filter(|verdict| verdict.grade == grade).count() as u32
}
