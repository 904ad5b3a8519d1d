//! Information about the agent.

use super::Shared;
use super::asked::Asked;
use super::fault::Fault;
use super::shape::agent::{About, AgentAbout, ArchiveAbout};
use crate::cli::filing::rfc3339;
use crate::watch::file::WatchFile;
use crate::watch::{DAY_US, jobs};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use jiff::Timestamp;
use longhaul_store::watched::Range;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The agent: version, archive, and today's runs.
#[utoipa::path(get, path = "/api/v1/about", tag = "agent",
    responses((status = 200, description = "The agent", body = About)))]
pub async fn about(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    asked: Asked,
) -> Result<Json<About>, Fault> {
    asked.done()?;
    let today = today(now_us());
    let (archive, counts) = shared
        .readers
        .ask(move |archive| Ok((archive.about()?, archive.planned_counts(today)?)))
        .await?;
    let file = shared.desk.file();
    Ok(Json(About {
        longhaul: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: at(shared.desk.started_us),
        archive: ArchiveAbout {
            kind: archive.kind.to_owned(),
            bytes: archive.bytes,
        },
        agent: AgentAbout {
            name: file.agent.name.clone(),
            targets: targets(&file),
            planned_today: counts.planned(),
            missed_today: counts.missed,
            takes_orders: shared.gate.may_order(&headers).is_ok(),
        },
    }))
}

/// Returns the number of hosts that the agent measures.
fn targets(file: &WatchFile) -> u64 {
    let far = file.measures.iter();
    let far: BTreeSet<usize> = far.flat_map(|it| jobs::far_hosts(file, it)).collect();
    far.len() as u64
}

pub fn now_us() -> i64 {
    Timestamp::now().as_microsecond()
}

/// Returns the UTC day that contains `now_us`.
pub fn today(now_us: i64) -> Range {
    let begin_us = now_us - now_us.rem_euclid(DAY_US);
    Range {
        begin_us,
        end_us: begin_us + DAY_US,
    }
}

fn at(us: i64) -> String {
    Timestamp::from_microsecond(us).map_or_else(|_| String::new(), rfc3339)
}
