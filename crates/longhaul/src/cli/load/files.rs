//! The files of a load report.

use crate::fail::{Fail, HOST};
use crate::{plot, render};
use longhaul_model::report::v1::Load;
use std::path::{Path, PathBuf};

/// Fails before a long run if the plots cannot be written.
pub fn check(pictures: &[PathBuf]) -> Result<(), Fail> {
    pictures.iter().try_for_each(|path| plot::check(path))
}

/// Writes every requested file.
pub fn write(pictures: &[PathBuf], csv: Option<&Path>, load: &Load) -> Result<(), Fail> {
    if let Some(path) = csv {
        std::fs::write(path, render::load::csv::table(load)).map_err(|e| {
            let mut fail = Fail::new(HOST, format!("cannot write {}", path.display()));
            fail.causes.push(e.to_string());
            fail.hint(Some(
                "`longhaul report show last --csv FILE` writes it elsewhere",
            ))
        })?;
    }
    pictures
        .iter()
        .try_for_each(|path| plot::write_load(load, path))
}
