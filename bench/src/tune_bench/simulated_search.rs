//! The search on 600 simulated paths with known truth, against alternative strategies.

use crate::markdown_table::{MarkdownTable, format_number};
use crate::{BenchOutcome, list_missed};
use longhaul_accuracy::StrategyAccuracy;

/// The name of this part in `--only`.
pub const NAME: &str = "simulated paths";
/// A fixed seed, so that the effect of a change of the search is visible.
const SEED: u64 = 1;
/// The minimum shares of the paths.
const AT_LEAST_95_MIN: f64 = 0.92;
const WITHIN_8_PROBES_MIN: f64 = 0.9;
const MEAN_PROBES_MAX: f64 = 7.0;

/// Returns the table, and a sentence for every missed gate.
pub fn judge_strategies() -> BenchOutcome {
    let columns = "strategy | paths | ≥ 95 % of the optimum | ≥ 90 % | worst 5 % | probes | \
         p90 | within 8";
    let mut table = MarkdownTable::new("Tuning on simulated paths", columns);
    let own = longhaul_accuracy::evaluate_guided_search(SEED);
    table.row(format_row(&own));
    for rival in longhaul_accuracy::evaluate_rival_strategies(SEED) {
        table.row(format_row(&rival));
    }
    BenchOutcome::new(&[table], check_gates(&own))
}

fn format_row(it: &StrategyAccuracy) -> Vec<String> {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    vec![
        it.strategy.to_owned(),
        it.paths.to_string(),
        percent(it.at_least_95),
        percent(it.at_least_90),
        format_number(Some(it.worst_5_percent), 2),
        format_number(Some(it.mean_probes), 1),
        format_number(Some(it.p90_probes), 0),
        percent(it.share_within_8_probes),
    ]
}

fn check_gates(it: &StrategyAccuracy) -> Vec<String> {
    let (good, few) = (100.0 * it.at_least_95, 100.0 * it.share_within_8_probes);
    let paths = "of simulated paths";
    list_missed([
        (
            it.at_least_95 >= AT_LEAST_95_MIN,
            format!("≥ 95 % of the optimum on {good:.1} % {paths}; at least 92 %"),
        ),
        (
            it.mean_probes <= MEAN_PROBES_MAX,
            format!("{:.1} probes on simulated paths on average; at most 7", it.mean_probes),
        ),
        (
            it.share_within_8_probes >= WITHIN_8_PROBES_MIN,
            format!("at most 8 probes on {few:.1} % {paths}; at least 90 %"),
        ),
    ])
}
