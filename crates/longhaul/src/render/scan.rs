//! A scan as text: the recommendation, its benefit, and every probe.
//!
//! - [`advice`]: the recommended setting, compared with others, and the required host settings
//! - [`probes`]: the probes of a guided search; [`grid`]: the cells of a grid
//! - [`sides`]: comparison of the directions
//! - [`csv`]: one CSV line per probe; [`words`]: formatting of settings

mod advice;
pub mod csv;
mod grid;
mod probes;
mod sides;
pub mod words;

use super::figures::{count_of, grouped};
use super::page::Page;
use super::{text, verdict};
use longhaul_model::report::v1::Scan;
use longhaul_model::report::v1::plan::Direction;
use longhaul_model::report::v1::scan::{Conclusion, Search};

/// Renders the report, from the recommendation to the caveats.
pub fn report(report: &Scan) -> String {
    let mut page = Page::default();
    text::title(&mut page, &report.run);
    page.labelled("scan", &summary(report));
    page.labelled("ended", &ended(report));
    for conclusion in &report.analysis.directions {
        page.blank();
        direction(&mut page, report, conclusion);
    }
    if let Some(asymmetry) = &report.analysis.asymmetry {
        page.blank();
        sides::asymmetry(&mut page, asymmetry);
    }
    verdict::explain_all(&mut page, &report.findings);
    text::caveats(&mut page, &report.caveats);
    text::footer(&mut page, &report.run);
    page.finish()
}

fn direction(page: &mut Page, report: &Scan, conclusion: &Conclusion) {
    if report.plan.direction == Direction::Both {
        page.heading(if conclusion.forward {
            "FORWARD: this end sends"
        } else {
            "REVERSE: the far end sends"
        });
    }
    advice::block(page, &report.run.responder.host, conclusion);
    match report.plan.search {
        Search::Guided => probes::table(page, &report.observation.cells, conclusion),
        Search::Grid => grid::block(page, &report.observation.cells, conclusion),
    }
    advice::needs(page, conclusion);
}

/// Summarizes kind, direction and size of the scan.
fn summary(report: &Scan) -> String {
    let way = match report.plan.direction {
        Direction::Forward => "forward (this end sends)",
        Direction::Reverse => "reverse (the far end sends)",
        Direction::Both => "both directions, one after the other",
    };
    let analysis = &report.analysis;
    let run = count_of(u64::from(analysis.probes_run), "probe");
    let span = words::span(report.run.duration_us);
    match report.plan.search {
        Search::Guided => format!(
            "guided, {way}: {run} in {span}, instead of a grid of {}",
            grouped(u64::from(analysis.grid_cells))
        ),
        Search::Grid => {
            let cells = count_of(u64::from(analysis.grid_cells), "cell");
            format!("grid of {cells}, {way}: {run} in {span}")
        }
    }
}

/// Describes why the scan ended.
fn ended(report: &Scan) -> String {
    match report.analysis.stopped_by.as_str() {
        "settled" => "nothing that may be tried promises more",
        "grid_done" => "every cell is measured",
        "probes" => "one more probe would have passed the budget of probes",
        "time" => "one more probe would have passed the budget of time",
        "bytes" => "one more probe would have passed the budget of payload",
        "far_end_gone" => "before its time: the far end went away",
        "interrupted" => "before its time: it was interrupted",
        "application" => "an application is the limit: no setting of the network helps",
        "policed" => "a policer sets the rate: no setting gets past it",
        "shaped" => "a shaper sets the rate: no setting gets past it",
        other => other,
    }
    .to_owned()
}
