//! `longhaul report site`: shows all paths of the archive.

use super::run_collection::RunCollection;
use crate::cli::args::SiteArgs;
use crate::command_failure::CommandFailure;
use longhaul_history::report_comparison::site_summary;
use longhaul_model::report::v1::SCHEMA;
use longhaul_model::report::v1::TimePeriod;
use longhaul_model::report::v1::{SitePath, SiteReport};
use longhaul_report::run_comparison;

/// The period of everything in the archive.
pub const ALL_TIME: TimePeriod = TimePeriod { begin_us: 0, end_us: i64::MAX };

pub fn run(args: &SiteArgs) -> Result<(), CommandFailure> {
    let archive = super::open_existing_archive(&args.archive)?;
    let period = args.period.unwrap_or(ALL_TIME);
    let gathered = RunCollection::read(&archive, &args.hosts, period)?;
    let materials = gathered.materials(&args.hosts);
    let paths: Vec<SitePath> = materials
        .iter()
        .flat_map(|material| site_summary::summarize_path(material, period))
        .collect();
    let report = SiteReport {
        schema: SCHEMA.to_owned(),
        kind: String::from("site"),
        longhaul: super::LONGHAUL_VERSION.to_owned(),
        period: args.period.or_else(|| measured_period(&gathered)),
        paths,
        caveats: gathered.caveats.clone(),
    };
    let document = run_comparison::site_document::build_site_document(&report);
    super::write_report(&args.written, &report, &document)
}

/// Returns the period from the first run or value to the last.
fn measured_period(gathered: &RunCollection) -> Option<TimePeriod> {
    let runs = gathered.runs.iter().map(|run| run.at_us);
    let series = gathered.series.iter();
    let values = series.flat_map(|series| {
        let points = series.points.iter().map(|point| point.at_us);
        points.chain(series.buckets.iter().map(|bucket| bucket.at_us))
    });
    let times = || runs.clone().chain(values.clone());
    Some(TimePeriod { begin_us: times().min()?, end_us: times().max()?.saturating_add(1) })
}
