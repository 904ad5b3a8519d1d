//! Comparison of two sets of runs.

use super::case_document::build_change_table;
use super::change_format::{self, METHOD_NOTE};
use crate::document::ReportDocument;
use crate::number_format::count_of;
use longhaul_model::report::v1::{
    ChangeVerdict, ComparisonReport, ComparisonSide, HostPair, QuantityChange,
};
use std::collections::BTreeSet;

pub fn build_comparison_document(comparison: &ComparisonReport) -> ReportDocument {
    let mut document = ReportDocument {
        title: format!("{} and {}", comparison.a.asked, comparison.b.asked),
        foot: format!("longhaul {}", comparison.longhaul),
        ..ReportDocument::default()
    };
    document.fact("A, before", describe_side(&comparison.a));
    document.fact("B, after", describe_side(&comparison.b));
    if let Some(first) = comparison.changes.first() {
        document.heading(2, describe_change(first));
    }
    document.caveats(&comparison.caveats);
    let pairs: BTreeSet<&HostPair> = comparison.changes.iter().map(|c| &c.pair).collect();
    for pair in &pairs {
        if pairs.len() > 1 {
            document.heading(3, change_format::format_pair(pair));
        }
        let of_pair = comparison.changes.iter().filter(|change| change.pair == **pair);
        document.table(build_change_table(of_pair, change_format::format_change));
    }
    if pairs.is_empty() {
        document.paragraph("The two sets have no values to compare.");
    } else {
        document.faint(METHOD_NOTE);
    }
    document
}

fn describe_side(side: &ComparisonSide) -> String {
    let runs = count_of(side.run_ids.len() as u64, "run");
    match (side.period, side.run_ids.as_slice()) {
        (Some(period), [only]) => {
            format!("{only}, {}", change_format::format_moment(period.begin_us))
        }
        (Some(period), _) => format!("{runs}, {}", change_format::format_period(period)),
        (None, _) => runs,
    }
}

/// Describes the first change in one line.
fn describe_change(change: &QuantityChange) -> String {
    let what = format!("{} {}", change.quantity.title(), change_format::format_pair(&change.pair));
    let p = change_format::format_probability(change.p_adjusted);
    match change.verdict {
        ChangeVerdict::Fell | ChangeVerdict::Rose => format!(
            "{what} {} by {} (95 %: {}; p {p})",
            change_format::verdict_label(change.verdict),
            change_format::format_change(change).trim_start_matches(['-', '+']),
            change_format::format_change_interval(change)
        ),
        ChangeVerdict::NoChangeSeen => format!(
            "{what}: no significant change ({}; 95 %: {}; p {p})",
            change_format::format_change(change),
            change_format::format_change_interval(change)
        ),
        ChangeVerdict::CannotTell => {
            let told = change_format::describe_few_values(change);
            let size = change_format::format_change(change);
            format!("{what}: {size}, but {}", told.unwrap_or_default())
        }
        ChangeVerdict::NotMeasured => format!("{what}: not measured in both sets"),
    }
}
