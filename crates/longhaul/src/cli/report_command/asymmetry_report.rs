//! `longhaul report asymmetry`: compares the two directions of paths.

use super::report_output;
use super::run_collection::RunCollection;
use super::site_report::ALL_TIME;
use crate::cli::args::AsymmetryArgs;
use crate::command_failure::{ARCHIVE, CommandFailure};
use longhaul_history::report_comparison::direction_asymmetry;
use longhaul_model::report::v1::SCHEMA;
use longhaul_model::report::v1::asymmetry::AsymmetryReport;
use longhaul_report::run_comparison;
use serde_json::json;
use std::process::ExitCode;

pub fn run(args: &AsymmetryArgs) -> Result<ExitCode, CommandFailure> {
    report_output::check_output_files(&args.written)?;
    let archive = report_output::open_existing_archive(&args.archive)?;
    let period = args.period.unwrap_or(ALL_TIME);
    let gathered = RunCollection::read(&archive, &args.hosts, period)?;
    let most_apart_us = args.within.unsigned_abs();
    let materials = gathered.materials(&args.hosts);
    let all: Vec<_> = materials
        .iter()
        .filter_map(|material| {
            direction_asymmetry::compare_directions(material, period, most_apart_us)
        })
        .collect();
    // Without hosts, paths measured in one direction only are skipped; with hosts they are shown.
    let both = |unmatched: [u32; 2], matched: usize| {
        matched > 0 || !args.hosts.is_empty() || unmatched.iter().all(|count| *count > 0)
    };
    let paths: Vec<_> = all
        .into_iter()
        .filter(|path| both(path.unmatched_run_counts, path.matched.len()))
        .collect();
    if paths.is_empty() {
        return Err(no_path_failure());
    }
    let report = AsymmetryReport {
        schema: SCHEMA.to_owned(),
        kind: String::from("asymmetry"),
        longhaul: report_output::LONGHAUL_VERSION.to_owned(),
        most_apart_us,
        paths,
        caveats: gathered.caveats.clone(),
    };
    let document =
        |figures| run_comparison::asymmetry_document::build_asymmetry_document(&report, figures);
    report_output::write_report(&args.written, &json!(report), document)?;
    Ok(ExitCode::SUCCESS)
}

fn no_path_failure() -> CommandFailure {
    CommandFailure::new(
        ARCHIVE,
        "cannot compare directions: no path has throughput runs in both in this period",
    )
    .hint(Some(
        "measure both with `longhaul test HOST --bidir`, or with one run with `-R` and one without",
    ))
}
