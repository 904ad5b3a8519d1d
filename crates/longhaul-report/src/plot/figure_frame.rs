//! The common parts of figures: title, source, and number formats.

use super::figure_sheet::{BLACK, FigureSheet, GREY, TextAnchor};
use longhaul_model::report::v1::RunInfo;

/// The height above the first panel, and below the last one.
pub const HEAD: f64 = 64.0;
pub const FOOT: f64 = 40.0;
pub const MARGIN: f64 = 24.0;
const MAX_NAME_LETTERS: usize = 40;

/// Returns a sheet with the title, the subtitle, and the line with the source of the figure.
pub fn begin_figure(
    width: f64,
    height: f64,
    title: &str,
    under: &str,
    run: &RunInfo,
) -> FigureSheet {
    let mut sheet = FigureSheet::new(width, height);
    sheet.text((MARGIN, 24.0), title, 22.0, BLACK, TextAnchor::Left);
    sheet.text((MARGIN, 48.0), under, 14.0, GREY, TextAnchor::Left);
    let date = run.started_at.get(..16).unwrap_or(&run.started_at).replace('T', " ");
    let source = format!(
        "run {}, {date} UTC, longhaul {}",
        shorten_name(&run.id),
        shorten_name(&run.longhaul)
    );
    let foot = f64::from(sheet.height) - 16.0;
    sheet.faint_label((MARGIN, foot), source, TextAnchor::Left);
    sheet
}

/// Draws the reason why a figure is empty.
pub fn draw_note(sheet: &mut FigureSheet, text: &str) {
    sheet.heading((MARGIN, HEAD + 20.0), text);
}

/// Returns `near to far` for one direction.
pub fn describe_ends(run: &RunInfo, forward: bool) -> String {
    let (from, to) =
        if forward { (&run.initiator, &run.responder) } else { (&run.responder, &run.initiator) };
    format!("{} to {}", shorten_name(&from.host), shorten_name(&to.host))
}

/// Shortens names, so that they fit the figure.
pub fn shorten_name(name: &str) -> String {
    if name.chars().count() <= MAX_NAME_LETTERS {
        return name.to_owned();
    }
    let kept: String = name.chars().take(MAX_NAME_LETTERS - 1).collect();
    format!("{kept}…")
}

/// The least maximum of an axis: below it, the step between ticks would be 0.
const MIN_VALUE: f64 = 1e-300;
/// The maximum number of ticks of an axis; a figure with more would be unreadable.
const MAX_TICKS: f64 = 500.0;

/// Returns the number of steps that cover a range, bounded whatever the range is.
pub fn count_ticks(steps: f64) -> u32 {
    steps.ceil().clamp(1.0, MAX_TICKS) as u32
}

/// Returns about five round values from 0 to at least `most`.
pub fn round_ticks(most: f64) -> Vec<f64> {
    let most = if most.is_finite() && most > 0.0 { most.max(MIN_VALUE) } else { 1.0 };
    let rough = most / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(rough);
    (0..=count_ticks(most / step)).map(|i| f64::from(i) * step).collect()
}
