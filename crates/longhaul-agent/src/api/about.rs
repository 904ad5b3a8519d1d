//! Information about the agent.

use super::ApiState;
use super::api_error::ApiError;
use super::query_params::QueryParams;
use super::shape::{AgentAbout, ArchiveAbout, ServiceDescription};
use crate::agent::export::read_wall_us;
use crate::watch::{DAY_US, measure_jobs};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use jiff::Timestamp;
use longhaul_store::history_store::TimeRange;
use std::sync::Arc;

/// The agent: version, archive, and today's runs.
#[utoipa::path(get, path = "/api/v1/about", tag = "agent",
    responses((status = 200, description = "The agent", body = ServiceDescription)))]
pub async fn about(
    State(shared): State<Arc<ApiState>>,
    headers: HeaderMap,
    params: QueryParams,
) -> Result<Json<ServiceDescription>, ApiError> {
    params.reject_rest()?;
    let today = find_day_range(read_wall_us());
    let (bytes, counts) = shared
        .archive
        .query(move |archive| Ok((archive.disk_bytes()?, archive.planned_counts(today)?)))
        .await?;
    let file = shared.state.file();
    Ok(Json(ServiceDescription {
        longhaul: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: format_time(shared.state.started_us),
        archive: ArchiveAbout { kind: "SQLite".to_owned(), bytes: Some(bytes) },
        agent: AgentAbout {
            name: file.agent.name.clone(),
            targets: measure_jobs::count_target_hosts(&file) as u64,
            planned_today: counts.planned,
            missed_today: counts.missed,
            takes_orders: shared.authorize_run_request(&headers).is_ok(),
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
    moment.map_or_else(|_| String::new(), |it| it.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}
