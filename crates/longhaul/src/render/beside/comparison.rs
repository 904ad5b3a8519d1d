//! Comparison of two sets of runs.

use super::case::{change_table, row};
use super::caveats;
use super::words::{self, METHOD};
use crate::render::document::{Document, Part};
use crate::render::figures::count_of;
use longhaul_model::report::v1::comparison::{Change, Comparison, Side, Verdict};
use longhaul_model::report::v1::series::Pair;
use std::collections::BTreeSet;

pub fn document(comparison: &Comparison) -> Document {
    let mut document = Document {
        title: format!("{} and {}", comparison.a.asked, comparison.b.asked),
        foot: format!("longhaul {}", comparison.longhaul),
        parts: Vec::new(),
    };
    let facts = [("A, before", &comparison.a), ("B, after", &comparison.b)];
    let facts = facts.map(|(label, side)| (label.to_owned(), told(side)));
    document.parts.push(Part::Facts(facts.to_vec()));
    if let Some(first) = comparison.changes.first() {
        document.heading(2, sentence(first));
    }
    caveats(&mut document, &comparison.caveats);
    let pairs: BTreeSet<&Pair> = comparison.changes.iter().map(|c| &c.pair).collect();
    for pair in &pairs {
        if pairs.len() > 1 {
            document.heading(3, words::pair(pair));
        }
        let mut table = change_table();
        for change in comparison
            .changes
            .iter()
            .filter(|change| change.pair == **pair)
        {
            row(
                &mut table,
                words::quantity(change.quantity).to_owned(),
                change,
            );
        }
        document.parts.push(Part::Table(table));
    }
    if pairs.is_empty() {
        document.paragraph("Neither set has a value that can be compared.");
    } else {
        document.faint(METHOD);
    }
    document
}

fn told(side: &Side) -> String {
    let runs = count_of(side.run_ids.len() as u64, "run");
    match (side.period, side.run_ids.as_slice()) {
        (Some(period), [only]) => format!("{only}, {}", words::moment(period.begin_us)),
        (Some(period), _) => format!("{runs}, {}", words::period(period)),
        (None, _) => runs,
    }
}

/// Describes the first change in one line.
fn sentence(change: &Change) -> String {
    let what = format!("{} {}", change.quantity.title(), words::pair(&change.pair));
    let p = words::probability(change.p_adjusted);
    match change.verdict {
        Verdict::Fell | Verdict::Rose => format!(
            "{what} {} by {} (95 %: {}; p {p})",
            words::verdict(change.verdict),
            words::size(change).trim_start_matches(['-', '+']),
            words::interval(change)
        ),
        Verdict::NoChangeSeen => format!(
            "{what}: no change seen ({}; 95 %: {}; p {p})",
            words::size(change),
            words::interval(change)
        ),
        Verdict::CannotTell => format!(
            "{what}: {}, and so few values cannot tell whether that is chance",
            words::size(change)
        ),
        Verdict::NotMeasured => format!("{what}: not measured on both sides"),
    }
}
