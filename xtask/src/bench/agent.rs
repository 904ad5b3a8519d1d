//! The agent's scheduler in virtual time: a mesh of 1000 agents, and one agent with 50 targets.
//!
//! The simulation is an example of the program's package, built like the released program; this
//! module runs it and judges the result.

use super::table::{Table, number};
use crate::process::{cargo, show_and_run, stdout_of, target_folder};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(900);
/// The maximum time of one check of the schedule, with everything that it decides.
const LOOK_US_MAX: f64 = 50.0;
/// The maximum length of a full round relative to the runs of a host end to end; it allows for
/// clock differences.
const ROUND_RATIO_MAX: f64 = 1.35;

/// Returns the tables, and a sentence for every missed gate.
pub fn run_all() -> Result<(Vec<Table>, Vec<String>), String> {
    show_and_run(cargo().args([
        "build",
        "--release",
        "--package",
        "longhaul",
        "--example",
        "agent_mesh",
    ]))?;
    let program = target_folder()?.join("release/examples/agent_mesh");
    let text = stdout_of(&mut Command::new(program), LIMIT)?;
    let figures: Value =
        serde_json::from_str(&text).map_err(|e| format!("cannot read the figures: {e}"))?;
    let (mesh, star) = (&figures["mesh"], &figures["star"]);
    let mut missed = gates(mesh, "mesh");
    missed.extend(gates(star, "agent with 50 targets"));
    let ratio = read(mesh, "cycle_us") / read(mesh, "least_us");
    if ratio > ROUND_RATIO_MAX {
        missed.push(format!(
            "a full round takes {ratio:.2} times its lower bound"
        ));
    }
    if mesh["rounds"] != mesh["least_rounds"] {
        missed.push("the mesh takes more rounds than it must".to_owned());
    }
    Ok((vec![of_mesh(mesh), of_star(star)], missed))
}

fn read(figures: &Value, name: &str) -> f64 {
    figures[name].as_f64().unwrap_or(f64::NAN)
}

fn gates(figures: &Value, who: &str) -> Vec<String> {
    let none = |name: &str| figures[name].as_u64() == Some(0);
    let gates = [
        (none("collisions"), "heavy runs collide"),
        (none("missed"), "runs are missed"),
        (
            figures["planned"] == figures["accounted_for"],
            "a planned run is lost",
        ),
        (
            read(figures, "look_us") <= LOOK_US_MAX,
            "a look takes more than 50 us",
        ),
    ];
    let missed = gates.into_iter().filter(|(held, _)| !held);
    missed.map(|(_, said)| format!("{who}: {said}")).collect()
}

fn cell(figures: &Value, name: &str, per: f64, digits: usize) -> String {
    let value = figures[name].as_f64().map(|value| value / per);
    number(value, digits)
}

fn of_mesh(mesh: &Value) -> Table {
    const HOUR_US: f64 = 3.6e9;
    let columns = [
        "agents",
        "heavy runs",
        "directed pairs",
        "collisions",
        "missed",
        "rounds (least)",
        "full round, h",
        "lower bound, h",
        "a look, us",
        "turns worked out, ms",
    ];
    let mut table = Table::new(
        "A mesh on virtual time, every pair once both ways",
        &columns,
    );
    table.row(vec![
        cell(mesh, "agents", 1.0, 0),
        cell(mesh, "runs", 1.0, 0),
        cell(mesh, "pairs", 1.0, 0),
        cell(mesh, "collisions", 1.0, 0),
        cell(mesh, "missed", 1.0, 0),
        format!(
            "{} ({})",
            cell(mesh, "rounds", 1.0, 0),
            cell(mesh, "least_rounds", 1.0, 0)
        ),
        cell(mesh, "cycle_us", HOUR_US, 2),
        cell(mesh, "least_us", HOUR_US, 2),
        cell(mesh, "look_us", 1.0, 1),
        cell(mesh, "arranging_us", 1e3, 0),
    ]);
    table
}

fn of_star(star: &Value) -> Table {
    let columns = [
        "targets",
        "days",
        "runs",
        "collisions",
        "missed",
        "latest heavy start, s",
        "looks",
        "a look, us",
        "of a core",
    ];
    let mut table = Table::new("One agent with many targets, on virtual time", &columns);
    let of_core = read(star, "looks") * read(star, "look_us") / (read(star, "days") * 86_400e6);
    table.row(vec![
        cell(star, "targets", 1.0, 0),
        cell(star, "days", 1.0, 0),
        cell(star, "runs", 1.0, 0),
        cell(star, "collisions", 1.0, 0),
        cell(star, "missed", 1.0, 0),
        cell(star, "latest_us", 1e6, 1),
        cell(star, "looks", 1.0, 0),
        cell(star, "look_us", 1.0, 1),
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
        assert_eq!(gates(&good, "it"), Vec::<String>::new());
        let mut bad = good.clone();
        bad["collisions"] = 1.into();
        assert_eq!(gates(&bad, "it"), ["it: heavy runs collide"]);
        assert_eq!(gates(&json!({}), "it").len(), 3);
    }
}
