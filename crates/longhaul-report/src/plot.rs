//! Figures of scans, predictions, loads and comparisons, as SVG.
//!
//! Read in this order: [`mod@figure_file`] (writes figure files), [`figure_sheet`] (marks as SVG),
//! [`figure_frame`] (title, source, numbers), [`figure_colours`], [`chart_panel`] (axes);
//! then one file for each figure.

mod chart_panel;
mod figure_colours;
mod figure_file;
mod figure_frame;
mod figure_sheet;
mod goodput_chart;
mod heat_map;
mod level_chart;
mod load_chart;
mod prediction_curves;

#[cfg(test)]
mod tests;

pub use figure_file::{FigureError, check_replaceable, replace_file};
pub use figure_sheet::FigureSheet;
pub use goodput_chart::draw_goodput_chart;
pub use heat_map::draw_heat_map;
pub use level_chart::draw_case_figures;
pub use load_chart::draw_load_chart;
pub use prediction_curves::draw_prediction;

use std::path::Path;

/// Writes a figure to a new or regular file, as SVG.
pub fn write_figure(to: &Path, figure: &FigureSheet) -> Result<(), FigureError> {
    replace_file(to, figure.svg().as_bytes())
}
