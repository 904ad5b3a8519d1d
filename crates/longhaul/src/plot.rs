//! Figures of scans, predictions and loads, as SVG or PNG by the file's extension.
//!
//! Read in this order: [`write()`]; [`mod@file`] (writes figure files), [`sheet`] (marks and how
//! they are painted), [`frame`] (title, source, numbers), [`colours`], [`axes`]; then one file for
//! each figure.

mod asymmetry;
mod axes;
mod beside;
mod colours;
mod course;
mod curves;
mod file;
mod frame;
mod heat;
mod levels;
mod load;
mod map;
mod predicted;
mod sheet;

#[cfg(test)]
mod tests;

pub use beside::{asymmetry_figures, case_figures};
pub use file::{may_replace, replace};

use crate::fail::{BUG, Fail};
use file::Format;
use longhaul_model::report::v1::record::Record;
use longhaul_model::report::v1::{Load, Predict, Scan, Throughput};
use sheet::Sheet;
use std::path::Path;

/// A figure of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Goodput by windows and streams.
    HeatMap,
    /// Goodput against streams, one line for each window.
    Curves,
    /// A histogram of asymmetries.
    Asymmetry,
}

/// Draws a figure of a scan to a new or regular file, in the format of its extension.
pub fn write(scan: &Scan, to: &Path, figure: Figure) -> Result<(), Fail> {
    let draw = match figure {
        Figure::HeatMap => heat::sheet,
        Figure::Curves => curves::sheet,
        Figure::Asymmetry => asymmetry::sheet,
    };
    save(to, || draw(scan))
}

/// Draws measured and predicted goodput, in the same way.
pub fn write_predicted(predict: &Predict, to: &Path) -> Result<(), Fail> {
    save(to, || predicted::sheet(predict))
}

/// Draws loads and their effects on one time axis, in the same way.
pub fn write_load(load: &Load, to: &Path) -> Result<(), Fail> {
    save(to, || load::sheet(load))
}

/// Draws the route of a record on a map, as SVG.
pub fn map_svg(record: &Record) -> Result<String, Fail> {
    painted(&map::sheet(record))
}

/// Draws the goodput of a run over time, as SVG.
pub fn course_svg(run: &Throughput) -> Result<String, Fail> {
    painted(&course::sheet(run))
}

fn painted(sheet: &Sheet) -> Result<String, Fail> {
    sheet.svg().map_err(|error| Fail::from_error(BUG, &error))
}

/// Fails before a long scan if a figure cannot be written.
pub fn check(to: &Path) -> Result<(), Fail> {
    file::format(to)?;
    file::may_replace(to)
}

fn save(to: &Path, draw: impl FnOnce() -> Sheet) -> Result<(), Fail> {
    check(to)?;
    let sheet = draw();
    let painted = match file::format(to)? {
        Format::Svg => sheet.svg().map(String::into_bytes),
        Format::Png => sheet.png(),
    };
    let bytes = painted.map_err(|error| Fail::from_error(BUG, &error))?;
    file::replace(to, &bytes)
}
