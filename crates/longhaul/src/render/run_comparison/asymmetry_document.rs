//! Comparison of the two directions of paths.

use super::add_caveats;
use super::change_format;
use crate::plot;
use crate::render::document::{ColumnAlign, DocumentPart, DocumentTable, ReportDocument};
use crate::render::number_format::{count_of, format_micros, format_rate};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::asymmetry::{AsymmetryReport, AsymmetryVerdict, PathAsymmetry};

/// The maximum number of matched runs in a table; the latest are shown.
const MAX_ROWS: usize = 24;
/// Width of the longest bar.
const BAR: u32 = 40;

/// Builds the document; `number_format` adds drawings.
pub fn build_asymmetry_document(asymmetry: &AsymmetryReport, figures: bool) -> ReportDocument {
    let title = match asymmetry.paths.as_slice() {
        [path] => format!("{} and back", change_format::format_pair(&path.pair)),
        _ => String::from("Asymmetry of paths"),
    };
    let mut document = ReportDocument {
        title,
        foot: format!("longhaul {} from its archive", asymmetry.longhaul),
        parts: Vec::new(),
    };
    document.faint(format!(
        "Goodput forward by goodput in reverse, of runs no more than {} apart.",
        format_micros(asymmetry.most_apart_us)
    ));
    add_caveats(&mut document, &asymmetry.caveats);
    for path in &asymmetry.paths {
        document.heading(2, change_format::format_pair(&path.pair));
        add_path(&mut document, path, figures);
    }
    document
}

fn add_path(document: &mut ReportDocument, path: &PathAsymmetry, figures: bool) {
    document.paragraph(describe_ratio(path));
    let alone: u32 = path.unmatched_run_counts.iter().sum();
    if alone > 0 {
        let [there, back] = path.unmatched_run_counts;
        document.faint(format!(
            "{} without a partner in time: {there} forward, {back} in reverse.",
            count_of(u64::from(alone), "run")
        ));
    }
    if !path.matched.is_empty() {
        if figures {
            for (svg, caption) in plot::draw_asymmetry_figures(path) {
                document.parts.push(DocumentPart::Drawing { svg, caption });
            }
        }
        document.heading(3, "(forward - reverse) / (forward + reverse)");
        document
            .parts
            .push(DocumentPart::Verbatim(draw_histogram(path)));
        document.heading(3, "Runs");
        document
            .parts
            .push(DocumentPart::Table(build_run_table(path)));
    }
    add_causes(document, &path.causes);
}

fn describe_ratio(path: &PathAsymmetry) -> String {
    let Some(ratio) = path.median_ratio else {
        return String::from("No two runs of the two directions lie near enough in time.");
    };
    let interval = path
        .median_interval_ratio
        .map_or_else(String::new, |[low, high]| {
            format!(", 95 % between {low:.2} and {high:.2}")
        });
    let told = match path.verdict {
        AsymmetryVerdict::ForwardFaster => "forward is the faster",
        AsymmetryVerdict::ReverseFaster => "reverse is the faster",
        AsymmetryVerdict::NoneSeen => "no difference is seen that chance would not make",
        AsymmetryVerdict::CannotTell => "too few runs to tell: six pairs are the least",
    };
    let p = path.p_value.map_or_else(String::new, |p| {
        format!(
            " (sign test, p {})",
            change_format::format_probability(Some(p))
        )
    });
    format!(
        "Forward carries {ratio:.2} times what reverse does, the middle of {}{interval}: {told}{p}.",
        count_of(path.matched.len() as u64, "matched pair")
    )
}

/// Draws the histogram as text.
fn draw_histogram(path: &PathAsymmetry) -> String {
    let most = path
        .histogram
        .iter()
        .map(|bin| bin.cells)
        .max()
        .unwrap_or(1)
        .max(1);
    let filled = |bin: &&longhaul_model::report::v1::scan::HistogramBin| bin.cells > 0;
    let first = path
        .histogram
        .iter()
        .position(|bin| filled(&bin))
        .unwrap_or(0);
    let last = path
        .histogram
        .iter()
        .rposition(|bin| filled(&bin))
        .unwrap_or(0);
    let line = |bin: &longhaul_model::report::v1::scan::HistogramBin| {
        let long = (bin.cells * BAR).div_ceil(most) as usize;
        format!(
            "{:>5.1} to {:>4.1}  {} {}",
            bin.from_ratio,
            bin.to_ratio,
            "█".repeat(long),
            bin.cells
        )
    };
    let lines: Vec<String> = path.histogram[first..=last].iter().map(line).collect();
    lines.join("\n")
}

fn build_run_table(path: &PathAsymmetry) -> DocumentTable {
    let mut table = DocumentTable {
        columns: vec![
            ("when", ColumnAlign::Left),
            ("forward", ColumnAlign::Right),
            ("reverse", ColumnAlign::Right),
            ("ratio", ColumnAlign::Right),
            ("apart", ColumnAlign::Right),
        ],
        ..DocumentTable::default()
    };
    let hidden = path.matched.len().saturating_sub(MAX_ROWS);
    for matched in &path.matched[hidden..] {
        table.rows.push(vec![
            change_format::format_moment(matched.at_us),
            format_rate(matched.forward_bps),
            format_rate(matched.reverse_bps),
            format!("{:.2}", matched.forward_by_reverse_ratio),
            format_time_apart(matched.apart_us),
        ]);
    }
    table
}

/// Formats the time between two runs; runs of one report have none.
fn format_time_apart(us: i64) -> String {
    match us {
        0 => String::from("0 s"),
        us => format_micros(us.unsigned_abs()),
    }
}

fn add_causes(document: &mut ReportDocument, causes: &[ReportFinding]) {
    if causes.is_empty() {
        return;
    }
    document.heading(3, "Why");
    for finding in causes {
        document.paragraph(format!(
            "{} ({}, {:.2} of 1).",
            finding.summary.trim_end_matches('.'),
            finding.cause.replace('_', " "),
            finding.confidence_ratio
        ));
        let mut lines = finding.supports.clone();
        lines.extend(finding.advice.iter().map(|advice| {
            let command = advice.command.as_ref();
            let command = command.map_or_else(String::new, |it| format!(": {it}"));
            format!("to do: {}{command}", advice.text)
        }));
        document.list(lines);
    }
}
