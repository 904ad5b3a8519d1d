//! The files of a scan.

use crate::cli::args::ScanFilesArgs;
use crate::fail::{Fail, HOST};
use crate::plot::{self, Figure};
use crate::render;
use longhaul_model::report::v1::Scan;

/// Writes every requested file.
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

/// Returns true if any file is requested.
pub fn any(files: &ScanFilesArgs) -> bool {
    let pictures = [&files.plot, &files.plot_curves, &files.plot_asymmetry];
    files.csv.is_some() || pictures.iter().any(|paths| !paths.is_empty())
}
