//! How many settings have which asymmetry, (forward - reverse) / (forward + reverse).

use super::colours;
use super::frame::{self, FOOT, HEAD, MARGIN, ticks};
use super::sheet::{Anchor, BLACK, FAINT, GREY, Sheet};
use longhaul_model::report::v1::Scan;
use longhaul_model::report::v1::scan::Asymmetry;

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 70.0;
/// Letters of a line of text across the figure.
const LINE_LETTERS: usize = 105;
const MOST_LINES: usize = 3;

pub fn sheet(scan: &Scan) -> Sheet {
    let mut sheet = Sheet::new(WIDTH, HEIGHT);
    let under = format!(
        "(forward - reverse) / (forward + reverse) of each setting; forward: {}",
        frame::ends(&scan.run, true)
    );
    frame::frame(
        &mut sheet,
        "Asymmetry of the two directions",
        &under,
        &scan.run,
    );
    match &scan.analysis.asymmetry {
        Some(found) if !found.histogram.is_empty() => histogram(&mut sheet, found),
        _ => sheet.text(
            (MARGIN, HEAD + 20.0),
            "No setting was measured in both directions.",
            16.0,
            BLACK,
            Anchor::Left,
        ),
    }
    sheet
}

fn histogram(sheet: &mut Sheet, found: &Asymmetry) {
    let (top, bottom) = (HEAD + 24.0, HEIGHT - FOOT - 120.0);
    let (left, right) = (MARGIN + LEFT, WIDTH - MARGIN);
    let x = |ratio: f64| left + (ratio.clamp(-1.0, 1.0) + 1.0) / 2.0 * (right - left);
    let most = found.histogram.iter().map(|b| b.cells).max().unwrap_or(0);
    let mut ticks = ticks(f64::from(most.max(4)));
    ticks.retain(|t| t.fract() == 0.0);
    let highest = ticks.last().copied().unwrap_or(1.0);
    let y = |cells: f64| bottom - cells / highest.max(1.0) * (bottom - top);
    for tick in &ticks {
        sheet.line(&[(left, y(*tick)), (right, y(*tick))], FAINT, 1.0);
        sheet.text(
            (left - 8.0, y(*tick)),
            format!("{tick}"),
            13.0,
            BLACK,
            Anchor::Right,
        );
    }
    for bin in found.histogram.iter().filter(|b| b.cells > 0) {
        let from = (x(bin.from_ratio) + 1.0, y(f64::from(bin.cells)));
        sheet.fill(from, (x(bin.to_ratio) - 1.0, bottom), colours::scale(0.4));
    }
    for fifth in -5..=5 {
        let ratio = f64::from(fifth) / 5.0;
        sheet.line(&[(x(ratio), bottom), (x(ratio), bottom + 5.0)], GREY, 1.0);
        sheet.text(
            (x(ratio), bottom + 16.0),
            format!("{ratio}"),
            13.0,
            BLACK,
            Anchor::Middle,
        );
    }
    sheet.line(&[(left, bottom), (right, bottom)], GREY, 1.0);
    sheet.dashes(
        (x(found.median_ratio), top - 8.0),
        (x(found.median_ratio), bottom),
        BLACK,
    );
    let anchor = if found.median_ratio > 0.6 {
        Anchor::Right
    } else {
        Anchor::Left
    };
    let aside = if anchor == Anchor::Right { -6.0 } else { 6.0 };
    let median = format!("median {:+.2}", found.median_ratio);
    sheet.text(
        (x(found.median_ratio) + aside, top - 10.0),
        median,
        13.0,
        BLACK,
        anchor,
    );
    sheet.text(
        (left, bottom + 38.0),
        "reverse is faster",
        13.0,
        GREY,
        Anchor::Left,
    );
    sheet.text(
        (x(0.0), bottom + 38.0),
        "asymmetry",
        13.0,
        GREY,
        Anchor::Middle,
    );
    sheet.text(
        (right, bottom + 38.0),
        "forward is faster",
        13.0,
        GREY,
        Anchor::Right,
    );
    sheet.text(
        (MARGIN + 12.0, f64::midpoint(top, bottom)),
        "settings",
        13.0,
        GREY,
        Anchor::Upward,
    );
    let cause = found.cause.as_deref().unwrap_or_default();
    for (index, line) in wrapped(cause).iter().enumerate() {
        let y = bottom + 64.0 + 18.0 * index as f64;
        sheet.text((MARGIN, y), line.as_str(), 14.0, BLACK, Anchor::Left);
    }
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= LINE_LETTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(frame::short(word)),
        }
    }
    lines.truncate(MOST_LINES);
    lines
}
