//! `longhaul report site`: shows all paths of the archive.

use super::gather::Gathered;
use super::written;
use crate::cli::args::SiteArgs;
use crate::fail::Fail;
use crate::render::beside;
use longhaul_analysis::beside::site;
use longhaul_model::report::v1::SCHEMA;
use longhaul_model::report::v1::comparison::Period;
use longhaul_model::report::v1::site::{Site, SitePath};
use serde_json::json;
use std::process::ExitCode;

/// The period of everything in the archive.
pub const ALWAYS: Period = Period {
    begin_us: 0,
    end_us: i64::MAX,
};

pub fn run(args: &SiteArgs) -> Result<ExitCode, Fail> {
    written::check(&args.written)?;
    let archive = written::archive(&args.archive)?;
    let period = args.period.unwrap_or(ALWAYS);
    let gathered = Gathered::of(&archive, &args.hosts, period)?;
    let materials = gathered.materials(&args.hosts);
    let paths: Vec<SitePath> = materials
        .iter()
        .flat_map(|material| site::of_path(material, period))
        .collect();
    let report = Site {
        schema: SCHEMA.to_owned(),
        kind: String::from("site"),
        longhaul: written::LONGHAUL.to_owned(),
        period: args.period.or_else(|| spanned(&gathered)),
        paths,
        caveats: gathered.caveats.clone(),
    };
    let document = |_| beside::site::document(&report);
    written::write(&args.written, &json!(report), document)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the period from the first run or value to the last.
fn spanned(gathered: &Gathered) -> Option<Period> {
    let runs = gathered.runs.iter().map(|run| run.at_us);
    let series = gathered.series.iter();
    let values = series.flat_map(|series| {
        let points = series.points.iter().map(|point| point.at_us);
        points.chain(series.buckets.iter().map(|bucket| bucket.at_us))
    });
    let times = || runs.clone().chain(values.clone());
    Some(Period {
        begin_us: times().min()?,
        end_us: times().max()?.saturating_add(1),
    })
}
