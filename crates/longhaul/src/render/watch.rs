//! The cost of a watch file as text and JSON, and the messages of an agent: at startup ([`begin`])
//! and line by line ([`lines`]).

pub mod begin;
pub mod lines;

use super::figures::{count_of, grouped, percent};
use super::page::Page;
use crate::watch::file::table::span;
use crate::watch::file::{CatchUp, WatchFile};
use crate::watch::forecast::{Forecast, OfMeasure, OfTurns, Share};
use longhaul_model::units::Bytes;
use serde_json::{Value, json};
use std::time::Duration;

/// The number of busiest parts shown.
const SHARES_SHOWN: usize = 3;

pub fn page(file: &WatchFile, costs: &Forecast) -> String {
    let mut page = Page::default();
    page.heading(&format!("watch file of {}: right", file.agent.name));
    page.labelled(
        "targets",
        &format!(
            "{}, {} with their directions",
            count_of(costs.targets as u64, "host"),
            count_of(costs.pairs as u64, "pair")
        ),
    );
    page.labelled(
        "a day",
        &format!(
            "{} runs, at most {}{}",
            whole(costs.runs_per_day),
            Bytes(costs.bytes_per_day),
            budget(file.agent.bytes_per_day)
        ),
    );
    shares(&mut page, &costs.shares);
    if let Some(turns) = &costs.turns {
        page.labelled("mesh", &mesh(turns));
    }
    if let Some((name, length_us)) = &costs.longest_round {
        page.labelled(
            "longest round",
            &format!("{} of heavy runs, `{name}`", time(*length_us)),
        );
    }
    page.labelled("after a gap", late(file.agent.catch_up));
    page.labelled("page and API", &file.agent.listen.to_string());
    page.blank();
    measures(&mut page, &costs.measures);
    for warning in &costs.warnings {
        page.blank();
        page.hanging_in("note: ", warning, super::style::CAVEAT);
    }
    page.finish()
}

fn budget(most: Option<u64>) -> String {
    most.map_or_else(
        || ", no budget".to_owned(),
        |most| format!(" of the {} allowed", Bytes(most)),
    )
}

fn shares(page: &mut Page, shares: &[Share]) {
    for (number, share) in shares.iter().take(SHARES_SHOWN).enumerate() {
        let label = if number == 0 { "busiest" } else { "" };
        let value = format!("{}: {} of the time", share.need, percent(share.share));
        page.labelled(label, &value);
    }
}

fn mesh(turns: &OfTurns) -> String {
    format!(
        "{} agents take turns: {} rounds of {} (no order has fewer than {}), a whole round is {}",
        turns.agents,
        grouped(u64::from(turns.rounds)),
        time(turns.turn_us),
        grouped(u64::from(turns.least_rounds)),
        time(turns.cycle_us)
    )
}

const fn late(rule: CatchUp) -> &'static str {
    match rule {
        CatchUp::Latest => "the latest run of each is made late, older ones are missed",
        CatchUp::None => "runs that nobody saw come due are missed",
    }
}

fn measures(page: &mut Page, measures: &[OfMeasure]) {
    page.line(&format!(
        "{:<18} {:<10} {:>8} {:>8} {:>8} {:>10}",
        "measurement", "kind", "every", "lasts", "runs/day", "bytes/day"
    ));
    for it in measures {
        let name: String = it.name.chars().take(18).collect();
        page.line(&format!(
            "{name:<18} {:<10} {:>8} {:>8} {:>8} {:>10}{}",
            it.kind,
            time(it.every_us),
            time(it.lasts_us),
            whole(it.runs_per_day),
            Bytes(it.bytes_per_day).to_string(),
            if it.heavy { "  heavy" } else { "" },
        ));
    }
}

/// Formats a number of runs: integral from ten on, and never zero for rare runs.
fn whole(number: f64) -> String {
    if number >= 9.95 {
        grouped(number.round() as u64)
    } else {
        format!("{number:.1}").trim_end_matches(".0").to_owned()
    }
}

fn time(us: i64) -> String {
    span(Duration::from_micros(us.unsigned_abs()))
}

/// Returns the cost of a watch file as JSON.
pub fn json(path: &str, file: &WatchFile, costs: &Forecast) -> Value {
    let measures: Vec<Value> = costs.measures.iter().map(measure).collect();
    let shares = costs.shares.iter().take(SHARES_SHOWN);
    let shares: Vec<Value> = shares
        .map(|it| json!({ "part": it.need.to_string(), "share_ratio": it.share }))
        .collect();
    let turns = costs.turns.map(|it| {
        json!({
            "agents": it.agents, "rounds": it.rounds, "least_rounds": it.least_rounds,
            "turn_us": it.turn_us, "cycle_us": it.cycle_us,
        })
    });
    let longest = costs
        .longest_round
        .as_ref()
        .map(|(name, length_us)| json!({ "measure": name, "duration_us": length_us }));
    json!({
        "file": path,
        "problems": [],
        "agent": file.agent.name,
        "targets": costs.targets,
        "pairs": costs.pairs,
        "runs_per_day": costs.runs_per_day,
        "bytes_per_day": costs.bytes_per_day,
        "budget_bytes_per_day": file.agent.bytes_per_day,
        "measures": measures,
        "busiest": shares,
        "mesh": turns,
        "longest_round": longest,
        "warnings": costs.warnings,
    })
}

fn measure(it: &OfMeasure) -> Value {
    json!({
        "name": it.name, "kind": it.kind, "heavy": it.heavy, "every_us": it.every_us,
        "runs": it.runs, "lasts_us": it.lasts_us, "runs_per_day": it.runs_per_day,
        "bytes_per_day": it.bytes_per_day, "most_bytes": it.most_bytes,
        "budget_bytes_per_day": it.budget_bytes,
    })
}
