//! Comparison of the two directions of paths.

use super::change_format;
use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{count_of, format_difference, format_micros, format_rate};
use longhaul_model::report::v1::scan::HistogramBin;
use longhaul_model::report::v1::{AsymmetryReport, AsymmetryVerdict, PathAsymmetry};

/// The maximum number of matched runs in a table; the latest are shown.
const MAX_ROWS: usize = 24;
/// Width of the longest bar.
const BAR: u64 = 40;

/// Builds the document.
pub fn build_asymmetry_document(asymmetry: &AsymmetryReport) -> ReportDocument {
    let title = match asymmetry.paths.as_slice() {
        [path] => format!("{} and back", change_format::format_pair(&path.pair)),
        _ => String::from("Asymmetry of paths"),
    };
    let mut document = ReportDocument::from_archive(title, &asymmetry.longhaul);
    document.faint(format!(
        "Forward goodput divided by reverse goodput, for runs no more than {} apart.",
        format_micros(asymmetry.most_apart_us)
    ));
    document.caveats(&asymmetry.caveats);
    for path in &asymmetry.paths {
        document.heading(2, change_format::format_pair(&path.pair));
        add_path(&mut document, path);
    }
    document
}

fn add_path(document: &mut ReportDocument, path: &PathAsymmetry) {
    document.paragraph(describe_ratio(path));
    let alone: u32 = path.unmatched_run_counts.iter().sum();
    if alone > 0 {
        let [there, back] = path.unmatched_run_counts;
        document.faint(format!(
            "{} without a match: {there} forward, {back} reverse.",
            count_of(u64::from(alone), "run")
        ));
    }
    if !path.matched.is_empty() {
        document.heading(3, "(forward - reverse) / (forward + reverse)");
        if let Some(table) = build_histogram(&path.histogram) {
            document.table(table);
        }
        document.heading(3, "Runs");
        document.table(build_run_table(path));
    }
    document.findings(&path.causes);
}

fn describe_ratio(path: &PathAsymmetry) -> String {
    let Some(ratio) = path.median_ratio else {
        return String::from("No forward and reverse runs are close enough in time.");
    };
    let interval = path
        .median_interval_ratio
        .map_or_else(String::new, |[low, high]| format!(", 95 % interval {low:.2} to {high:.2}"));
    let told = match path.verdict {
        AsymmetryVerdict::ForwardFaster => "forward is faster",
        AsymmetryVerdict::ReverseFaster => "reverse is faster",
        AsymmetryVerdict::NoneSeen => "no significant difference",
        AsymmetryVerdict::CannotTell => "too few runs to tell; at least 6 pairs are needed",
    };
    let p = path.p_value.map_or_else(String::new, |p| {
        format!(" (sign test, p {})", change_format::format_probability(Some(p)))
    });
    format!(
        "Forward goodput is {ratio:.2} times reverse goodput, median of {}{interval}: {told}{p}.",
        count_of(path.matched.len() as u64, "matched pair")
    )
}

/// Returns a row per bin, without the empty bins at both ends.
pub fn build_histogram(bins: &[HistogramBin]) -> Option<DocumentTable> {
    let most = bins.iter().map(|bin| bin.cells).max().unwrap_or(0).max(1);
    let filled = |bin: &HistogramBin| bin.cells > 0;
    let (first, last) = (bins.iter().position(filled)?, bins.iter().rposition(filled)?);
    let bar = |bin: &HistogramBin| {
        let long = (u64::from(bin.cells) * BAR).div_ceil(u64::from(most));
        "█".repeat(long as usize)
    };
    let range = |bin: &HistogramBin| {
        let [from, to] = [bin.from_ratio, bin.to_ratio].map(|ratio| format_difference(ratio, 2));
        format!("{from} to {to}")
    };
    let table = DocumentTable::from_rows(&bins[first..=last])
        .number("asymmetry", range)
        .number("number", |bin| bin.cells.to_string())
        .text("", bar)
        .finish();
    Some(table)
}

fn build_run_table(path: &PathAsymmetry) -> DocumentTable {
    let hidden = path.matched.len().saturating_sub(MAX_ROWS);
    DocumentTable::from_rows(&path.matched[hidden..])
        .text("when", |it| change_format::format_moment(it.at_us))
        .number("forward", |it| format_rate(it.forward_bps))
        .number("reverse", |it| format_rate(it.reverse_bps))
        .number("ratio", |it| format!("{:.2}", it.forward_by_reverse_ratio))
        .number("apart", |it| format_time_apart(it.apart_us))
        .finish()
}

/// Formats the time between two runs; runs of one report have none.
fn format_time_apart(us: i64) -> String {
    match us {
        0 => String::from("0 s"),
        us => format_micros(us.unsigned_abs()),
    }
}
