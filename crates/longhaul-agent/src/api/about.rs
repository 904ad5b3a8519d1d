//! Information about the agent.

use super::ApiState;
use super::access_control::RequestUser;
use super::api_error::ApiError;
use super::query_params::QueryParams;
use super::shape::{AgentAbout, AgentOffTime, ArchiveAbout, ServiceDescription};
use crate::agent::export::read_wall_us;
use crate::watch::run_schedule::{FAILED_REASON, is_unusual_reason};
use crate::watch::{DAY_US, measure_jobs};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::{Extension, Json};
use jiff::Timestamp;
use longhaul_report::run_header::format_rfc3339;
use longhaul_store::history_store::{PlannedRunCounts, TimeRange};
use std::sync::Arc;

/// The agent: version, archive, and today's runs.
#[utoipa::path(get, path = "/api/v1/about", tag = "agent",
    responses((status = 200, description = "The agent", body = ServiceDescription)))]
pub async fn about(
    State(shared): State<Arc<ApiState>>,
    Extension(user): Extension<RequestUser>,
    headers: HeaderMap,
    params: QueryParams,
) -> Result<Json<ServiceDescription>, ApiError> {
    params.reject_rest()?;
    let today = find_day_range(read_wall_us());
    let (bytes, PlannedRunCounts { planned, reasons, .. }) = shared
        .archive
        .query(move |archive| Ok((archive.disk_bytes()?, archive.planned_counts(today)?)))
        .await?;
    let file = shared.state.file();
    let off_time = shared.state.read_counters().off_time;
    let count = |counts: fn(&str) -> bool| {
        reasons.iter().filter(|it| counts(&it.reason)).map(|it| it.runs).sum()
    };
    Ok(Json(ServiceDescription {
        longhaul: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: format_time(shared.state.started_us),
        archive: ArchiveAbout { kind: "SQLite".to_owned(), bytes: Some(bytes) },
        agent: AgentAbout {
            name: file.agent.name.clone(),
            targets: measure_jobs::count_target_hosts(&file) as u64,
            planned_today: planned,
            failed_today: count(|it| it == FAILED_REASON),
            missed_today: count(|it| it != FAILED_REASON && is_unusual_reason(it)),
            missed_today_by_reason: reasons,
            off: off_time.map(|it| AgentOffTime { from_us: it.begin_us, until_us: it.end_us }),
            takes_orders: shared.authorize_change(&user, &headers).is_ok(),
            user: user.name,
        },
    }))
}

/// Returns the UTC day that contains `now_us`.
pub fn find_day_range(now_us: i64) -> TimeRange {
    let begin_us = now_us - now_us.rem_euclid(DAY_US);
    TimeRange { begin_us, end_us: begin_us + DAY_US }
}

fn format_time(us: i64) -> String {
    let moment = Timestamp::from_microsecond(us);
    moment.map_or_else(|_| String::new(), format_rfc3339)
}
