//! Pairs, the grid of their newest values, and time series.

use super::Shared;
use super::asked::{Asked, Span};
use super::fault::Fault;
use super::shape::mesh::{GridCell, Pair, Quantity, Series};
use axum::Json;
use axum::extract::State;
use longhaul_store::watched::limits::SERIES_MAX;
use std::sync::Arc;

/// The default number of points: a chart as wide as a usual screen.
const POINTS: i64 = 1000;

/// All pairs that have values or planned runs, by name.
#[utoipa::path(get, path = "/api/v1/pairs", tag = "mesh",
    responses((status = 200, description = "Pairs", body = Vec<Pair>)))]
pub async fn pairs(
    State(shared): State<Arc<Shared>>,
    asked: Asked,
) -> Result<Json<Vec<Pair>>, Fault> {
    asked.done()?;
    let pairs = shared.readers.ask(|archive| archive.pairs()).await?;
    Ok(Json(pairs.into_iter().map(Pair::from).collect()))
}

/// The newest value of one quantity for every pair.
#[utoipa::path(get, path = "/api/v1/grid", tag = "mesh",
    params(("quantity" = Quantity, Query, description = "Which quantity")),
    responses((status = 200, description = "Pairs with their newest value", body = Vec<GridCell>)))]
pub async fn grid(
    State(shared): State<Arc<Shared>>,
    mut asked: Asked,
) -> Result<Json<Vec<GridCell>>, Fault> {
    let quantity = asked.quantity()?;
    asked.done()?;
    let cells = shared
        .readers
        .ask(move |archive| archive.grid(quantity))
        .await?;
    Ok(Json(cells.into_iter().map(GridCell::from).collect()))
}

/// Time series of one quantity of one pair: single values if they are few enough, otherwise buckets
/// with minimum and maximum. Empty for an unknown pair.
#[utoipa::path(get, path = "/api/v1/series", tag = "mesh",
    params(
        ("from" = String, Query, description = "Sender", min_length = 1, max_length = 255),
        ("to" = String, Query, description = "Receiver", min_length = 1, max_length = 255),
        ("quantity" = Quantity, Query, description = "Which quantity"),
        Span,
        ("points" = Option<u32>, Query, description = "Points and buckets at most; usually 1000", minimum = 2, maximum = 100_000),
    ),
    responses((status = 200, description = "The series", body = Series)))]
pub async fn series(
    State(shared): State<Arc<Shared>>,
    mut asked: Asked,
) -> Result<Json<Series>, Fault> {
    let pair = asked.must_pair()?;
    let quantity = asked.quantity()?;
    let range = asked.range()?;
    let points = asked.number("points", 2..=i64::from(SERIES_MAX))?;
    let points = u32::try_from(points.unwrap_or(POINTS)).unwrap_or(SERIES_MAX);
    asked.done()?;
    let series = shared
        .readers
        .ask(move |archive| archive.series(&pair, quantity, range, points))
        .await?;
    Ok(Json(series.into()))
}
