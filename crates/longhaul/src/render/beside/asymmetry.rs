//! Comparison of the two directions of paths.

use super::caveats;
use super::words;
use crate::plot;
use crate::render::document::{Align, Document, Part, Table};
use crate::render::figures::{count_of, duration, rate};
use longhaul_model::report::v1::Finding;
use longhaul_model::report::v1::asymmetry::{Asymmetry, PathAsymmetry, Verdict};

/// The maximum number of matched runs in a table; the latest are shown.
const MOST_ROWS: usize = 24;
/// Width of the longest bar.
const BAR: u32 = 40;

/// Builds the document; `figures` adds drawings.
pub fn document(asymmetry: &Asymmetry, figures: bool) -> Document {
    let title = match asymmetry.paths.as_slice() {
        [path] => format!("{} and back", words::pair(&path.pair)),
        _ => String::from("Asymmetry of paths"),
    };
    let mut document = Document {
        title,
        foot: format!("longhaul {} from its archive", asymmetry.longhaul),
        parts: Vec::new(),
    };
    document.faint(format!(
        "Goodput forward by goodput in reverse, of runs no more than {} apart.",
        duration(asymmetry.most_apart_us)
    ));
    caveats(&mut document, &asymmetry.caveats);
    for path in &asymmetry.paths {
        document.heading(2, words::pair(&path.pair));
        one(&mut document, path, figures);
    }
    document
}

fn one(document: &mut Document, path: &PathAsymmetry, figures: bool) {
    document.paragraph(sentence(path));
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
            for (svg, caption) in plot::asymmetry_figures(path) {
                document.parts.push(Part::Drawing { svg, caption });
            }
        }
        document.heading(3, "(forward - reverse) / (forward + reverse)");
        document.parts.push(Part::Verbatim(bars(path)));
        document.heading(3, "Runs");
        document.parts.push(Part::Table(series(path)));
    }
    causes(document, &path.causes);
}

fn sentence(path: &PathAsymmetry) -> String {
    let Some(ratio) = path.median_ratio else {
        return String::from("No two runs of the two directions lie near enough in time.");
    };
    let interval = path
        .median_interval_ratio
        .map_or_else(String::new, |[low, high]| {
            format!(", 95 % between {low:.2} and {high:.2}")
        });
    let told = match path.verdict {
        Verdict::ForwardFaster => "forward is the faster",
        Verdict::ReverseFaster => "reverse is the faster",
        Verdict::NoneSeen => "no difference is seen that chance would not make",
        Verdict::CannotTell => "too few runs to tell: six pairs are the least",
    };
    let p = path.p_value.map_or_else(String::new, |p| {
        format!(" (sign test, p {})", words::probability(Some(p)))
    });
    format!(
        "Forward carries {ratio:.2} times what reverse does, the middle of {}{interval}: {told}{p}.",
        count_of(path.matched.len() as u64, "matched pair")
    )
}

/// Draws the histogram as text.
fn bars(path: &PathAsymmetry) -> String {
    let most = path
        .histogram
        .iter()
        .map(|bin| bin.cells)
        .max()
        .unwrap_or(1)
        .max(1);
    let filled = |bin: &&longhaul_model::report::v1::scan::Bin| bin.cells > 0;
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
    let line = |bin: &longhaul_model::report::v1::scan::Bin| {
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

fn series(path: &PathAsymmetry) -> Table {
    let mut table = Table {
        columns: vec![
            ("when", Align::Left),
            ("forward", Align::Right),
            ("reverse", Align::Right),
            ("ratio", Align::Right),
            ("apart", Align::Right),
        ],
        ..Table::default()
    };
    let hidden = path.matched.len().saturating_sub(MOST_ROWS);
    for matched in &path.matched[hidden..] {
        table.rows.push(vec![
            words::moment(matched.at_us),
            rate(matched.forward_bps),
            rate(matched.reverse_bps),
            format!("{:.2}", matched.forward_by_reverse_ratio),
            apart(matched.apart_us),
        ]);
    }
    table
}

/// Formats the time between two runs; runs of one report have none.
fn apart(us: i64) -> String {
    match us {
        0 => String::from("0 s"),
        us => duration(us.unsigned_abs()),
    }
}

fn causes(document: &mut Document, causes: &[Finding]) {
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
