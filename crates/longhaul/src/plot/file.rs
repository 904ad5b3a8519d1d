//! How a figure reaches the disk: whole or not at all, and over nothing but a regular file.

use crate::fail::{Fail, USAGE};
use std::path::Path;

/// What an extension stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Svg,
    Png,
}

/// The format that the extension of `to` asks for.
pub fn format(to: &Path) -> Result<Format, Fail> {
    let extension = to.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "svg" => Ok(Format::Svg),
        "png" => Ok(Format::Png),
        _ => Err(
            Fail::new(USAGE, format!("cannot draw a figure to {}", to.display())).hint(Some(
                "a figure's file ends in .svg (scalable, for documents) or .png",
            )),
        ),
    }
}
