//! `longhaul report asymmetry`: compares the two directions of paths.

use super::gather::Gathered;
use super::site::ALWAYS;
use super::written;
use crate::cli::args::AsymmetryArgs;
use crate::fail::{ARCHIVE, Fail};
use crate::render::beside;
use longhaul_analysis::beside::asymmetry;
use longhaul_model::report::v1::SCHEMA;
use longhaul_model::report::v1::asymmetry::Asymmetry;
use serde_json::json;
use std::process::ExitCode;

pub fn run(args: &AsymmetryArgs) -> Result<ExitCode, Fail> {
    written::check(&args.written)?;
    let archive = written::archive(&args.archive)?;
    let period = args.period.unwrap_or(ALWAYS);
    let gathered = Gathered::of(&archive, &args.hosts, period)?;
    let most_apart_us = args.within.unsigned_abs();
    let materials = gathered.materials(&args.hosts);
    let all: Vec<_> = materials
        .iter()
        .filter_map(|material| asymmetry::of_path(material, period, most_apart_us))
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
        return Err(nothing());
    }
    let report = Asymmetry {
        schema: SCHEMA.to_owned(),
        kind: String::from("asymmetry"),
        longhaul: written::LONGHAUL.to_owned(),
        most_apart_us,
        paths,
        caveats: gathered.caveats.clone(),
    };
    let document = |figures| beside::asymmetry::document(&report, figures);
    written::write(&args.written, &json!(report), document)?;
    Ok(ExitCode::SUCCESS)
}

fn nothing() -> Fail {
    Fail::new(
        ARCHIVE,
        "no path has bulk runs in both directions in this time",
    )
    .hint(Some(
        "`longhaul test HOST --bidir`, or one run with `-R` and one without, measures both",
    ))
}
