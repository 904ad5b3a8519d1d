//! `longhaul report asymmetry`: compares the two directions of paths.

use super::run_collection::RunCollection;
use super::site_report::ALL_TIME;
use crate::cli::args::AsymmetryArgs;
use crate::command_failure::{ARCHIVE, CommandFailure};
use longhaul_history::report_comparison::direction_asymmetry;
use longhaul_model::report::v1::SCHEMA;
use longhaul_model::report::v1::{AsymmetryReport, PathAsymmetry};
use longhaul_report::run_comparison;

pub fn run(args: &AsymmetryArgs) -> Result<(), CommandFailure> {
    let archive = super::open_existing_archive(&args.site.archive)?;
    let period = args.site.period.unwrap_or(ALL_TIME);
    let gathered = RunCollection::read(&archive, &args.site.hosts, period)?;
    let most_apart_us = args.within.unsigned_abs();
    let materials = gathered.materials(&args.site.hosts);
    // Without hosts, paths measured in one direction only are skipped; with hosts they are shown.
    let shown = |path: &PathAsymmetry| {
        let both = path.unmatched_run_counts.iter().all(|count| *count > 0);
        !path.matched.is_empty() || !args.site.hosts.is_empty() || both
    };
    let paths: Vec<_> = materials
        .iter()
        .filter_map(|path| direction_asymmetry::compare_directions(path, period, most_apart_us))
        .filter(shown)
        .collect();
    if paths.is_empty() {
        let text = "cannot compare directions: no path has throughput runs in both in this period";
        return Err(CommandFailure::new(ARCHIVE, text).hint(Some(
            "measure both with `longhaul test HOST --bidir`, or with one run with `-R` and one \
             without",
        )));
    }
    let report = AsymmetryReport {
        schema: SCHEMA.to_owned(),
        kind: String::from("asymmetry"),
        longhaul: super::LONGHAUL_VERSION.to_owned(),
        most_apart_us,
        paths,
        caveats: gathered.caveats.clone(),
    };
    let document = run_comparison::asymmetry_document::build_asymmetry_document(&report);
    super::write_report(&args.site.written, &report, &document)
}
