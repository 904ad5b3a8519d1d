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
    show_and_run(cargo_command().args([
        "build",
        "--release",
        "--package",
        "longhaul",
        "--example",
        "agent_mesh",
    ]))?;
    let program = target_folder()?.join("release/examples/agent_mesh");
    let text = capture_stdout(&mut Command::new(program), LIMIT)?;
    let figures: Value =
        serde_json::from_str(&text).map_err(|e| format!("cannot read the figures: {e}"))?;
    let (mesh, star) = (&figures["mesh"], &figures["star"]);
    let mut missed = check_gates(mesh, "mesh");
    missed.extend(check_gates(star, "agent with 50 targets"));
    let ratio = read_figure(mesh, "cycle_us") / read_figure(mesh, "least_us");
    if ratio > ROUND_RATIO_MAX {
        missed.push(format!(
            "a full round takes {ratio:.2} times its lower bound"
        ));
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
        (
            figures["planned"] == figures["accounted_for"],
            "a planned run is lost",
        ),
        (
            read_figure(figures, "look_us") <= CHECK_US_MAX,
            "a look takes more than 50 us",
        ),
    ];
    let missed = gates.into_iter().filter(|(held, _)| !held);
    missed.map(|(_, said)| format!("{who}: {said}")).collect()
}

fn format_cell(figures: &Value, name: &str, per: f64, digits: usize) -> String {
    let value = figures[name].as_f64().map(|value| value / per);
    format_number(value, digits)
}

fn format_mesh_table(mesh: &Value) -> MarkdownTable {
    const HOUR_US: f64 = 3.6e9;
    let columns = "agents | heavy runs | directed pairs | collisions | missed | rounds (least) | \
         full round, h | lower bound, h | a look, us | turns worked out, ms";
    let mut table =
        MarkdownTable::new("A mesh on virtual time, every pair once both ways", columns);
    table.row(vec![
        format_cell(mesh, "agents", 1.0, 0),
        format_cell(mesh, "runs", 1.0, 0),
        format_cell(mesh, "pairs", 1.0, 0),
        format_cell(mesh, "collisions", 1.0, 0),
        format_cell(mesh, "missed", 1.0, 0),
        format!(
            "{} ({})",
            format_cell(mesh, "rounds", 1.0, 0),
            format_cell(mesh, "least_rounds", 1.0, 0)
        ),
        format_cell(mesh, "cycle_us", HOUR_US, 2),
        format_cell(mesh, "least_us", HOUR_US, 2),
        format_cell(mesh, "look_us", 1.0, 1),
        format_cell(mesh, "arranging_us", 1e3, 0),
    ]);
    table
}

fn format_star_table(star: &Value) -> MarkdownTable {
    let columns = "targets | days | runs | collisions | missed | latest heavy start, s | looks | \
         a look, us | of a core";
    let mut table = MarkdownTable::new("One agent with many targets, on virtual time", columns);
    let of_core = read_figure(star, "looks") * read_figure(star, "look_us")
        / (read_figure(star, "days") * 86_400e6);
    table.row(vec![
        format_cell(star, "targets", 1.0, 0),
        format_cell(star, "days", 1.0, 0),
        format_cell(star, "runs", 1.0, 0),
        format_cell(star, "collisions", 1.0, 0),
        format_cell(star, "missed", 1.0, 0),
        format_cell(star, "latest_us", 1e6, 1),
        format_cell(star, "looks", 1.0, 0),
        format_cell(star, "look_us", 1.0, 1),
        format!("{:.5} %", 100.0 * of_core),
    ]);
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
