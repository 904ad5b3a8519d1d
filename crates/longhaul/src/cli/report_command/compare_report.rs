//! `longhaul report compare`: tests two sets of runs for differences.

use super::report_output;
use super::run_sets::RunSetReader;
use crate::cli::args::CompareArgs;
use crate::command_failure::{CommandFailure, EXPECTATION_MISSED};
use longhaul_history::report_comparison::run_set_comparison::compare_run_sets;
use longhaul_model::report::v1::SCHEMA;
use longhaul_model::report::v1::comparison::{ComparisonReport, QuantityChange};
use longhaul_report::run_comparison;
use longhaul_report::style::{ERROR, paint};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

pub fn run(args: &CompareArgs) -> Result<ExitCode, CommandFailure> {
    report_output::check_output_files(&args.written)?;
    let mut sets = RunSetReader::new(args);
    let (mut a, mut b) = (sets.read(&args.a)?, sets.read(&args.b)?);
    let compared = compare_run_sets(&mut a, &mut b);
    let [a, b] = compared.sides;
    let report = ComparisonReport {
        schema: SCHEMA.to_owned(),
        kind: String::from("comparison"),
        longhaul: report_output::LONGHAUL_VERSION.to_owned(),
        a,
        b,
        changes: compared.changes,
        caveats: compared.caveats,
    };
    let document = |_| run_comparison::comparison_document::build_comparison_document(&report);
    report_output::write_report(&args.written, &json!(report), document)?;
    Ok(report_missed_changes(args, &report.changes))
}

/// Reports every missed expectation.
fn report_missed_changes(args: &CompareArgs, changes: &[QuantityChange]) -> ExitCode {
    let mut missed = false;
    for expectation in &args.expect {
        if let Some(found) = expectation.describe_miss(changes) {
            missed = true;
            let text = format!("{} expected {expectation}; {found}\n", paint(ERROR, "missed:"));
            // The exit code has the result as well.
            let _ = anstream::stderr().write_all(text.as_bytes());
        }
    }
    if missed { ExitCode::from(EXPECTATION_MISSED) } else { ExitCode::SUCCESS }
}
