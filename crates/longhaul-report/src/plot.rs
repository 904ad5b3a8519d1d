//! Figures of scans, predictions and loads, as SVG.
//!
//! Read in this order: [`write_scan_figure()`]; [`mod@figure_file`] (writes figure files), [`figure_sheet`] (marks, and the
//! SVG of them), [`figure_frame`] (title, source, numbers), [`figure_colours`], [`chart_panel`] (axes);
//! then one file for each figure.

mod asymmetry_histogram;
mod chart_panel;
mod comparison_figures;
mod figure_colours;
mod figure_file;
mod figure_frame;
mod figure_sheet;
mod goodput_chart;
mod goodput_curves;
mod heat_map;
mod level_chart;
mod load_chart;
mod prediction_curves;
mod scan_panels;
mod stream_curves;

#[cfg(test)]
mod tests;

pub use comparison_figures::{draw_asymmetry_figures, draw_case_figures};
pub use figure_file::{FigureError, check_replaceable, replace_file};

use figure_sheet::FigureSheet;
use longhaul_model::report::v1::{LoadReport, PredictionReport, ScanReport, ThroughputReport};
use std::path::Path;

/// A figure of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanFigure {
    /// Goodput by windows and streams.
    HeatMap,
    /// Goodput against streams, one line for each window.
    Curves,
    /// A histogram of asymmetries.
    Asymmetry,
}

/// Draws a figure of a scan to a new or regular file, as SVG.
pub fn write_scan_figure(
    scan: &ScanReport,
    to: &Path,
    figure: ScanFigure,
) -> Result<(), FigureError> {
    let draw = match figure {
        ScanFigure::HeatMap => heat_map::draw_heat_map,
        ScanFigure::Curves => goodput_curves::draw_goodput_curves,
        ScanFigure::Asymmetry => asymmetry_histogram::draw_scan_asymmetry,
    };
    save_figure(to, || draw(scan))
}

/// Draws measured and predicted goodput, in the same way.
pub fn write_prediction_figure(predict: &PredictionReport, to: &Path) -> Result<(), FigureError> {
    save_figure(to, || prediction_curves::draw_prediction(predict))
}

/// Draws loads and their effects on one time axis, in the same way.
pub fn write_load_figure(load: &LoadReport, to: &Path) -> Result<(), FigureError> {
    save_figure(to, || load_chart::draw_load_chart(load))
}

/// Draws the goodput of a run over time, as SVG.
pub fn draw_goodput_svg(run: &ThroughputReport) -> String {
    goodput_chart::draw_goodput_chart(run).svg()
}

/// Fails before a long scan if a figure cannot be written.
pub fn check_figure_path(to: &Path) -> Result<(), FigureError> {
    figure_file::check_extension(to)?;
    figure_file::check_replaceable(to)
}

fn save_figure(to: &Path, draw: impl FnOnce() -> FigureSheet) -> Result<(), FigureError> {
    check_figure_path(to)?;
    figure_file::replace_file(to, draw().svg().as_bytes())
}
