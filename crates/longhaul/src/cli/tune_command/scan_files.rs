//! The files of a scan.

use crate::cli::args::ScanFilesArgs;
use crate::command_failure::{CommandFailure, HOST};
use longhaul_model::report::v1::ScanReport;
use longhaul_report::plot::{self, ScanFigure};

/// Writes every requested file.
pub fn write_scan_files(files: &ScanFilesArgs, scan: &ScanReport) -> Result<(), CommandFailure> {
    if let Some(path) = &files.csv {
        std::fs::write(path, longhaul_report::scan_text::scan_csv::render_scan_csv(scan)).map_err(
            |e| {
                let mut fail =
                    CommandFailure::new(HOST, format!("cannot write {}", path.display()));
                fail.causes.push(e.to_string());
                fail.hint(Some("write it elsewhere with `longhaul report show last --csv FILE`"))
            },
        )?;
    }
    for (paths, figure) in [
        (&files.plot, ScanFigure::HeatMap),
        (&files.plot_curves, ScanFigure::Curves),
        (&files.plot_asymmetry, ScanFigure::Asymmetry),
    ] {
        for path in paths {
            plot::write_scan_figure(scan, path, figure)?;
        }
    }
    Ok(())
}

/// Returns true if any file is requested.
pub fn any_file_requested(files: &ScanFilesArgs) -> bool {
    let pictures = [&files.plot, &files.plot_curves, &files.plot_asymmetry];
    files.csv.is_some() || pictures.iter().any(|paths| !paths.is_empty())
}
