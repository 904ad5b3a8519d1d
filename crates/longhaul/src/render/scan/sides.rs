//! Comparison of the two directions of a scan.

use super::words;
use crate::render::figures::rate;
use crate::render::page::Page;
use crate::render::style::{FAINT, STRONG, paint};
use longhaul_model::report::v1::scan::{Asymmetry, Bin};

/// The maximum number of settings listed.
const ROWS_MOST: usize = 24;
/// Width of the longest bar of the histogram.
const BAR: u32 = 40;

/// Writes the asymmetry of each setting, its histogram and its cause.
pub fn asymmetry(page: &mut Page, asymmetry: &Asymmetry) {
    page.heading("ASYMMETRY: (forward - reverse) / (forward + reverse)");
    page.labelled("median", &format!("{:+.3}", asymmetry.median_ratio));
    if let Some(cause) = &asymmetry.cause {
        page.labelled("cause", cause);
    }
    page.line(&paint(
        STRONG,
        format!(
            "{:<22}{:>15}{:>16}{:>8}  limited by",
            "streams x window", "forward", "reverse", ""
        ),
    ));
    for cell in asymmetry.cells.iter().take(ROWS_MOST) {
        let limits = match (cell.forward_limited_by, cell.reverse_limited_by) {
            (one, other) if one == other => words::limit(one).to_owned(),
            (one, other) => format!("{}/{}", words::limit(one), words::limit(other)),
        };
        let row = format!(
            "{:<22}{:>15}{:>16}{:>+8.3}  ",
            words::short(&cell.setting),
            rate(cell.forward_bps),
            rate(cell.reverse_bps),
            cell.asymmetry_ratio
        );
        page.hanging(&row, &limits);
    }
    if asymmetry.cells.len() > ROWS_MOST {
        let more = asymmetry.cells.len() - ROWS_MOST;
        page.line(&paint(
            FAINT,
            format!("{more} more settings; --json has every one"),
        ));
    }
    histogram(page, &asymmetry.histogram);
}

fn histogram(page: &mut Page, bins: &[Bin]) {
    let most = bins.iter().map(|bin| bin.cells).max().unwrap_or(0);
    if most == 0 {
        return;
    }
    page.blank();
    page.line(&paint(STRONG, format!("{:<18}{:>6}", "asymmetry", "cells")));
    // Empty bins at both ends are omitted.
    let taken = |bin: &Bin| bin.cells > 0;
    let first = bins.iter().position(taken).unwrap_or(0);
    let last = bins.iter().rposition(taken).unwrap_or(0);
    for bin in &bins[first..=last] {
        let range = format!("{:+.1} to {:+.1}", bin.from_ratio, bin.to_ratio);
        let bar =
            "#".repeat((u64::from(bin.cells) * u64::from(BAR)).div_ceil(u64::from(most)) as usize);
        page.line(&format!("{range:<18}{:>6}  {bar}", bin.cells));
    }
}
