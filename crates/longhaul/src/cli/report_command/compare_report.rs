//! `longhaul report compare`: tests two sets of runs for differences.

use super::run_collection::RunSetReader;
use crate::cli::args::CompareArgs;
use crate::cli::expectation;
use crate::command_failure::CommandFailure;
use longhaul_history::report_comparison::run_set_comparison::compare_run_sets;
use longhaul_model::report::v1::ComparisonReport;
use longhaul_model::report::v1::SCHEMA;
use longhaul_report::run_comparison;
use std::process::ExitCode;

pub fn run(args: &CompareArgs) -> Result<ExitCode, CommandFailure> {
    let mut sets = RunSetReader::new(args);
    let (mut a, mut b) = (sets.read(&args.a)?, sets.read(&args.b)?);
    let compared = compare_run_sets(&mut a, &mut b);
    let [a, b] = compared.sides;
    let report = ComparisonReport {
        schema: SCHEMA.to_owned(),
        kind: String::from("comparison"),
        longhaul: super::LONGHAUL_VERSION.to_owned(),
        a,
        b,
        changes: compared.changes,
        caveats: compared.caveats,
    };
    let document = run_comparison::comparison_document::build_comparison_document(&report);
    super::write_report(&args.written, &report, &document)?;
    let changes = &report.changes;
    let missed =
        args.expect.iter().map(|wanted| (wanted.text.as_str(), wanted.describe_miss(changes)));
    Ok(expectation::report_misses(missed))
}
