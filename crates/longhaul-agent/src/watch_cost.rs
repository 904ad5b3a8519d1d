//! The cost of a watch file as text and JSON.

use crate::watch::watch_file::{CatchUpPolicy, ServeSection, WatchFile};
use crate::watch::watch_forecast::{MeasureForecast, MeshForecast, ResourceShare, WatchForecast};
use longhaul_config::config_values::format_long_duration;
use longhaul_model::units::Bytes;
use longhaul_report::document::{DocumentTable, ReportDocument, left, right};
use longhaul_report::number_format::{count_of, format_grouped, format_percent};
use serde_json::{Value, json};
use std::time::Duration;

pub fn build_watch_cost_document(file: &WatchFile, costs: &WatchForecast) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(3, format!("watch file of {}: valid", file.agent.name));
    page.fact(
        "targets",
        format!(
            "{}, {} (each direction counts)",
            count_of(costs.targets as u64, "host"),
            count_of(costs.pairs as u64, "pair")
        ),
    );
    page.fact(
        "per day",
        format!(
            "{} runs, up to {}{}",
            format_count(costs.runs_per_day),
            Bytes(costs.bytes_per_day),
            describe_budget(file.agent.bytes_per_day)
        ),
    );
    page.facts("busiest", costs.shares.iter().map(describe_share));
    if let Some(turns) = &costs.mesh {
        page.fact("mesh", describe_mesh(turns));
    }
    if let Some(round) = &costs.longest_round {
        let span = format_span(round.duration_us);
        page.fact("longest round", format!("{span} of heavy runs, `{}`", round.measure));
    }
    page.fact("after a gap", describe_catch_up(file.agent.catch_up));
    page.fact("page and API", file.agent.listen.to_string());
    if let Some(serve) = &file.serve {
        page.fact("server", describe_server(serve));
    }
    page.gap();
    write_measures(&mut page, &costs.measures);
    for warning in &costs.warnings {
        page.gap();
        page.styled_item("note: ", warning, longhaul_report::style::CAVEAT);
    }
    page
}

fn describe_budget(most: Option<u64>) -> String {
    most.map_or_else(|| ", no budget".to_owned(), |most| format!(" of a budget of {}", Bytes(most)))
}

fn describe_share(share: &ResourceShare) -> String {
    let busy = format_percent(share.share);
    format!("{}: {busy} of the time", share.resource)
}

fn describe_mesh(turns: &MeshForecast) -> String {
    format!(
        "{} agents in turn: {} rounds of {} (minimum {}), full cycle {}",
        turns.agents,
        format_grouped(u64::from(turns.rounds)),
        format_span(turns.turn_us),
        format_grouped(u64::from(turns.min_rounds)),
        format_span(turns.cycle_us)
    )
}

fn describe_server(serve: &ServeSection) -> String {
    let clients = match (&serve.token_file, serve.token_only) {
        (None, _) => "no token, all clients have the anonymous limits",
        (_, true) => "clients with the token only",
        (_, false) => "clients without the token have the anonymous limits",
    };
    format!("{}, TCP and UDP; {clients}", serve.listen)
}

const fn describe_catch_up(rule: CatchUpPolicy) -> &'static str {
    match rule {
        CatchUpPolicy::Latest => "the latest run of each is made late, older runs are skipped",
        CatchUpPolicy::None => "runs due while no agent was running are skipped",
    }
}

fn write_measures(page: &mut ReportDocument, measures: &[MeasureForecast]) {
    let mut table = DocumentTable::new([
        left("measurement"),
        left("kind"),
        right("every"),
        right("lasts"),
        right("runs/day"),
        right("bytes/day"),
        left(""),
    ]);
    for it in measures {
        table.row([
            it.name.clone(),
            it.kind.to_string(),
            format_span(it.every_us),
            format_span(it.max_duration_us),
            format_count(it.runs_per_day),
            Bytes(it.bytes_per_day).to_string(),
            String::from(if it.heavy { "heavy" } else { "" }),
        ]);
    }
    page.table(table);
}

/// Formats a number of runs: integral from ten on, and never zero for rare runs.
fn format_count(number: f64) -> String {
    if number >= 9.95 {
        format_grouped(number.round() as u64)
    } else {
        format!("{number:.1}").trim_end_matches(".0").to_owned()
    }
}

fn format_span(us: i64) -> String {
    format_long_duration(Duration::from_micros(us.unsigned_abs()))
}

/// Returns the cost of a watch file as JSON.
pub fn watch_cost_to_json(path: &str, file: &WatchFile, costs: &WatchForecast) -> Value {
    let mut json = json!(costs);
    json["file"] = json!(path);
    json["problems"] = json!([]);
    json["agent"] = json!(file.agent.name);
    json["serve"] = json!(file.serve.as_ref().map(|it| json!({ "listen": it.listen })));
    json["budget_bytes_per_day"] = json!(file.agent.bytes_per_day);
    json
}
