//! Pairs, the grid of their newest values, and time series.

use super::ApiState;
use super::api_error::ApiError;
use super::query_params::{QueryParams, QueryRange};
use super::shape::DailyTransferList;
use crate::agent::transfer_limit::remove_past_transfers;
use axum::Json;
use axum::extract::State;
use longhaul_history::report_comparison::daily_transfers::DailyTransferSums;
use longhaul_model::report::v1::flows::TransferIdentity;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{HostPair, QuantitySeries};
use longhaul_store::history_store::{GridPair, MAX_SERIES_POINTS, TimeRange};
use longhaul_store::{Archive, StoreError};
use std::sync::Arc;

/// The default number of points: a chart as wide as a usual screen.
const DEFAULT_POINTS: i64 = 1000;

/// All pairs of hosts that have values or planned runs, by name.
#[utoipa::path(get, path = "/api/v1/pairs", tag = "mesh",
    responses((status = 200, description = "Pairs", body = Vec<HostPair>)))]
pub async fn pairs(
    State(shared): State<Arc<ApiState>>,
    params: QueryParams,
) -> Result<Json<Vec<HostPair>>, ApiError> {
    params.reject_rest()?;
    let mut pairs = shared.archive.query(Archive::pairs).await?;
    pairs.retain(|pair| TransferIdentity::of_pair(pair).is_none());
    Ok(Json(pairs))
}

/// The newest value of one quantity for every pair of hosts.
#[utoipa::path(get, path = "/api/v1/grid", tag = "mesh",
    params(("quantity" = PathQuantity, Query, description = "Quantity")),
    responses((status = 200, description = "Pairs with their newest value", body = Vec<GridPair>)))]
pub async fn grid(
    State(shared): State<Arc<ApiState>>,
    mut params: QueryParams,
) -> Result<Json<Vec<GridPair>>, ApiError> {
    let quantity = params.quantity()?;
    params.reject_rest()?;
    let mut cells = shared.archive.query(move |archive| archive.grid(quantity)).await?;
    cells.retain(|cell| TransferIdentity::of_pair(&cell.pair).is_none());
    Ok(Json(cells))
}

/// The newest rate of every transfer of other programs that was seen in the seven days before the
/// newest, the fastest first. Its pair names its series: one end is `HOST/PROGRAM`, the other the peer. A host
/// has at most 64 of them.
#[utoipa::path(get, path = "/api/v1/transfers", tag = "mesh",
    responses((status = 200, description = "Transfers with their newest rate", body = Vec<GridPair>)))]
pub async fn transfers(
    State(shared): State<Arc<ApiState>>,
    params: QueryParams,
) -> Result<Json<Vec<GridPair>>, ApiError> {
    params.reject_rest()?;
    let mut cells = shared.archive.query(|archive| archive.grid(PathQuantity::Goodput)).await?;
    cells.retain(|cell| TransferIdentity::of_pair(&cell.pair).is_some());
    remove_past_transfers(&mut cells, |it| (&it.pair, it.at_us));
    for cell in &mut cells {
        // The run has a limiter of its busiest transfer only.
        cell.limited_by = None;
    }
    cells.sort_by(|a, b| b.value.unwrap_or(0.0).total_cmp(&a.value.unwrap_or(0.0)));
    Ok(Json(cells))
}

/// The maximum number of sums. Others choose the names of programs and the addresses of peers.
const MAX_DAILY_ROWS: usize = 1000;

/// The bytes of the watched transfers of other programs by day, program and peer, with the share of
/// each limiter. A day that the range touches counts as a whole. Of more than 1000 rows the newest are
/// shown.
#[utoipa::path(get, path = "/api/v1/transfers/daily", tag = "mesh",
    params(
        QueryRange,
        ("host" = Option<String>, Query, description = "Only transfers of hosts with this in their name, in any case", min_length = 1, max_length = 255),
    ),
    responses((status = 200, description = "Sums of transfers that ended on the days of the range", body = DailyTransferList)))]
pub async fn daily_transfers(
    State(shared): State<Arc<ApiState>>,
    mut params: QueryParams,
) -> Result<Json<DailyTransferList>, ApiError> {
    let range = params.range()?;
    let host = params.name("host")?.unwrap_or_default().to_lowercase();
    params.reject_rest()?;
    let list =
        shared.archive.query(move |archive| sum_daily_transfers(archive, range, &host)).await?;
    Ok(Json(list))
}

fn sum_daily_transfers(
    archive: &Archive,
    range: TimeRange,
    host: &str,
) -> Result<DailyTransferList, StoreError> {
    let mut sums = DailyTransferSums::default();
    archive.for_each_transfer_sum(range, |transfers| {
        // A day is read to its end, because its largest sums are shown.
        let has_room =
            sums.len() <= MAX_DAILY_ROWS || sums.first_day() == Some(transfers.day.as_str());
        let named = TransferIdentity::of_pair(&transfers.pair);
        if has_room && named.is_some_and(|it| it.host.to_lowercase().contains(host)) {
            sums.add_transfers(transfers);
        }
        has_room
    })?;
    let mut rows = sums.finish();
    let is_complete = rows.len() <= MAX_DAILY_ROWS;
    rows.truncate(MAX_DAILY_ROWS);
    Ok(DailyTransferList { rows, is_complete })
}

/// Time series of one quantity of one pair: single values if they are few enough, otherwise buckets
/// with minimum and maximum. Empty for an unknown pair.
#[utoipa::path(get, path = "/api/v1/series", tag = "mesh",
    params(
        ("from" = String, Query, description = "Sender", min_length = 1, max_length = 255),
        ("to" = String, Query, description = "Receiver", min_length = 1, max_length = 255),
        ("quantity" = PathQuantity, Query, description = "Quantity"),
        QueryRange,
        ("points" = Option<u32>, Query, description = "Max number of points and buckets; default 1000", minimum = 2, maximum = 100_000),
    ),
    responses((status = 200, description = "The series", body = QuantitySeries)))]
pub async fn series(
    State(shared): State<Arc<ApiState>>,
    mut params: QueryParams,
) -> Result<Json<QuantitySeries>, ApiError> {
    let pair = params.require_pair()?;
    let quantity = params.quantity()?;
    let range = params.range()?;
    let points = params.number("points", 2..=i64::from(MAX_SERIES_POINTS))?;
    let points = u32::try_from(points.unwrap_or(DEFAULT_POINTS)).unwrap_or(MAX_SERIES_POINTS);
    params.reject_rest()?;
    let series =
        shared.archive.query(move |archive| archive.series(&pair, quantity, range, points)).await?;
    Ok(Json(series))
}
