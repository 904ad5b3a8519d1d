//! A scan as text.

use longhaul_model::report::v1::Scan;

pub fn report(report: &Scan) -> String {
    format!("run {}\n", report.run.id)
}
