//! The files of a load report.

use crate::command_failure::{CommandFailure, HOST};
use longhaul_model::report::v1::LoadReport;
use longhaul_report::plot;
use std::path::{Path, PathBuf};

/// Fails before a long run if the plots cannot be written.
pub fn check_load_plots(pictures: &[PathBuf]) -> Result<(), CommandFailure> {
    Ok(pictures.iter().try_for_each(|path| plot::check_figure_path(path))?)
}

/// Writes every requested file.
pub fn write_load_files(
    pictures: &[PathBuf],
    csv: Option<&Path>,
    load: &LoadReport,
) -> Result<(), CommandFailure> {
    if let Some(path) = csv {
        std::fs::write(path, longhaul_report::load_text::load_csv::render_load_csv(load)).map_err(
            |e| {
                let mut fail =
                    CommandFailure::new(HOST, format!("cannot write {}", path.display()));
                fail.causes.push(e.to_string());
                fail.hint(Some("write it elsewhere with `longhaul report show last --csv FILE`"))
            },
        )?;
    }
    Ok(pictures.iter().try_for_each(|path| plot::write_load_figure(load, path))?)
}
