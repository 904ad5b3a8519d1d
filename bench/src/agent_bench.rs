//! The agent's scheduler in virtual time: a mesh of 1000 agents, and one agent with 50 targets.
//!
//! The simulation is an example of the program's package, built like the released program; this
//! module runs it and judges the result.

use super::markdown_table::{MarkdownTable, format_number};
use crate::BenchOutcome;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use xtask::program_runner::{capture_stdout, cargo_command, show_and_run, target_folder};

const LIMIT: Duration = Duration::from_secs(900);
/// The maximum time of one check of the schedule, with everything that it decides.
const CHECK_US_MAX: f64 = 50.0;
/// The maximum length of a full round relative to the runs of a host end to end; it allows for
/// clock differences.
const ROUND_RATIO_MAX: f64 = 1.35;

/// Returns the tables, and a sentence for every missed gate.
pub fn run_all() -> Result<BenchOutcome, String> {
    let build = "build --release --package longhaul --example agent_mesh";
    show_and_run(cargo_command().args(build.split(' ')))?;
    let program = target_folder()?.join("release/examples/agent_mesh");
    let text = capture_stdout(&mut Command::new(program), LIMIT)?;
    let figures: Value =
        serde_json::from_str(&text).map_err(|e| format!("cannot read the figures: {e}"))?;
    let (mesh, star) = (&figures["mesh"], &figures["star"]);
    let mut missed = check_gates(mesh, "mesh");
    missed.extend(check_gates(star, "agent with 50 targets"));
    let ratio = read_figure(mesh, "cycle_us") / read_figure(mesh, "least_us");
    if ratio > ROUND_RATIO_MAX {
        missed.push(format!("a full round takes {ratio:.2} times its lower bound"));
    }
    if mesh["rounds"] != mesh["least_rounds"] {
        missed.push("the mesh takes more rounds than it must".to_owned());
    }
    let tables = [format_mesh_table(mesh), format_star_table(star)];
    Ok(BenchOutcome::new(&tables, missed))
}

fn read_figure(figures: &Value, name: &str) -> f64 {
    figures[name].as_f64().unwrap_or(f64::NAN)
}

fn check_gates(figures: &Value, who: &str) -> Vec<String> {
    let none = |name: &str| figures[name].as_u64() == Some(0);
    let gates = [
        (none("collisions"), "heavy runs collide"),
        (none("missed"), "runs are missed"),
        (figures["planned"] == figures["accounted_for"], "a planned run is lost"),
        (read_figure(figures, "look_us") <= CHECK_US_MAX, "a look takes more than 50 us"),
    ];
    let missed = gates.into_iter().filter(|(held, _)| !held);
    missed.map(|(_, said)| format!("{who}: {said}")).collect()
}

/// Formats figures, each given by its name, the unit of its cell, and the decimals.
fn format_cells(figures: &Value, cells: &[(&str, f64, usize)]) -> Vec<String> {
    let cells = cells.iter().map(|(name, unit, digits)| {
        let value = figures[*name].as_f64().map(|value| value / unit);
        format_number(value, *digits)
    });
    cells.collect()
}

fn format_mesh_table(mesh: &Value) -> MarkdownTable {
    const HOUR_US: f64 = 3.6e9;
    let columns = "agents | heavy runs | directed pairs | collisions | missed | rounds (least) | \
         full round, h | lower bound, h | a look, us | turns worked out, ms";
    let title = "A mesh on virtual time, every pair once both ways";
    let mut table = MarkdownTable::new(title, columns);
    let counts = ["agents", "runs", "pairs", "collisions", "missed"];
    let mut row = format_cells(mesh, &counts.map(|name| (name, 1.0, 0)));
    let rounds = format_cells(mesh, &[("rounds", 1.0, 0), ("least_rounds", 1.0, 0)]);
    row.push(format!("{} ({})", rounds[0], rounds[1]));
    let times = [
        ("cycle_us", HOUR_US, 2),
        ("least_us", HOUR_US, 2),
        ("look_us", 1.0, 1),
        ("arranging_us", 1e3, 0),
    ];
    row.extend(format_cells(mesh, &times));
    table.row(row);
    table
}

fn format_star_table(star: &Value) -> MarkdownTable {
    let columns = "targets | days | runs | collisions | missed | latest heavy start, s | looks | \
         a look, us | of a core";
    let mut table = MarkdownTable::new("One agent with many targets, on virtual time", columns);
    let of_core = read_figure(star, "looks") * read_figure(star, "look_us")
        / (read_figure(star, "days") * 86_400e6);
    let counts = ["targets", "days", "runs", "collisions", "missed"];
    let mut row = format_cells(star, &counts.map(|name| (name, 1.0, 0)));
    let others = [("latest_us", 1e6, 1), ("looks", 1.0, 0), ("look_us", 1.0, 1)];
    row.extend(format_cells(star, &others));
    row.push(format!("{:.5} %", 100.0 * of_core));
    table.row(row);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_figure_that_is_missing_or_bad_misses_its_gate() {
        let good = json!({
            "collisions": 0, "missed": 0, "planned": 5, "accounted_for": 5, "look_us": 3.0,
        });
        assert_eq!(check_gates(&good, "it"), Vec::<String>::new());
        let mut bad = good.clone();
        bad["collisions"] = 1.into();
        assert_eq!(check_gates(&bad, "it"), ["it: heavy runs collide"]);
        assert_eq!(check_gates(&json!({}), "it").len(), 3);
    }
}
