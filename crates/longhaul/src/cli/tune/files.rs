//! The files that a scan can be written to.

use crate::cli::args::ScanFilesArgs;
use crate::fail::{Fail, HOST};
use crate::plot::{self, Figure};
use crate::render;
use longhaul_model::report::v1::Scan;

/// Writes every file that was asked for.
pub fn write(files: &ScanFilesArgs, scan: &Scan) -> Result<(), Fail> {
    if let Some(path) = &files.csv {
        std::fs::write(path, render::scan::csv::table(scan)).map_err(|e| {
            let mut fail = Fail::new(HOST, format!("cannot write {}", path.display()));
            fail.causes.push(e.to_string());
            fail.hint(Some(
                "`longhaul report show last --csv FILE` writes it elsewhere",
            ))
        })?;
    }
    for (paths, figure) in [
        (&files.plot, Figure::HeatMap),
        (&files.plot_curves, Figure::Curves),
        (&files.plot_asymmetry, Figure::Asymmetry),
    ] {
        for path in paths {
            plot::write(scan, path, figure)?;
        }
    }
    Ok(())
}

/// Whether any file was asked for.
pub fn any(files: &ScanFilesArgs) -> bool {
    let pictures = [&files.plot, &files.plot_curves, &files.plot_asymmetry];
    files.csv.is_some() || pictures.iter().any(|paths| !paths.is_empty())
}
